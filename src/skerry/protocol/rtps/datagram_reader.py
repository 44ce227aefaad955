"""The bytes of a datagram to values. Anyone can send to a group, so nothing is trusted: a datagram
is read as a whole or dropped with a reason. A hot module."""

from __future__ import annotations

from typing import Final
from zlib import crc32

from librt.strings import read_i16_be, read_i16_le, read_i32_be, read_i32_le
from mypy_extensions import i64

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
    LARGE_BYTES,
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
_SECOND: Final = 1_000_000_000


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
        self._head = _MAGIC + b"\x02\x02" + VENDOR + prefix[:4]
        """How datagrams of this version and channel begin."""
        self._has_checksum = has_checksum

    def read(self, data: bytes) -> Datagram | DropReason:
        """Return the content of a datagram, or why it is dropped."""
        size = len(data)
        if size < HEADER_BYTES:
            return DropReason.SHORT
        mine = self._prefix
        if not data.startswith(self._head):
            reason = _head_fault(data, mine[3])
            if reason is not None:
                return reason
        if self._has_checksum:
            if not _is_intact(data):
                return DropReason.SEALED if _is_sealed(data) else DropReason.CHECKSUM
            size -= _CHECK_BYTES
        if data[8:HEADER_BYTES] == mine:
            return DropReason.OWN
        node = int.from_bytes(data[12:HEADER_BYTES], "big", signed=True)
        if node == 0:
            return DropReason.BODY  # It stands for all nodes, or for none.
        datagram = Datagram(node, data[11], [])
        try:
            is_ours = self._read_submessages(data, size, datagram)
        except (DecodeError, IndexError):
            return DropReason.BODY
        if not datagram.submessages and _is_sealed(data):
            return DropReason.SEALED
        return datagram if is_ours else DropReason.DESTINATION

    def _read_submessages(self, data: bytes, size: i64, datagram: Datagram) -> bool:
        """Read all submessages; return whether any of them is for this node."""
        offset: i64 = HEADER_BYTES
        is_ours, has_ours, is_addressed = True, False, False
        submessages = datagram.submessages
        while offset < size:
            kind: i64 = data[offset]
            flags: i64 = data[offset + 1]
            is_little = flags & _LITTLE != 0
            length = _short(data, offset + 2, is_little)
            start: i64 = offset + 4
            if length == 0 and kind != PAD and not (kind == INFO_TS and flags & _NO_TIME != 0):
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
                submessages.append(_data(data, start, offset, flags, is_addressed))
            elif kind == INFO_TS:
                datagram.sent_ns = _timestamp(data, start, flags)
            elif kind == HEARTBEAT:
                has_ours = True
                submessages.append(_heartbeat(data, start, flags))
            else:
                other = _other(kind, data, start, offset, is_little)
                has_ours = True
                if other is not None:
                    submessages.append(other)
        return has_ours


def _head_fault(data: bytes, channel: int) -> DropReason | None:
    """Return why a datagram is dropped for its header; None if another minor version made it."""
    if data[:4] != _MAGIC:
        return DropReason.KIND
    if data[4] != _MAJOR_VERSION:
        return DropReason.VERSION
    if data[6:8] != VENDOR or data[8:10] != VENDOR or data[10] != MAPPING_VERSION:
        return DropReason.KIND
    return DropReason.CHANNEL if data[11] != channel else None


def _is_intact(data: bytes) -> bool:
    """Return whether the datagram ends with its checksum."""
    start: i64 = len(data) - _CHECK_BYTES
    if start < HEADER_BYTES or data[start] != CHECK:
        return False
    is_little = data[start + 1] & _LITTLE != 0
    if _short(data, start + 2, is_little) != 4:
        return False
    checked = data[: start + 4] if start < LARGE_BYTES else memoryview(data)[: start + 4]
    checksum: i64 = crc32(checked)
    return _word(data, start + 4, is_little) == checksum


def _is_sealed(data: bytes) -> bool:
    """Return whether the parts of the datagram are encrypted."""
    return data[HEADER_BYTES : HEADER_BYTES + 1] == b"%c" % SEALED


def _data(data: bytes, start: i64, stop: i64, flags: i64, is_addressed: bool) -> Data:
    if flags & _HAS_QOS != 0 or flags & _HAS_DATA == 0:
        raise _fault("a DATA without a payload, or with QoS")
    is_little = flags & _LITTLE != 0
    skipped = _short(data, start + 2, is_little)
    writer = _writer(data, start + 4)
    seq = _seq(data, start + 12, is_little)
    payload: i64 = start + 4 + skipped
    if skipped < 16 or payload > stop:
        raise _fault("a DATA whose payload is outside")
    return Data(writer, seq, data[payload:stop], is_addressed)


def _heartbeat(data: bytes, start: i64, flags: i64) -> Heartbeat:
    is_little = flags & _LITTLE != 0
    writer = _writer(data, start)
    first = _long(data, start + 8, is_little)
    last = _long(data, start + 16, is_little)
    if first < 1 or first - 1 > last:
        raise _fault(f"a HEARTBEAT of {first} to {last}")
    count = _signed(data, start + 24, is_little)
    return Heartbeat(writer, first, last, count, flags & _FINAL != 0, flags & _LIVE != 0)


def _other(
    kind: i64, data: bytes, start: i64, stop: i64, is_little: bool
) -> DataFragment | AckNack | NackFragments | GapNotice | None:
    """Return a submessage of the rarer kinds; None for kinds that are not used here."""
    if kind == DATA_FRAG:
        return _fragment(data, start, stop, is_little)
    if kind == ACKNACK:
        writer, base = _writer(data, start), _seq(data, start + 8, is_little)
        numbers, behind = _numbers(data, start + 16, stop, base, is_little)
        return AckNack(writer, numbers, _signed(data, behind, is_little))
    if kind == NACK_FRAG:
        writer, seq = _writer(data, start), _seq(data, start + 8, is_little)
        first = _word(data, start + 16, is_little)
        numbers, behind = _numbers(data, start + 20, stop, first, is_little)
        return NackFragments(writer, seq, numbers, _signed(data, behind, is_little))
    if kind == GAP:
        writer, start_seq = _writer(data, start), _seq(data, start + 8, is_little)
        base = _seq(data, start + 16, is_little)
        if base < start_seq:
            raise _fault(f"a GAP from {start_seq} to {base}")
        return GapNotice(writer, start_seq, _numbers(data, start + 24, stop, base, is_little)[0])
    return None


def _fragment(data: bytes, start: i64, stop: i64, is_little: bool) -> DataFragment:
    skipped = _short(data, start + 2, is_little)
    writer = _writer(data, start + 4)
    seq = _seq(data, start + 12, is_little)
    number = _word(data, start + 20, is_little)
    count = _short(data, start + 24, is_little)
    size = _short(data, start + 26, is_little)
    sample_bytes = _word(data, start + 28, is_little)
    payload: i64 = start + 4 + skipped
    if skipped < 28 or payload > stop or number < 1 or count != 1 or size == 0:
        raise _fault("a DATA_FRAG of more or less than one fragment")
    length: i64 = min(size, sample_bytes - (number - 1) * size)
    if length <= 0 or payload + length > stop:
        raise _fault("a DATA_FRAG outside its sample")
    stop = payload + length
    content = data[payload:stop] if length < LARGE_BYTES else memoryview(data)[payload:stop]
    return DataFragment(writer, seq, number, size, sample_bytes, content)


def _timestamp(data: bytes, start: i64, flags: i64) -> int | None:
    if flags & _NO_TIME != 0:
        return None
    is_little = flags & _LITTLE != 0
    seconds = _signed(data, start, is_little)
    fraction = _word(data, start + 4, is_little)
    return seconds * _SECOND + _nanoseconds(fraction)


def _nanoseconds(fraction: i64) -> i64:
    """Return the nanoseconds of a fraction of a second in 32 bits."""
    return fraction * _SECOND >> 32


def _numbers(
    data: bytes, start: i64, stop: i64, base: i64, is_little: bool
) -> tuple[NumberSet, i64]:
    """Return a set of numbers and the offset behind it."""
    bit_count = _word(data, start, is_little)
    word_count = min((bit_count + 31) // 32, (stop - start) // 4)
    words = [int(_word(data, start + 4 + 4 * i64(n), is_little)) for n in range(word_count)]
    return NumberSet.of_words(base, bit_count, words), start + 4 + 4 * word_count


def _writer(data: bytes, start: i64) -> i64:
    return i64(read_i32_be(data, start + 4)) & 0xFFFFFFFF


def _seq(data: bytes, start: i64, is_little: bool) -> i64:
    seq = _long(data, start, is_little)
    if seq < 1:
        raise _fault(f"sequence number {seq}")
    return seq


def _long(data: bytes, start: i64, is_little: bool) -> i64:
    """A signed number of 64 bits, of which the high half comes first."""
    return _signed(data, start, is_little) << 32 | _word(data, start + 4, is_little)


def _word(data: bytes, start: i64, is_little: bool) -> i64:
    """An unsigned number of 32 bits."""
    return _signed(data, start, is_little) & 0xFFFFFFFF


def _signed(data: bytes, start: i64, is_little: bool) -> i64:
    """A signed number of 32 bits."""
    return i64(read_i32_le(data, start) if is_little else read_i32_be(data, start))


def _short(data: bytes, start: i64, is_little: bool) -> i64:
    """An unsigned number of 16 bits."""
    found = i64(read_i16_le(data, start) if is_little else read_i16_be(data, start))
    return found & 0xFFFF


def _fault(detail: str) -> DecodeError:
    return DecodeError(type_name="RTPS", detail=detail)
