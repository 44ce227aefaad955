"""Rows as bytes of a segment: readable by Arrow, with detection of damage."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skerry.codec.envelope import Update
from skerry.errors import RecordingError
from skerry.recording.columns import SCHEMA
from skerry.recording.format import (
    END_OF_STREAM,
    block_at,
    decode_block,
    encode_block,
    encode_head,
    head_at,
    head_size,
)

ID = "0123456789abcdef"
BatchOf = Callable[..., pa.RecordBatch]
UpdateOf = Callable[..., Update]


def block_of(batch: pa.RecordBatch, number: int = 0) -> bytes:
    return bytes(encode_block(batch, recording=ID, segment=4, number=number)[0])


def test_segment_is_a_stream_any_arrow_reader_reads(batch_of: BatchOf, update_of: UpdateOf) -> None:
    batches = [
        batch_of(update_of(1), update_of(2)),
        batch_of(update_of(3, type_name="Port", sent_ns=-1)),
        batch_of(update_of(4)),
    ]
    blocks = [block_of(batch, number) for number, batch in enumerate(batches)]
    stream = encode_head(ID, 4) + b"".join(blocks) + END_OF_STREAM
    reader = pa.ipc.open_stream(stream)
    assert reader.schema.equals(SCHEMA)
    found = list(reader)
    assert [batch.to_pylist() for batch in found] == [batch.to_pylist() for batch in batches]


def test_block_is_read_without_the_others(batch_of: BatchOf, update_of: UpdateOf) -> None:
    batch = batch_of(update_of(1), update_of(2, type_name="Port"))
    found = decode_block(block_of(batch))
    found.validate(full=True)
    assert found.to_pylist() == batch.to_pylist()
    assert found.schema.equals(SCHEMA)


def test_block_has_a_label(batch_of: BatchOf, update_of: UpdateOf) -> None:
    data = block_of(batch_of(update_of(1), update_of(2)), 12)
    block = block_at(memoryview(b"12345678" + data + b"rest"), 8)
    assert block is not None
    assert (block.start, block.stop) == (8, 8 + len(data))
    assert (block.recording, block.segment, block.batch, block.rows) == (ID, 4, 12, 2)


def test_crc_is_the_documented_one(batch_of: BatchOf, update_of: UpdateOf) -> None:
    """CRC-32 of all bytes of the block, with its own eight digits as zeros."""
    data, crc = encode_block(batch_of(update_of(1)), recording=ID, segment=4, number=0)
    reader = pa.ipc.open_stream(encode_head(ID, 4) + data)
    label = reader.read_next_batch_with_custom_metadata()[1]["skerry"].decode()
    notified = dict(part.split("=") for part in label.split())
    assert notified["crc32"] == f"{crc:08x}"
    zeroed = bytes(data).replace(b"crc32=" + notified["crc32"].encode(), b"crc32=00000000")
    assert zlib.crc32(zeroed) == crc


def test_header_identifies_its_segment() -> None:
    data = encode_head(ID, 7)
    head = head_at(memoryview(data + b"more"))
    assert head is not None
    assert (head.recording, head.segment, head.stop) == (ID, 7, len(data))
    assert head_size(memoryview(data)) == len(data)
    assert len(data) % 8 == 0


@pytest.mark.parametrize("what", ["block", "head"])
def test_any_flipped_bit_is_detected(batch_of: BatchOf, update_of: UpdateOf, what: str) -> None:
    data = block_of(batch_of(*map(update_of, range(3)))) if what == "block" else encode_head(ID, 1)
    look: Any = (lambda view: block_at(view, 0)) if what == "block" else head_at
    assert look(memoryview(data)) is not None
    chance = random.Random(3)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << chance.randrange(8)
        assert look(memoryview(damaged)) is None, place


def test_payload_that_looks_like_a_label_changes_nothing(
    batch_of: BatchOf, update_of: UpdateOf
) -> None:
    label = f"crc32=00000000 recording={ID} segment=4 batch=0 rows=1"
    batch = batch_of(update_of(payload=label.encode(), subject=label, type_name=label))
    block = block_at(memoryview(block_of(batch)), 0)
    assert block is not None
    assert decode_block(block_of(batch)).to_pylist() == batch.to_pylist()


def test_buffers_are_not_copied(batch_of: BatchOf, update_of: UpdateOf) -> None:
    data = block_of(batch_of(update_of(payload=b"x" * 100_000)))
    before = pa.total_allocated_bytes()
    batch = decode_block(memoryview(data))
    assert pa.total_allocated_bytes() - before < 50_000
    assert len(batch.column("payload")[0].as_py()) == 100_000


def test_bytes_that_are_not_a_block_are_an_error() -> None:
    with pytest.raises(RecordingError, match="cannot be read"):
        decode_block(END_OF_STREAM)


def test_times_of_sending_are_null_where_there_are_none(
    batch_of: BatchOf, update_of: UpdateOf
) -> None:
    batch = batch_of(update_of(1, sent_ns=-1), update_of(2, sent_ns=0), update_of(3, sent_ns=-1))
    assert batch.column("sent_ns").to_pylist() == [None, 0, None]
    assert batch_of(update_of(1)).column("sent_ns").null_count == 0


def test_empty_batch_is_encoded(batch_of: BatchOf) -> None:
    found = decode_block(block_of(batch_of()))
    assert found.num_rows == 0
    assert found.schema.equals(SCHEMA)


def test_block_with_a_right_crc_and_wrong_values_is_found_by_validation(
    batch_of: BatchOf, update_of: UpdateOf
) -> None:
    batch = batch_of(update_of(1), update_of(2))
    column = batch.schema.get_field_index("payload")
    offsets = pa.py_buffer(np.array([0, 2**30, 4], np.int32).tobytes())
    wrong = pa.Array.from_buffers(
        pa.binary(), 2, [None, offsets, batch.column(column).buffers()[2]]
    )
    block = block_of(batch.set_column(column, SCHEMA.field(column), wrong))
    assert block_at(memoryview(block), 0) is not None
    with pytest.raises(RecordingError, match="cannot be read"):
        decode_block(block, is_checked=False)
