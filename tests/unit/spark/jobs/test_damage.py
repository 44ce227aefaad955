from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.errors import RecordingError
from skerry.runtime.recordings.reader import open_recordings
from skerry.spark.jobs.damage import damaged_segments, is_damaged
from tests.spark.lakes import Teller, record

T: Any = skerry.define_types("struct T { 1: [key] uint8 a; 2: string b; }").T
NO_SPARK: Any = None


def test_changed_byte_is_found(tmp_path: Path) -> None:
    teller = Teller()
    for number in range(2):
        record(tmp_path, [teller.create(T(a=number, b="text"))], T)
    (recording,) = open_recordings(tmp_path)
    whole, broken = recording.segments()
    assert damaged_segments(NO_SPARK, [whole, broken]) == set()
    data = bytearray(broken.path.read_bytes())
    data[broken.batches[0].offset + broken.batches[0].size - 9] ^= 1
    broken.path.write_bytes(data)
    assert damaged_segments(NO_SPARK, [whole, broken]) == {broken.name}
    broken.path.write_bytes(data[: broken.batches[0].offset + 10])
    assert is_damaged(broken)


def test_segment_that_is_gone_is_an_error(tmp_path: Path) -> None:
    record(tmp_path, [Teller().create(T(a=1))], T)
    (segment,) = open_recordings(tmp_path)[0].segments()
    segment.path.unlink()
    with pytest.raises(RecordingError):
        is_damaged(segment)
