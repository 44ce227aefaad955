"""Tables made without Spark, for tests of what looks at logs only."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.spark.lake.data_files import DataFile, TableChange
from skerry.spark.lake.delta import Table
from skerry.spark.lake.lake import delta_schema
from skerry.spark.lake.store import TableStore

SCHEMA = pa.schema([pa.field("order_ns", pa.int64()), pa.field("hour", pa.string())])


def data_file(root: Path, table: str, name: str, *times: int, hour: str = "h") -> DataFile:
    """A file with these times, which is in no log yet."""
    (root / table / name).parent.mkdir(parents=True, exist_ok=True)
    return stored_file(TableStore(root), table, name, *times, hour=hour)


def stored_file(store: TableStore, table: str, name: str, *times: int, hour: str = "h") -> DataFile:
    """The same wherever the tables are."""
    rows = pa.table({"order_ns": pa.array(times, pa.int64())})
    pq.write_table(rows, store.arrow_path(f"{table}/{name}"), filesystem=store.files)
    return DataFile(
        path=name,
        byte_count=store.files.get_file_info(store.arrow_path(f"{table}/{name}")).size,
        rows=len(times),
        parts={"hour": hour},
        low={"order_ns": min(times)},
        high={"order_ns": max(times)},
    )


def change(table: str, *added: DataFile, removed: tuple[str, ...] = ()) -> TableChange:
    return TableChange(
        table=table,
        schema=delta_schema(SCHEMA),
        divided_by=("hour",),
        added=added,
        removed=removed,
    )


def table_of(root: Path, name: str) -> Table:
    return Table(TableStore(root), name)
