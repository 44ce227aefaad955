"""The bytes of a datagram to values. Anyone can send to a group, so nothing is trusted: a datagram
is read as a whole or dropped with a reason."""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

from skerry.errors import DecodeError
from skerry.protocol.rtps.entities import MAPPING_VERSION, VENDOR
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
    PAD,
    SEALED,
    AckNack,
    Data,
    DataFragment,
    GapNotice,
    Heartbeat,
    NackFragments,
    Submessage,
)
from skerry.tracing import DropReason

__all__ = ["HEADER_BYTES", "Datagram", "DatagramReader"]

HEADER_BYTES: Final = 20
_MAGIC: Final = b"RTPS"
_MAJOR_VERSION: Final = 2
_CHECK_BYTES: Final = 8
_LITTLE: Final = 0x01
_FINAL: Final = 0x02
_LIVE: Final = 0x04
_NO_TIME: Final = 0x02
_HAS_QOS: Final = 0x02
_HAS_DATA: Final = 0x04
_SEQ_MAX: Final = (1 << 63) - 1
_COUNT_MAX: Final = 1 << 31
_SECOND: Final = 1_000_000_000

_IDS: Final = struct.Struct(">II")


class _Layouts:
    """The fields of submessages in one byte order."""

    def __init__(self, order: str) -> None:
        self.size = struct.Struct(order + "H")
        self.word = struct.Struct(order + "I")
        self.sample = struct.Struct(order + "HH")
        self.seq = struct.Struct(order + "iI")
        self.fragment = struct.Struct(order + "IHHI")
        self.span = struct.Struct(order + "iIiIi")
        self.count = struct.Struct(order + "i")
        self.order = order


_BIG_AND_LITTLE: Final = (_Layouts(">"), _Layouts("<"))


class Datagram:
    """What a datagram contains for this node."""

    def __init__(self, node: int, channel: int, submessages: list[Submessage]) -> None:
        self.node = node
        """The id of the sender."""
        self.channel = channel
        self.submessages = submessages
        self.sent_ns: int | None = None
        """The wall time at the sender, if it is stated."""


class DatagramReader:
    """Reads the datagrams that one node receives on one channel."""

    def __init__(self, prefix: bytes, *, has_checksum: bool = True) -> None:
        """`prefix` identifies the node that reads."""
        self._prefix = prefix
        self._has_checksum = has_checksum

    def read(self, data: bytes) -> Datagram | DropReason:
        """Return the content of a datagram, or why it is dropped."""
        size = len(data)
        if size < HEADER_BYTES:
            return DropReason.SHORT
        if data[:4] != _MAGIC:
            return DropReason.KIND
        if data[4] != _MAJOR_VERSION:
            return DropReason.VERSION
        mine = self._prefix
        if data[6:8] != VENDOR or data[8:10] != VENDOR or data[10] != MAPPING_VERSION:
            return DropReason.KIND
        if data[11] != mine[3]:
            return DropReason.CHANNEL
        if self._has_checksum:
            if not _is_intact(data):
                return DropReason.SEALED if _is_sealed(data) else DropReason.CHECKSUM
            size -= _CHECK_BYTES
        if data[8:HEADER_BYTES] == mine:
            return DropReason.OWN
        node = int.from_bytes(data[12:HEADER_BYTES], "big", signed=True)
        datagram = Datagram(node, data[11], [])
        try:
            is_ours = self._read_submessages(data, size, datagram)
        except (DecodeError, struct.error):
            return DropReason.BODY
        if not datagram.submessages and _is_sealed(data):
            return DropReason.SEALED
        return datagram if is_ours else DropReason.DESTINATION

    def _read_submessages(self, data: bytes, size: int, datagram: Datagram) -> bool:
        """Read all submessages; return whether any of them is for this node."""
        offset = HEADER_BYTES
        is_ours, has_ours, is_addressed = True, False, False
        submessages = datagram.submessages
        while offset < size:
            kind, flags = data[offset], data[offset + 1]
            layouts = _BIG_AND_LITTLE[flags & _LITTLE]
            length = layouts.size.unpack_from(data, offset + 2)[0]
            start = offset + 4
            if length == 0 and kind != PAD and not (kind == INFO_TS and flags & _NO_TIME):
                length = size - start  # The last one may omit its length.
            offset = start + length
            if offset > size:
                raise _fault("a submessage exceeds the datagram")
            if kind == INFO_DST:
                is_ours = data[start:offset] == self._prefix
                is_addressed = True
            elif not is_ours:
                continue
            elif kind == DATA:
                has_ours = True
                submessages.append(_data(data, start, offset, flags, layouts, is_addressed))
            elif kind == INFO_TS:
                datagram.sent_ns = _timestamp(data, start, flags, layouts)
            elif kind == HEARTBEAT:
                has_ours = True
                submessages.append(_heartbeat(data, start, flags, layouts))
            else:
                other = _other(kind, data, start, offset, layouts)
                has_ours = True
                if other is not None:
                    submessages.append(other)
        return has_ours


def _is_intact(data: bytes) -> bool:
    """Return whether the datagram ends with its checksum."""
    start = len(data) - _CHECK_BYTES
    if start < HEADER_BYTES or data[start] != CHECK:
        return False
    layouts = _BIG_AND_LITTLE[data[start + 1] & _LITTLE]
    if layouts.size.unpack_from(data, start + 2)[0] != 4:
        return False
    checksum = layouts.word.unpack_from(data, start + 4)[0]
    return bool(checksum == crc32(memoryview(data)[: start + 4]))


def _is_sealed(data: bytes) -> bool:
    """Return whether the parts of the datagram are encrypted."""
    return data[HEADER_BYTES : HEADER_BYTES + 1] == b"%c" % SEALED


def _data(
    data: bytes, start: int, stop: int, flags: int, layouts: _Layouts, is_addressed: bool
) -> Data:
    if flags & _HAS_QOS or not flags & _HAS_DATA:
        raise _fault("a DATA without a payload, or with QoS")
    _, skipped = layouts.sample.unpack_from(data, start)
    writer = _writer(data, start + 4)
    seq = _seq(data, start + 12, layouts)
    payload = start + 4 + skipped
    if skipped < 16 or payload > stop:
        raise _fault("a DATA whose payload is outside")
    return Data(writer, seq, data[payload:stop], is_addressed)


def _heartbeat(data: bytes, start: int, flags: int, layouts: _Layouts) -> Heartbeat:
    writer = _writer(data, start)
    high, low, last_high, last_low, count = layouts.span.unpack_from(data, start + 8)
    first, last = high << 32 | low, last_high << 32 | last_low
    if not 1 <= first <= last + 1:
        raise _fault(f"a HEARTBEAT of {first} to {last}")
    return Heartbeat(writer, first, last, count, bool(flags & _FINAL), bool(flags & _LIVE))


def _other(
    kind: int, data: bytes, start: int, stop: int, layouts: _Layouts
) -> DataFragment | AckNack | NackFragments | GapNotice | None:
    """Return a submessage of the rarer kinds; None for kinds that are not used here."""
    if kind == DATA_FRAG:
        return _fragment(data, start, stop, layouts)
    if kind == ACKNACK:
        writer, base = _writer(data, start), _seq(data, start + 8, layouts)
        numbers, behind = _numbers(data, start + 16, stop, base, layouts)
        return AckNack(writer, numbers, layouts.count.unpack_from(data, behind)[0])
    if kind == NACK_FRAG:
        writer, seq = _writer(data, start), _seq(data, start + 8, layouts)
        base = layouts.word.unpack_from(data, start + 16)[0]
        numbers, behind = _numbers(data, start + 20, stop, base, layouts)
        return NackFragments(writer, seq, numbers, layouts.count.unpack_from(data, behind)[0])
    if kind == GAP:
        writer, start_seq = _writer(data, start), _seq(data, start + 8, layouts)
        base = _seq(data, start + 16, layouts)
        if base < start_seq:
            raise _fault(f"a GAP from {start_seq} to {base}")
        return GapNotice(writer, start_seq, _numbers(data, start + 24, stop, base, layouts)[0])
    return None


def _fragment(data: bytes, start: int, stop: int, layouts: _Layouts) -> DataFragment:
    _, skipped = layouts.sample.unpack_from(data, start)
    writer = _writer(data, start + 4)
    seq = _seq(data, start + 12, layouts)
    number, count, size, sample_bytes = layouts.fragment.unpack_from(data, start + 20)
    payload = start + 4 + skipped
    first = (number - 1) * size
    if skipped < 28 or payload > stop or number < 1 or count != 1 or not size:
        raise _fault("a DATA_FRAG of more or less than one fragment")
    length = min(size, sample_bytes - first)
    if length <= 0 or payload + length > stop:
        raise _fault("a DATA_FRAG outside its sample")
    content = data[payload : payload + length]
    return DataFragment(writer, seq, number, size, sample_bytes, content)


def _timestamp(data: bytes, start: int, flags: int, layouts: _Layouts) -> int | None:
    if flags & _NO_TIME:
        return None
    seconds, fraction = layouts.seq.unpack_from(data, start)
    return int(seconds) * _SECOND + (int(fraction) * _SECOND >> 32)


def _numbers(
    data: bytes, start: int, stop: int, base: int, layouts: _Layouts
) -> tuple[NumberSet, int]:
    """Return a set of numbers and the offset behind it."""
    bit_count = layouts.word.unpack_from(data, start)[0]
    word_count = min((bit_count + 31) // 32, (stop - start) // 4)
    words = struct.unpack_from(f"{layouts.order}{word_count}I", data, start + 4)
    return NumberSet.of_words(base, bit_count, words), start + 4 + 4 * word_count


def _writer(data: bytes, start: int) -> int:
    return int.from_bytes(data[start + 4 : start + 8], "big")


def _seq(data: bytes, start: int, layouts: _Layouts) -> int:
    high, low = layouts.seq.unpack_from(data, start)
    seq = high << 32 | low
    if seq < 1:
        raise _fault(f"sequence number {seq}")
    return int(seq)


def _fault(detail: str) -> DecodeError:
    return DecodeError(type_name="RTPS", detail=detail)
