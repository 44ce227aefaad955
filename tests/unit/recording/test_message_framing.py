"""Finding Arrow messages in any bytes."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from skerry.recording.columns import SCHEMA
from skerry.recording.format import (
    END_OF_STREAM,
    MARK,
    message_at,
)


@pytest.fixture
def stream(batch_of, update_of) -> memoryview:  # type: ignore[no-untyped-def]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(batch_of(update_of(1), update_of(2)))
    return memoryview(sink.getvalue().to_pybytes())


def test_messages_follow_each_other_to_the_end(stream: memoryview) -> None:
    kinds, offset = [], 0
    while (message := message_at(stream, offset)) is not None:
        assert message.start == offset < message.body <= message.stop
        kinds.append(message.kind)
        offset = message.stop
    assert kinds == ["schema", *["dictionary"] * 3, "record batch"]
    assert bytes(stream[offset:]) == END_OF_STREAM


def test_sizes_are_those_arrow_sees(stream: memoryview) -> None:
    offset = 0
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(stream))
    for theirs in reader:
        ours = message_at(stream, offset)
        assert ours is not None
        assert ours.stop - ours.body == theirs.body.size
        offset = ours.stop


def test_truncated_message_is_not_found(stream: memoryview) -> None:
    first = message_at(stream, 0)
    assert first is not None
    second = message_at(stream, first.stop)
    assert second is not None
    for stop in range(first.stop, second.stop):
        assert message_at(stream[:stop], first.stop) is None


def test_damaged_sizes_never_lead_outside_the_data(stream: memoryview) -> None:
    chance = random.Random(5)
    for _ in range(5000):
        data = bytearray(stream)
        for _ in range(3):
            data[chance.randrange(1200)] = chance.randrange(256)
        message = message_at(memoryview(data), 0)
        assert message is None or 0 < message.body <= message.stop <= len(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        MARK,
        END_OF_STREAM,
        MARK + b"\xff\xff\xff\xff",
        MARK + b"\x08\0\0\0" + b"\xff" * 8,
        MARK + b"\x08\0\0\0" + b"\0" * 8,
        MARK + b"\x10\0\0\0" + b"\x08\0\0\0" + b"\0\0\0\x80" + b"\0" * 8,
    ],
)
def test_invalid_message_is_not_found(data: bytes) -> None:
    assert message_at(memoryview(data), 0) is None
