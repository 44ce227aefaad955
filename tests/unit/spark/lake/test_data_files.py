from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.spark.lake.data_files import (
    NULL_PART,
    Contents,
    DataFile,
    TableSize,
    column_ranges,
    parts_of_path,
)


def test_file_without_statistics_may_have_anything() -> None:
    file = DataFile(path="a", byte_count=1, rows=1, parts={}, low={}, high={})
    assert file.may_have("order_ns", 5, 6)


def test_column_ranges_have_integers_short_texts_and_timestamps_without_nulls(
    tmp_path: Path,
) -> None:
    times = [datetime(2026, 11, 15, 14, 3, 7, 1500, tzinfo=UTC)]
    rows = pa.table(
        {
            "number": [3, 1],
            "name": ["a", "b"],
            "time": pa.array([*times, *times], pa.timestamp("us", tz="UTC")),
            "long": ["x" * 33, "y"],
            "some": [None, 1],
            "float": [1.0, 2.0],
        }
    )
    pq.write_table(rows, tmp_path / "a.parquet")
    low, high = column_ranges(pq.read_metadata(tmp_path / "a.parquet"))
    assert low == {"number": 1, "name": "a", "time": "2026-11-15T14:03:07.001Z"}
    assert high == {"number": 3, "name": "b", "time": "2026-11-15T14:03:07.002Z"}


def test_parts_are_read_from_the_names_of_folders() -> None:
    path = f"day=2026-11-15/type=a%2Fb/none={NULL_PART}/x.parquet"
    assert parts_of_path(path) == {"day": "2026-11-15", "type": "a/b", "none": None}


def test_the_size_of_a_table_is_the_sum_of_its_files() -> None:
    files = tuple(
        DataFile(path=f"{n}", byte_count=n, rows=10 * n, parts={}, low={}, high={}) for n in (1, 2)
    )
    size = TableSize.of("t", Contents(files=files, schema=pa.schema([]), divided_by=()))
    assert (size.name, size.rows, size.files, size.byte_count) == ("t", 30, 2, 3)
