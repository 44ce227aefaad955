"""Finding the batches of a segment by scanning its bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest

from skerry.codec.envelope import Update
from skerry.recording.format import END_OF_STREAM, encode_block, encode_head
from skerry.recording.index import NO_CRC, SegmentContent
from skerry.recording.scanning import scan

ID = "0123456789abcdef"
BatchOf = Callable[..., pa.RecordBatch]
UpdateOf = Callable[..., Update]


def stream_of(
    batches: Sequence[pa.RecordBatch], *, recording: str = ID, segment: int = 4
) -> tuple[bytes, list[tuple[int, int]]]:
    """The bytes of a segment without its end, and where the blocks are."""
    data = encode_head(recording, segment)
    places = []
    for number, batch in enumerate(batches):
        block, _ = encode_block(batch, recording=recording, segment=segment, number=number)
        places.append((len(data), len(data) + len(block)))
        data += block
    return data, places


@pytest.fixture
def batches(batch_of: BatchOf, update_of: UpdateOf) -> list[pa.RecordBatch]:
    return [
        batch_of(*(update_of(10 * number + index, sent_ns=-1) for index in range(5)))
        for number in range(1, 5)
    ]


def rows_of(contents: Sequence[SegmentContent]) -> list[int]:
    return [content.batch.rows for content in contents]


def test_scan_finds_every_batch(batches: list[pa.RecordBatch]) -> None:
    data, places = stream_of(batches)
    found = scan(memoryview(data + END_OF_STREAM))
    assert (found.recording, found.number) == (ID, 4)
    assert [(c.batch.offset, c.batch.stop) for c in found.contents] == places
    assert (found.stop, found.tail, found.has_end) == (len(data), 0, True)


def test_truncation_keeps_the_complete_batches(batches: list[pa.RecordBatch]) -> None:
    data, places = stream_of(batches[:2])
    for size in range(len(data) + 1):
        found = scan(memoryview(data[:size]))
        whole = [place for place in places if place[1] <= size]
        assert [(c.batch.offset, c.batch.stop) for c in found.contents] == whole, size
        if size >= places[0][0]:
            # By chance, a batch can be cut where bytes look like the end.
            assert size - found.stop - found.tail == (8 if found.has_end else 0)
            assert found.stop == (whole[-1][1] if whole else places[0][0])


def test_damage_in_the_middle_loses_only_its_batch(batches: list[pa.RecordBatch]) -> None:
    data, places = stream_of(batches)
    start, stop = places[1]
    for place in (start, start + 4, start + 60, (start + stop) // 2, stop - 1):
        damaged = bytearray(data + END_OF_STREAM)
        damaged[place] ^= 0x55
        found = scan(memoryview(damaged))
        assert rows_of(found.contents) == [5, 0, 5, 5], place
        lost = found.contents[1].batch
        assert (lost.offset, lost.stop, lost.crc) == (start, stop, NO_CRC)


def test_damage_of_adjacent_batches_is_one_range(batches: list[pa.RecordBatch]) -> None:
    data, places = stream_of(batches)
    damaged = bytearray(data + END_OF_STREAM)
    for place in (places[1][0], places[2][0]):
        damaged[place] ^= 0x55
    found = scan(memoryview(damaged))
    assert rows_of(found.contents) == [5, 0, 5]
    assert found.contents[1].batch.stop == places[2][1]


def test_damaged_last_batch_is_a_tail(batches: list[pa.RecordBatch]) -> None:
    data, places = stream_of(batches)
    damaged = bytearray(data + END_OF_STREAM)
    damaged[places[3][0] + 100] ^= 1
    found = scan(memoryview(damaged))
    assert rows_of(found.contents) == [5, 5, 5]
    assert (found.stop, found.tail, found.has_end) == (
        places[3][0],
        places[3][1] - places[3][0],
        True,
    )


def test_damaged_header_loses_no_batch(batches: list[pa.RecordBatch]) -> None:
    data, _ = stream_of(batches)
    for place in (0, 5, 300):
        damaged = bytearray(data + END_OF_STREAM)
        damaged[place] ^= 1
        found = scan(memoryview(damaged))
        assert rows_of(found.contents) == [5, 5, 5, 5]
        assert found.recording == ID


def test_zeros_of_a_power_cut_are_a_hole(batches: list[pa.RecordBatch]) -> None:
    data, places = stream_of(batches)
    start, stop = places[2]
    holed = data[:start] + bytes(stop - start) + data[stop:]
    assert rows_of(scan(memoryview(holed)).contents) == [5, 5, 0, 5]


def test_recording_inside_a_payload_does_not_count_as_rows(
    batches: list[pa.RecordBatch], batch_of: BatchOf, update_of: UpdateOf
) -> None:
    inner, _ = stream_of(batches, recording="f" * 16)
    data, places = stream_of([batches[0], batch_of(update_of(payload=inner)), batches[1]])
    damaged = bytearray(data + END_OF_STREAM)
    damaged[places[1][0]] ^= 1
    assert rows_of(scan(memoryview(damaged)).contents) == [5, 0, 5]


@pytest.mark.parametrize("data", [b"", b"x", b"\xff" * 100_000, END_OF_STREAM, bytes(4096)])
def test_invalid_segment_has_no_batches(data: bytes) -> None:
    found = scan(memoryview(data))
    assert (found.recording, found.contents) == ("", ())


def test_block_that_no_recorder_wrote_is_damage(batches: list[pa.RecordBatch]) -> None:
    bad = batches[1]
    column = bad.schema.get_field_index("key")
    offsets = pa.py_buffer(np.array([0, 9000, 1, 2, 3, 4], np.int32).tobytes())
    wrong = pa.Array.from_buffers(pa.binary(), 5, [None, offsets, bad.column(column).buffers()[2]])
    batches[1] = bad.set_column(column, bad.schema.field(column), wrong)
    data, places = stream_of(batches)
    found = scan(memoryview(data + END_OF_STREAM))
    assert rows_of(found.contents) == [5, 0, 5, 5]
    lost = found.contents[1].batch
    assert (lost.offset, lost.stop, lost.crc) == (*places[1], NO_CRC)
