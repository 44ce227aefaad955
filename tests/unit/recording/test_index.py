"""The index of a segment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from skerry.codec.envelope import SNAPSHOT, Update
from skerry.recording.format import to_record_batch
from skerry.recording.index import batch_of_columns, batch_of_rows, damaged_content, segment_of
from skerry.recording.rows import Rows

BatchOf = Callable[..., pa.RecordBatch]
UpdateOf = Callable[..., Update]


def test_columns_and_rows_give_the_same_index(update_of: UpdateOf) -> None:
    rows = Rows()
    for number in range(1, 50):
        rows.append_update(update_of(number, type_name="AB"[number % 2], fingerprint=number % 3))
    rows.append_update(update_of(3, type_name="StructDescriptorData", operation=SNAPSHOT))
    rows.append_update(update_of(3, type_name="", position=0, fingerprint=0))
    columns = rows.take()
    written = batch_of_columns(columns, offset=8, size=80, crc=7)
    read = batch_of_rows(to_record_batch(columns), offset=8, size=80, crc=7)
    assert written == read
    assert written.batch.types == ("", "A", "B", "StructDescriptorData")
    assert written.types == {"A": 24, "B": 25, "StructDescriptorData": 1, "": 1}
    assert written.batch.has_descriptors
    assert written.definitions == {(name, n) for name in "AB" for n in range(3)}


def test_segment_sums_up_its_batches(update_of: UpdateOf, batch_of: BatchOf) -> None:
    contents = [
        batch_of_rows(batch_of(update_of(5), update_of(3)), offset=10, size=20, crc=1),
        damaged_content(30, 40),
        batch_of_rows(
            batch_of(update_of(9, type_name="Port", fingerprint=5)), offset=40, size=5, crc=1
        ),
    ]
    segment = segment_of(contents, folder=Path("x"), name="a.arrow", line=3, byte_count=53)
    assert (segment.rows, segment.byte_count, segment.line) == (3, 53, 3)
    assert (segment.time_min_ns, segment.time_max_ns) == (1003, 1009)
    assert segment.types == {"Port": 1, "Vessel": 2}
    assert segment.fingerprints == {"Port": (5,), "Vessel": (77,)}
    assert segment.path == Path("x", "a.arrow")
    assert segment.batches[1].stop == 40


def test_segment_has_a_path_or_a_uri() -> None:
    here = segment_of([], folder=Path("r"), name="a.arrow", line=0, byte_count=0)
    assert (here.path, here.uri) == (Path("r/a.arrow"), "r/a.arrow")
    there = segment_of([], folder="s3a://bucket/r", name="a.arrow", line=0, byte_count=0)
    assert there.uri == "s3a://bucket/r/a.arrow"
    with pytest.raises(AssertionError, match="is remote"):
        _ = there.path
