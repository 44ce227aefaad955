"""Encodes rows to bytes of a segment, and decodes them.

A segment is an Arrow IPC stream: the schema, then **blocks**, then the end marker. A block is one
record batch with its own dictionaries, so that it can be read with only the schema before it, even
if the rest of the segment is damaged. The metadata of the schema and of the record batch of each
block have a label, a line of text under the name `skerry`:

    crc32=1d0a93f4 recording=5b1f... segment=12 batch=3 rows=8192

The CRC-32 covers all bytes of the block, including metadata and padding, with the eight digits of
the CRC as zeros.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from skerry.errors import RecordingError
from skerry.recording.columns import SCHEMA
from skerry.recording.rows import NO_SENT_TIME, Columns

FORMAT_VERSION: Final = 1

MARK: Final = b"\xff\xff\xff\xff"
"""Every Arrow message begins with this marker. The size of its metadata, the metadata, and a body
whose size is in the metadata follow."""
END_OF_STREAM: Final = MARK + b"\0\0\0\0"
"""The end marker: a message without metadata."""

_SCHEMA: Final = "schema"
_DICTIONARY: Final = "dictionary"
_RECORD_BATCH: Final = "record batch"
"""Kinds of messages, by the names of pyarrow."""
_ZEROS: Final = b"00000000"
_LABEL: Final = re.compile(
    rb"crc32=([0-9a-f]{8}) recording=([0-9a-f]{16}) segment=(\d{1,10}) batch=(\d{1,10})"
    rb" rows=(\d{1,10})"
)
_LABEL_KEY: Final = "skerry"
_BLOCK_MESSAGE_COUNT_MAX: Final = 8
"""Limit for the messages of a block: one per dictionary, and the record batch."""

_UNLABELLED_HEAD: Final[bytes] = SCHEMA.serialize().to_pybytes()
"""The schema message with which a block is decoded."""


class Message(NamedTuple):
    """Kind and offsets of one Arrow message."""

    kind: str
    start: int
    body: int
    """Offset of the body; the metadata precedes it."""
    stop: int


@dataclass(frozen=True, slots=True)
class Block:
    """The offsets of a complete, undamaged block, and the facts in its label."""

    start: int
    stop: int
    crc: int
    recording: str
    segment: int
    batch: int
    rows: int


def encode_head(recording: str, segment: int) -> bytes:
    """The header of a segment: the schema with its label."""
    schema = SCHEMA.with_metadata({_LABEL_KEY: _label(recording, segment, 0, 0)})
    head = bytearray(schema.serialize().to_pybytes())
    _put_crc(head)
    return bytes(head)


def encode_block(
    batch: pa.RecordBatch, *, recording: str, segment: int, number: int
) -> tuple[bytearray, int]:
    """The block of a batch with this number in its segment, and its CRC."""
    label = {_LABEL_KEY: _label(recording, segment, number, batch.num_rows)}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(batch, custom_metadata=label)
    stream = memoryview(sink.getvalue())
    start, stop = head_size(stream), len(stream) - len(END_OF_STREAM)
    block = bytearray(stream[start:stop])
    return block, _put_crc(block)


def decode_block(block: memoryview | bytes, *, is_checked: bool = True) -> pa.RecordBatch:
    """The batch of a block whose CRC is right, without copying its buffers.

    For a block whose CRC is not in a manifest (`is_checked=False`) every value is validated, too:
    a malicious file can have a correct CRC, and Arrow trusts the offsets in the buffers.
    """
    try:
        batch = pa.ipc.open_stream(_Pieces(_UNLABELLED_HEAD, block)).read_next_batch()
        if not is_checked:
            batch.validate(full=True)
    except (pa.ArrowException, StopIteration) as error:
        raise RecordingError(f"a batch cannot be read: {error}") from error
    return batch


def message_at(data: memoryview, start: int) -> Message | None:
    """The message that begins at `start`; None if there is no complete message.

    The stream reader of Arrow cannot continue after damage, so messages are read one by one.
    """
    if bytes(data[start : start + 4]) != MARK:
        return None
    try:
        found = pa.ipc.read_message(pa.py_buffer(data[start:]))
    except (EOFError, OSError, pa.ArrowException):
        return None
    size, body_size = found.metadata.size, found.body.size
    if size % 8 or body_size % 8 or found.type not in (_SCHEMA, _DICTIONARY, _RECORD_BATCH):
        return None
    body = start + 8 + size
    return Message(found.type, start, body, body + body_size)


def head_size(data: memoryview) -> int:
    """Size of the schema message at the start of a segment; 0 if there is none."""
    message = message_at(data, 0)
    return message.stop if message is not None and message.kind == _SCHEMA else 0


def block_at(data: memoryview, start: int) -> Block | None:
    """The complete, undamaged block that begins at `start`; None if there is none."""
    return _labelled(data, start, _RECORD_BATCH)


def head_at(data: memoryview) -> Block | None:
    """The undamaged header of a segment; None if it is damaged or missing."""
    return _labelled(data, 0, _SCHEMA)


def to_record_batch(columns: Columns) -> pa.RecordBatch:
    """The rows as an Arrow batch, without copying them."""
    count = columns.count

    def numbers(type_: pa.DataType, data: bytes) -> pa.Array:
        return pa.Array.from_buffers(type_, count, [None, pa.py_buffer(data)])

    def names(data: bytes, values: list[str]) -> pa.Array:
        return pa.DictionaryArray.from_arrays(
            numbers(pa.int32(), data), pa.array(values, pa.string()), safe=False
        )

    def runs(type_: pa.DataType, offsets: bytes, data: bytes) -> pa.Array:
        return pa.Array.from_buffers(
            type_, count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )

    return pa.RecordBatch.from_arrays(
        [
            numbers(pa.int64(), columns.time_ns),
            _nullable(columns.sent_ns, count),
            names(columns.space, columns.spaces),
            runs(pa.string(), columns.subject_offsets, columns.subject),
            names(columns.type, columns.types),
            numbers(pa.int64(), columns.fingerprint),
            numbers(pa.int8(), columns.operation),
            numbers(pa.uint32(), columns.present),
            runs(pa.binary(), columns.key_offsets, columns.key),
            numbers(pa.int64(), columns.sender),
            numbers(pa.int64(), columns.node),
            numbers(pa.int64(), columns.sequence),
            numbers(pa.int64(), columns.position),
            names(columns.source, columns.sources),
            runs(pa.binary(), columns.payload_offsets, columns.payload),
        ],
        schema=SCHEMA,
    )


def _nullable(data: bytes, count: int) -> pa.Array:
    is_set = np.frombuffer(data, np.int64) != NO_SENT_TIME
    mask = None
    if not is_set.all():
        mask = pa.py_buffer(np.packbits(is_set, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.int64(), count, [mask, pa.py_buffer(data)])


def _label(recording: str, segment: int, batch: int, rows: int) -> str:
    return f"crc32=00000000 recording={recording} segment={segment} batch={batch} rows={rows}"


def _put_crc(data: bytearray) -> int:
    """Compute the CRC and write it over the zeros in the label."""
    view = memoryview(data)
    message = _last_message(view, 0)
    assert message is not None
    found = _LABEL.search(view, message.start, message.body)
    assert found is not None
    offset = found.start(1)
    crc = zlib.crc32(data)
    view[offset : offset + 8] = b"%08x" % crc
    return crc


def _last_message(data: memoryview, start: int) -> Message | None:
    """The message with the label: the first that is not a dictionary."""
    for _ in range(_BLOCK_MESSAGE_COUNT_MAX):
        message = message_at(data, start)
        if message is None or message.kind != _DICTIONARY:
            return message
        start = message.stop
    return None


def _labelled(data: memoryview, start: int, kind: str) -> Block | None:
    message = _last_message(data, start)
    if message is None or message.kind != kind:
        return None
    found = _LABEL.search(data, message.start, message.body)
    if found is None:
        return None
    offset = found.start(1)
    crc = zlib.crc32(_ZEROS, zlib.crc32(data[start:offset]))
    crc = zlib.crc32(data[offset + 8 : message.stop], crc)
    if crc != int(found[1], 16):
        return None
    _, recording, segment, batch, rows = found.groups()
    return Block(start, message.stop, crc, recording.decode(), int(segment), int(batch), int(rows))


class _Pieces:
    """Several buffers as one file, which Arrow reads without copying."""

    closed = False

    def __init__(self, *pieces: memoryview | bytes) -> None:
        self._pieces = [memoryview(piece) for piece in pieces]

    def readable(self) -> bool:
        return True

    def read(self, size: int) -> memoryview:
        if not self._pieces:
            return memoryview(b"")
        piece = self._pieces[0]
        if len(piece) <= size:
            return self._pieces.pop(0)
        self._pieces[0] = piece[size:]
        return piece[:size]

    def close(self) -> None:
        self.closed = True
