"""How much each table holds, by the logs of the tables; no Spark is needed for it."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, cast

from skerry.spark.lake.lake import Lake
from skerry.spark.report.findings import TableSize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["table_sizes"]


def table_sizes(path: str | PathLike[str]) -> tuple[TableSize, ...]:
    """The tables in a folder, by name."""
    # Logs are read by the Delta library; a session is for rows.
    lake = Lake(cast("SparkSession", None), path)
    return tuple(_size(lake, name) for name in lake.names())


def _size(lake: Lake, name: str) -> TableSize:
    files = lake.table(name).files()
    return TableSize(
        name=name,
        rows=sum(file.rows for file in files),
        files=len(files),
        byte_count=sum(file.byte_count for file in files),
    )
