"""The bytes of datagrams, one part after the other. All numbers are little-endian."""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

from skerry.protocol.rtps.entities import reader_of
from skerry.protocol.rtps.number_sets import NumberSet
from skerry.protocol.rtps.submessages import (
    ACKNACK,
    CHECK,
    DATA,
    DATA_FRAG,
    GAP,
    HEARTBEAT,
    INFO_DST,
    INFO_TS,
    NACK_FRAG,
    AckNack,
    Data,
    DataFragment,
    GapNotice,
    Heartbeat,
    NackFragments,
)

__all__ = ["FRAME_BYTES_MAX", "DatagramWriter"]

FRAME_BYTES_MAX: Final = 128
"""Room in a datagram for everything beside one sample or fragment: header, destination, timestamp,
the header of the sample, a heartbeat and the checksum."""

_HEADER: Final = b"RTPS\x02\x02\x00\x00"
_LITTLE: Final = 0x01
_FINAL: Final = 0x02
_LIVE: Final = 0x04
_HAS_DATA: Final = 0x04
_QOS_OFFSET_DATA: Final = 16
_QOS_OFFSET_FRAGMENT: Final = 28
"""Bytes from behind this field to the payload, since no QoS follows."""
_SECOND: Final = 1_000_000_000
_U32: Final = 0xFFFFFFFF

_PART: Final = struct.Struct("<BBH")
_TIMESTAMP: Final = struct.Struct("<BBHiI")
_IDS: Final = struct.Struct(">II")
_SAMPLE: Final = struct.Struct("<BBHHH")
_SEQ: Final = struct.Struct("<iI")
_FRAGMENT: Final = struct.Struct("<IHHI")
_SPAN: Final = struct.Struct("<iIiII")
_CRC: Final = struct.Struct("<I")


class DatagramWriter:
    """Writes datagrams of one node on one channel."""

    def __init__(self, prefix: bytes, *, has_checksum: bool = True) -> None:
        self._head = _HEADER + prefix
        self._has_checksum = has_checksum
        self._buffer = bytearray(self._head)

    @property
    def size(self) -> int:
        """Bytes of the current datagram so far, without the checksum."""
        return len(self._buffer)

    def destination(self, prefix: bytes) -> None:
        """Address what follows to one node."""
        self._buffer += _PART.pack(INFO_DST, _LITTLE, len(prefix)) + prefix

    def timestamp(self, wall_ns: int) -> None:
        """State when what follows was sent."""
        seconds, rest_ns = divmod(wall_ns, _SECOND)
        fraction = (rest_ns << 32) // _SECOND
        self._buffer += _TIMESTAMP.pack(INFO_TS, _LITTLE, 8, seconds, fraction)

    def data(self, data: Data, reader: int = 0) -> None:
        """Append a sample. Its payload has a multiple of four bytes. `reader` is the id of its
        reader if it is not that of the stream."""
        size = 20 + len(data.payload)
        head = _SAMPLE.pack(DATA, _LITTLE | _HAS_DATA, size, 0, _QOS_OFFSET_DATA)
        self._buffer += head + _ids(data.writer, reader) + _seq(data.seq)
        self._buffer += data.payload

    def fragment(self, fragment: DataFragment) -> None:
        """Append a fragment of a sample, padded to a multiple of four bytes."""
        pad = -len(fragment.data) % 4
        size = 32 + len(fragment.data) + pad
        head = _SAMPLE.pack(DATA_FRAG, _LITTLE, size, 0, _QOS_OFFSET_FRAGMENT)
        self._buffer += head + _ids(fragment.writer) + _seq(fragment.seq)
        self._buffer += _FRAGMENT.pack(
            fragment.number, 1, fragment.fragment_bytes, fragment.sample_bytes
        )
        self._buffer += fragment.data + bytes(pad)

    def heartbeat(self, heartbeat: Heartbeat) -> None:
        """Append a heartbeat."""
        first, last = heartbeat.first_seq, heartbeat.last_seq
        flags = _LITTLE | (heartbeat.is_final and _FINAL) | (heartbeat.is_live and _LIVE)
        count = heartbeat.count & _U32
        span = _SPAN.pack(first >> 32, first & _U32, last >> 32, last & _U32, count)
        self._buffer += _PART.pack(HEARTBEAT, flags, 28) + _ids(heartbeat.writer) + span

    def acknack(self, ack: AckNack) -> None:
        """Append an acknowledgement. No heartbeat is requested in return."""
        base = _seq(ack.numbers.base)
        self._numbers(ACKNACK, _LITTLE | _FINAL, ack.writer, base, ack.numbers, ack.count)

    def nack_fragments(self, nack: NackFragments) -> None:
        """Append the fragments that are missing of a sample."""
        base = _seq(nack.seq) + _CRC.pack(nack.numbers.base)
        self._numbers(NACK_FRAG, _LITTLE, nack.writer, base, nack.numbers, nack.count)

    def gap(self, gap: GapNotice) -> None:
        """Append the numbers that are not for the receiver."""
        start = _seq(gap.start_seq) + _seq(gap.numbers.base)
        self._numbers(GAP, _LITTLE, gap.writer, start, gap.numbers, None)

    def finish(self) -> bytes:
        """Return the datagram, and begin the next one."""
        buffer = self._buffer
        if self._has_checksum:
            buffer += _PART.pack(CHECK, _LITTLE, 4)
            buffer += _CRC.pack(crc32(buffer))
        self._buffer = bytearray(self._head)
        return bytes(buffer)

    def _numbers(
        self, kind: int, flags: int, writer: int, base: bytes, numbers: NumberSet, count: int | None
    ) -> None:
        words = numbers.words()
        body = struct.pack(f"<I{len(words)}I", numbers.bit_count, *words)
        tail = b"" if count is None else _CRC.pack(count & _U32)
        size = 8 + len(base) + len(body) + len(tail)
        self._buffer += _PART.pack(kind, flags, size) + _ids(writer) + base + body + tail


def _ids(writer: int, reader: int = 0) -> bytes:
    return _IDS.pack(reader or reader_of(writer), writer)


def _seq(seq: int) -> bytes:
    return _SEQ.pack(seq >> 32, seq & _U32)
