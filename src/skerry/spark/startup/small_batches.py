"""Settings for frames of few rows: one task, interpreted plans, no shuffle.

Spark is tuned for many rows: it compiles each plan, shuffles rows between tasks, and plans again
after each stage. For some thousand rows this takes far longer than the computation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FEW_ROWS: Final = 300_000
"""Up to this number of rows, one interpreted task ends before a plan for many is compiled."""
FEW_BYTES: Final = 256 * 1024 * 1024
"""Up to this size, one task can sort the rows in memory."""

FOR_FEW: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    # Otherwise Spark formats the plan of each job as text, which is never read.
    "spark.sql.maxPlanStringLength": "0",
    "spark.sql.ui.explainMode": "simple",
}
"""Spark settings for frames of few rows."""


@contextmanager
def few_rows(spark: SparkSession) -> Iterator[None]:
    """Within the context, Spark is tuned for few rows; larger frames are correct but slow."""
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in FOR_FEW}
    try:
        for name, value in FOR_FEW.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)
