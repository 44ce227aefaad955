from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from skerry.spark.lake.buckets import hour_text
from skerry.spark.lake.data_files import NULL_PART
from skerry.spark.lake.store import TableStore
from skerry.spark.merging.files import (
    conformed_rows,
    read_rows,
    time_parts,
    timestamps,
    write_file,
    write_parts,
)

HOUR_NS = 3_600_000_000_000
NOON_NS = 1_794_751_200_000_000_000
"""2026-11-15T14:00:00Z"""


def test_file_is_described_with_its_rows_parts_and_extremes(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    rows = pa.table({"order_ns": [3, 1], "name": ["a", None]})
    file = write_file(store, "raw", "b1", rows, {"day": "2026-11-15", "type": "a/b=c"})
    assert (file.rows, file.low["order_ns"], file.high["order_ns"]) == (2, 1, 3)
    assert file.path.startswith("b1/day=2026-11-15/type=a%2Fb%3Dc/")
    assert file.byte_count == (tmp_path / "raw" / file.path).stat().st_size
    assert NULL_PART in write_file(store, "raw", "b1", rows, {"type": None}).path


def test_columns_that_a_file_does_not_have_are_null_or_those_of_its_part(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    file = write_file(store, "t", "b", pa.table({"a": pa.array([7], pa.int16())}), {"part": "3"})
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("part", pa.int32())])
    assert read_rows(store, "t", file, schema).to_pylist() == [{"a": 7, "b": None, "part": 3}]
    assert read_rows(store, "t", file, schema, columns=["b"]).to_pylist() == [{"b": None}]


def test_inner_fields_that_are_new_are_null() -> None:
    old = pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())]))
    wide = pa.schema([("s", pa.struct([("x", pa.int64()), ("y", pa.string())]))])
    found = conformed_rows(pa.table({"s": old}), wide).to_pylist()
    assert found == [{"s": {"x": 1, "y": None}}, {"s": None}]


def test_rows_are_cut_where_another_hour_begins(tmp_path: Path) -> None:
    times = np.array([NOON_NS - 1, NOON_NS, NOON_NS + 1, NOON_NS + HOUR_NS])
    cuts = time_parts(times, HOUR_NS, hour_text)
    assert cuts == [
        (("2026-11-15T13",), 0, 1),
        (("2026-11-15T14",), 1, 3),
        (("2026-11-15T15",), 3, 4),
    ]
    assert time_parts(times[:0], HOUR_NS, hour_text) == []
    rows = pa.table({"order_ns": times})
    files = list(write_parts(TableStore(tmp_path), "t", "b", rows, ("hour",), cuts))
    assert [(file.parts["hour"], file.rows) for file in files] == [
        ("2026-11-15T13", 1),
        ("2026-11-15T14", 2),
        ("2026-11-15T15", 1),
    ]


def test_timestamps_are_rounded_down_also_before_1970() -> None:
    (moment, none) = timestamps(np.array([-1, 5]), np.array([False, True])).to_pylist()
    assert (moment.microsecond, none) == (999_999, None)
