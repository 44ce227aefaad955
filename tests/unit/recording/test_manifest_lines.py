"""The lines of a manifest: how they are written, their numbers, and what they state."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skerry.codec.envelope import Update
from skerry.recording.index import Segment, batch_of_rows, damaged_content, segment_of
from skerry.recording.manifest_lines import (
    Forgotten,
    ManifestLines,
    Repair,
    dropped_line,
    parse_manifest,
    repaired_line,
    sealed_line,
)

BatchOf = Callable[..., pa.RecordBatch]
UpdateOf = Callable[..., Update]


@pytest.fixture
def segment(batch_of: BatchOf, update_of: UpdateOf) -> Segment:
    """A segment of four batches and a damaged one."""
    batches = [
        batch_of(*(update_of(10 * number + index, sent_ns=-1) for index in range(5)))
        for number in range(1, 5)
    ]
    contents = [batch_of_rows(batch, offset=8, size=8, crc=2**32 - 1) for batch in batches]
    return segment_of(
        [*contents, damaged_content(8, 16)],
        folder=Path("x"),
        name="01234567-0000000001.arrow",
        line=0,
        byte_count=99,
    )


def read(data: bytes, *, has_batches: bool = True) -> ManifestLines:
    lines = ManifestLines(Path("x"), has_batches=has_batches)
    lines.read(BytesIO(data))
    return lines


def lines_of(*events: Any) -> ManifestLines:
    return read("".join(json.dumps(event) + "\n" for event in events).encode())


def numbers_of(lines: ManifestLines) -> list[int]:
    return list(lines._numbers)


def dropped(number: int, **more: Any) -> dict[str, Any]:
    return {**more, "dropped": {"name": f"01234567-{number:010d}.arrow", "reason": "age"}}


def test_segment_is_read_back_from_its_line(segment: Segment) -> None:
    lines = read(sealed_line(segment))
    assert list(lines.segments.values()) == [segment] == [lines.last]
    assert pickle.loads(pickle.dumps(segment)) == segment


def test_batches_are_kept_only_where_asked_for_and_of_the_last_segment(segment: Segment) -> None:
    lines = read(sealed_line(segment), has_batches=False)
    (brief,) = lines.segments.values()
    assert (brief.batches, brief.rows) == ((), segment.rows)
    assert lines.last == segment


def test_drops_and_repairs_are_read_back_from_their_lines(segment: Segment) -> None:
    repair = Repair(name="x", kept_batches=1, kept_rows=2, lost_bytes=3)
    data = sealed_line(segment) + dropped_line(segment.name, "age") + repaired_line(repair)
    lines = parse_manifest(data + b'{"dropped": {"na')
    assert (lines.segments, lines.dropped) == ({}, {segment.name: "age"})
    assert lines.dropped_segments[segment.name].rows == segment.rows
    assert (lines.repairs, lines.unreadable) == ([repair], [])
    assert (lines.count, lines.byte_count) == (3, len(data))


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
def test_line_that_does_not_describe_a_segment_is_unreadable(
    segment: Segment, change: dict[str, Any]
) -> None:
    facts = json.loads(sealed_line(segment))["sealed"]
    lines = lines_of({"sealed": {**facts, **change}})
    assert (lines.segments, lines.unreadable) == ({}, [0])


def test_columns_of_unequal_length_are_unreadable(segment: Segment) -> None:
    event = json.loads(sealed_line(segment))
    event["sealed"]["batches"]["rows"].pop()
    lines = lines_of(event)
    assert (lines.segments, lines.unreadable) == ({}, [0])


def test_line_has_the_number_it_states_or_the_next() -> None:
    lines = lines_of(dropped(1), dropped(2, line=7), dropped(3), dropped(4, line=9))
    assert numbers_of(lines) == [0, 7, 8, 9]
    assert (lines.count, lines.unreadable) == (10, [])


@pytest.mark.parametrize("number", [4, 0, -1, 2**53, 5.0, "7", None, True])
def test_impossible_number_makes_a_line_unreadable(number: Any) -> None:
    lines = lines_of(dropped(1, line=4), dropped(2, line=number), dropped(3))
    assert numbers_of(lines) == [4, 5, 6]
    assert (len(lines.dropped), lines.unreadable) == (2, [5])


def test_unreadable_line_keeps_the_number_it_states() -> None:
    lines = lines_of({"line": 3, "sealed": {}}, dropped(1))
    assert (lines.unreadable, numbers_of(lines)) == ([3], [3, 4])


def test_number_alone_only_counts() -> None:
    lines = lines_of({"line": 3}, dropped(1))
    assert (lines.unreadable, lines.count, len(lines.dropped)) == ([], 5, 1)


@pytest.mark.parametrize("name", ["../x.arrow", "/x.arrow", "x", "", "a/b.arrow", 5, None, ["x"]])
def test_name_that_leads_out_of_the_folder_is_unreadable(name: Any) -> None:
    lines = lines_of({"dropped": {"name": name, "reason": "age"}})
    assert (lines.dropped, lines.unreadable) == ({}, [0])


def test_summary_is_the_first_line_and_has_no_number() -> None:
    summary = {"shortened": {"times": 2, "last_line": 5, "segments": {"age": 3}, "rows": 9}}
    lines = lines_of(summary, dropped(1))
    expected = Forgotten(times=2, last_line=5, segments={"age": 3}, rows=9)
    assert (lines.forgotten, numbers_of(lines)) == (expected, [0])
    lines = lines_of(dropped(1), summary)
    assert (lines.forgotten, lines.unreadable) == (Forgotten(), [1])


@pytest.mark.parametrize(
    "summary",
    [
        5,
        "shortened",
        {"other": 1},
        {"rows": "1"},
        {"segments": {"age": None}},
        {"numbers": [["a", 1]]},
    ],
)
def test_impossible_summary_is_unreadable(summary: Any) -> None:
    lines = lines_of({"shortened": summary}, dropped(1, line=4))
    assert (lines.forgotten, lines.unreadable, lines.count) == (Forgotten(), [0], 5)


def test_line_that_is_nested_too_deep_is_unreadable() -> None:
    lines = read(b"[" * 200_000 + b"\n" + json.dumps(dropped(1)).encode())
    assert (lines.unreadable, lines.count) == ([0], 1)


def test_segment_that_is_dropped_twice_moves_to_the_end() -> None:
    lines = lines_of(dropped(1), dropped(2), dropped(1))
    assert [name[-7] for name in lines.dropped] == ["2", "1"]


def test_reading_continues_behind_the_last_complete_line() -> None:
    data = "".join(json.dumps(dropped(number)) + "\n" for number in range(3)).encode()
    lines = read(data[:-5])
    assert lines.count == 2
    lines.read(BytesIO(data[lines.byte_count :]))
    assert (lines.count, lines.byte_count) == (3, len(data))
    added = json.dumps(dropped(3)).encode() + b"\n"
    lines.add(added)
    assert (lines.count, lines.empty().count) == (4, 0)
    assert lines.head == (data + added)[:256]


def test_shortened_lines_keep_their_numbers(segment: Segment) -> None:
    gone, present = (f"01234567-000000000{n}.arrow" for n in (2, 3))
    data = sealed_line(segment) + dropped_line(gone, "age") + dropped_line(present, "size")
    short = b"".join(
        parse_manifest(data).shortened(BytesIO(data), kept=0, is_present=lambda n: n == present)
    )
    assert [json.loads(line).get("line") for line in short.splitlines()] == [None, 0, 2]
    lines = parse_manifest(short)
    assert (lines.count, list(lines.segments)) == (3, [segment.name])
    assert (lines.dropped, lines.forgotten.segments) == ({present: "size"}, {"age": 1})
