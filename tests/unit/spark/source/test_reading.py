"""Batches of segments to rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skerry
from skerry.codec.envelope import GAP, Update
from skerry.errors import PipelineError
from skerry.recording.gaps import Gap, gap_update
from skerry.runtime.recordings.reader import open_recordings
from skerry.spark.lake.schema import RAW, typed_schema
from skerry.spark.source import reading
from skerry.spark.source.options import read_options
from skerry.spark.source.planning import Wanted, runs, segments
from skerry.spark.source.reading import RowShape, read_runs

TYPES = skerry.define_types(
    "struct A { 1: [key] uint8 id; 2: bytes data; } struct B { 1: int8 x; }"
)
A: Any = TYPES.A
READER = typed_schema([A.descriptor]).reader
TYPED = RowShape(
    wanted=Wanted(types=frozenset({"A"})),
    columns=("time_ns", "type", "batch", "id", "unknown"),
    reader=READER,
)


def rows_of(folder: Path, shape: RowShape) -> pa.Table:
    found = read_runs(runs(segments(read_options({"path": str(folder)})), shape.wanted), shape)
    return pa.Table.from_batches(found, shape.schema)


def test_all_columns_of_rows_as_recorded(
    tmp_path: Path, record: Callable[..., Path], update_of: Callable[..., Update]
) -> None:
    update = update_of(A(id=1), time_ns=5, present=2**32 - 1, source="link")
    record(tmp_path, [update], types=[A])
    table = rows_of(tmp_path, RowShape(wanted=Wanted(), columns=tuple(RAW.names)))
    assert table.schema == RAW
    row = table.to_pylist()[-1]
    assert (row["time_ns"], row["present"], row["source"]) == (5, 2**32 - 1, "link")
    assert row["recording"] == open_recordings(tmp_path)[0].id


def test_only_wanted_rows_of_a_batch_are_given(
    tmp_path: Path, record: Callable[..., Path], update_of: Callable[..., Update]
) -> None:
    updates = [update_of(A(id=number), time_ns=number) for number in range(6)]
    gap = gap_update(Gap(count=3), space="test", type_name="A")
    record(tmp_path, [*updates, update_of(TYPES.B(x=1), time_ns=3), gap], types=[A, TYPES.B])
    assert rows_of(tmp_path, TYPED).column("id").to_pylist() == [0, 1, 2, 3, 4, 5]
    some = Wanted(types=frozenset({"A"}), from_ns=2, to_ns=4)
    shape = RowShape(wanted=some, columns=("id",), reader=READER)
    assert rows_of(tmp_path, shape).column("id").to_pylist() == [2, 3]
    none = Wanted(types=frozenset({"A"}), fingerprints=frozenset({1}))
    shape = RowShape(wanted=none, columns=("id",), reader=READER)
    assert rows_of(tmp_path, shape).num_rows == 0
    # Gaps are rows like others where rows are as recorded.
    gaps = rows_of(tmp_path, RowShape(wanted=Wanted(), columns=("operation",)))
    assert gaps.column("operation").to_pylist().count(GAP) == 1


def test_a_batch_with_much_in_it_is_handed_over_in_pieces(
    tmp_path: Path,
    record: Callable[..., Path],
    update_of: Callable[..., Update],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "_PIECE_BYTES_MAX", 1000)
    updates = [update_of(A(id=number, data=bytes(400))) for number in range(5)]
    record(tmp_path, [*updates, update_of(A(id=9, data=bytes(5000)))], types=[A])
    found = runs(segments(read_options({"path": str(tmp_path)})), TYPED.wanted)
    pieces = [batch.column("id").to_pylist() for batch in read_runs(found, TYPED)]
    assert pieces == [[0, 1], [2, 3], [4], [9]]


def test_a_damaged_batch_is_a_gap_unless_that_is_forbidden(
    tmp_path: Path, record: Callable[..., Path], update_of: Callable[..., Update]
) -> None:
    gap = gap_update(Gap(count=1), space="test")
    record(tmp_path, [update_of(A(id=1), time_ns=1)], [gap], types=[A])
    strict = RowShape(wanted=Wanted(), columns=("operation", "space"), is_strict=True)
    # A gap that was recorded is not damage.
    assert GAP in rows_of(tmp_path, strict).column("operation").to_pylist()
    segment = open_recordings(tmp_path)[0].segments()[0]
    batch = next(batch for batch in segment.batches if "A" in batch.types)
    with segment.path.open("r+b") as file:
        file.seek(batch.offset + batch.size - 9)
        file.write(b"\xff\x00\xff")
    lenient = RowShape(wanted=Wanted(), columns=("operation", "space", "time_ns"))
    found = rows_of(tmp_path, lenient).to_pylist()
    assert {"operation": GAP, "space": "test", "time_ns": 1} in found
    with pytest.raises(PipelineError, match=r"batch \d of .* is damaged") as caught:
        rows_of(tmp_path, strict)
    assert "strict" in (caught.value.hint or "")
