"""A segment as a line of the manifest."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skerry.codec.envelope import Update
from skerry.errors import RecordingError
from skerry.recording.index import batch_of_rows, damaged_content, segment_of
from skerry.recording.segment_lines import segment_from_plain, segment_to_plain

BatchOf = Callable[..., pa.RecordBatch]
UpdateOf = Callable[..., Update]


@pytest.fixture
def batches(batch_of: BatchOf, update_of: UpdateOf) -> list[pa.RecordBatch]:
    return [
        batch_of(*(update_of(10 * number + index, sent_ns=-1) for index in range(5)))
        for number in range(1, 5)
    ]


def test_segment_comes_back_from_its_line(batches: list[pa.RecordBatch]) -> None:
    contents = [batch_of_rows(batch, offset=8, size=8, crc=2**32 - 1) for batch in batches]
    segment = segment_of(
        [*contents, damaged_content(8, 16)],
        folder=Path("x"),
        name="01234567-0000000001.arrow",
        line=2,
        byte_count=99,
    )
    line = json.dumps(segment_to_plain(segment))
    assert segment_from_plain(json.loads(line), folder=Path("x"), line=2) == segment
    assert pickle.loads(pickle.dumps(segment)) == segment


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../secret"},
        {"name": "a/b-1.arrow"},
        {"name": 7},
        {"rows": "5"},
        {"rows": None},
        {"types": [1]},
        {"types": {"A": "x"}},
        {"batches": {}},
        {"batches": 3},
        {"batch_types": [7]},
        {"fingerprints": {"A": 5}},
    ],
)
def test_line_that_tells_of_no_segment_is_an_error(
    batches: list[pa.RecordBatch], change: dict[str, Any]
) -> None:
    contents = [batch_of_rows(batch, offset=8, size=8, crc=1) for batch in batches]
    segment = segment_of(contents, folder=Path("x"), name="a-1.arrow", line=0, byte_count=9)
    with pytest.raises(RecordingError, match="line 1 of a manifest"):
        segment_from_plain({**segment_to_plain(segment), **change}, folder=Path("x"), line=0)


def test_columns_of_unequal_length_are_an_error(batches: list[pa.RecordBatch]) -> None:
    contents = [batch_of_rows(batch, offset=8, size=8, crc=1) for batch in batches]
    segment = segment_of(contents, folder=Path("x"), name="a-1.arrow", line=0, byte_count=9)
    plain = segment_to_plain(segment)
    plain["batches"]["rows"].pop()
    with pytest.raises(RecordingError):
        segment_from_plain(plain, folder=Path("x"), line=0)
