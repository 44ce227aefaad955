"""The bytes of datagrams, one part after the other. All numbers are little-endian. A hot module."""

from __future__ import annotations

from typing import Final
from zlib import crc32

from librt.strings import BytesWriter, write_i16_le, write_i32_be, write_i32_le
from mypy_extensions import i16, i32, i64, u8

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
    LARGE_BYTES,
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
_U16_HALF: Final = 1 << 15
_U16_SPAN: Final = 1 << 16
_U32_HALF: Final = 1 << 31
_U32_SPAN: Final = 1 << 32
_U32_MASK: Final = _U32_SPAN - 1


class DatagramWriter:
    """Writes datagrams of one node on one channel."""

    def __init__(self, prefix: bytes, *, has_checksum: bool = True) -> None:
        self._head = _HEADER + prefix
        self._has_checksum = has_checksum
        self._buffer = BytesWriter()
        self._buffer.write(self._head)
        self._front: list[bytes | memoryview] = []
        """What is before the buffer, if the datagram has a large payload: it is copied once."""

    def destination(self, prefix: bytes) -> None:
        """Address what follows to one node."""
        self._part(INFO_DST, _LITTLE, len(prefix))
        self._buffer.write(prefix)

    def timestamp(self, wall_ns: i64) -> None:
        """State when what follows was sent."""
        seconds: i64 = wall_ns // _SECOND
        fraction: i64 = ((wall_ns - seconds * _SECOND) << 32) // _SECOND
        self._part(INFO_TS, _LITTLE, 8)
        self._word(seconds)
        self._word(fraction)

    def data(self, data: Data, reader: int = 0) -> None:
        """Append a sample. Its payload has a multiple of four bytes. `reader` is the id of its
        reader if it is not that of the stream."""
        payload = data.payload
        self._part(DATA, _LITTLE | _HAS_DATA, 20 + len(payload))
        self._word(_QOS_OFFSET_DATA << 16)
        self._ids(data.writer, reader)
        self._seq(data.seq)
        if len(payload) < LARGE_BYTES:
            self._buffer.write(payload)
        else:
            self._large(payload)

    def fragment(self, fragment: DataFragment) -> None:
        """Append a fragment of a sample, padded to a multiple of four bytes."""
        data = fragment.data
        pad: i64 = -len(data) & 3
        self._part(DATA_FRAG, _LITTLE, 32 + len(data) + pad)
        self._word(_QOS_OFFSET_FRAGMENT << 16)
        self._ids(fragment.writer, 0)
        self._seq(fragment.seq)
        self._word(fragment.number)
        self._short(1)
        self._short(fragment.fragment_bytes)
        self._word(fragment.sample_bytes)
        if isinstance(data, bytes):
            self._buffer.write(data)
        else:
            self._large(data)
        for _ in range(pad):
            self._buffer.append(u8(0))

    def heartbeat(self, heartbeat: Heartbeat) -> None:
        """Append a heartbeat."""
        flags: i64 = _LITTLE
        if heartbeat.is_final:
            flags |= _FINAL
        if heartbeat.is_live:
            flags |= _LIVE
        self._part(HEARTBEAT, flags, 28)
        self._ids(heartbeat.writer, 0)
        self._seq(heartbeat.first_seq)
        self._seq(heartbeat.last_seq)
        self._word(heartbeat.count & _U32_MASK)

    def acknack(self, ack: AckNack) -> None:
        """Append an acknowledgement. No heartbeat is requested in return."""
        numbers = ack.numbers
        words = numbers.words()
        self._part(ACKNACK, _LITTLE | _FINAL, 24 + 4 * len(words))
        self._ids(ack.writer, 0)
        self._seq(numbers.base)
        self._numbers(numbers, words)
        self._word(ack.count & _U32_MASK)

    def nack_fragments(self, nack: NackFragments) -> None:
        """Append the fragments that are missing of a sample."""
        numbers = nack.numbers
        words = numbers.words()
        self._part(NACK_FRAG, _LITTLE, 28 + 4 * len(words))
        self._ids(nack.writer, 0)
        self._seq(nack.seq)
        self._word(numbers.base)
        self._numbers(numbers, words)
        self._word(nack.count & _U32_MASK)

    def gap(self, gap: GapNotice) -> None:
        """Append the numbers that are not for the receiver."""
        numbers = gap.numbers
        words = numbers.words()
        self._part(GAP, _LITTLE, 28 + 4 * len(words))
        self._ids(gap.writer, 0)
        self._seq(gap.start_seq)
        self._seq(numbers.base)
        self._numbers(numbers, words)

    def finish(self) -> bytes:
        """Return the datagram, and begin the next one."""
        buffer = self._buffer
        if self._front:
            return self._finish_large()
        if self._has_checksum:
            self._part(CHECK, _LITTLE, 4)
            checked = buffer.getvalue()
            self._word(crc32(checked))
        datagram = buffer.getvalue()
        buffer.truncate(len(self._head))
        return datagram

    # -- inside

    def _large(self, payload: bytes | memoryview) -> None:
        """Append a large payload."""
        self._front += [self._buffer.getvalue(), payload]
        self._buffer.truncate(0)

    def _finish_large(self) -> bytes:
        buffer, parts = self._buffer, self._front
        if self._has_checksum:
            self._part(CHECK, _LITTLE, 4)
            checksum = 0
            for part in parts:
                checksum = crc32(part, checksum)
            self._word(crc32(buffer.getvalue(), checksum))
        parts.append(buffer.getvalue())
        datagram = b"".join(parts)
        self._front = []
        buffer.truncate(0)
        buffer.write(self._head)
        return datagram

    def _part(self, kind: i64, flags: i64, size: i64) -> None:
        """Begin a part."""
        buffer = self._buffer
        buffer.append(u8(kind))
        buffer.append(u8(flags))
        self._short(size)

    def _short(self, value: i64) -> None:
        """Append an unsigned number of 16 bits."""
        write_i16_le(self._buffer, i16(value if value < _U16_HALF else value - _U16_SPAN))

    def _word(self, value: i64) -> None:
        """Append a number of 32 bits, signed or not."""
        write_i32_le(self._buffer, i32(value if value < _U32_HALF else value - _U32_SPAN))

    def _seq(self, seq: i64) -> None:
        self._word(seq >> 32)
        self._word(seq & _U32_MASK)

    def _ids(self, writer: i64, reader: i64) -> None:
        """Append the ids of reader and writer; the reader is that of the stream if it is 0."""
        if reader == 0:
            reader = reader_of(writer)
        write_i32_be(self._buffer, i32(reader if reader < _U32_HALF else reader - _U32_SPAN))
        write_i32_be(self._buffer, i32(writer if writer < _U32_HALF else writer - _U32_SPAN))

    def _numbers(self, numbers: NumberSet, words: list[int]) -> None:
        self._word(numbers.bit_count)
        for word in words:
            self._word(word)
