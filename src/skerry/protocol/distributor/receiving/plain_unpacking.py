"""The loop of `unpacking` for where nothing is compiled: fewer and larger steps."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from librt.strings import read_i16_be, read_i32_be

from skerry.protocol.distributor.messages import UPDATE_HEADER_BYTES
from skerry.protocol.distributor.receiving.unpacking import Resolver, unpack
from skerry.protocol.distributor.receiving.updates import AlikeUpdates

__all__ = ["IS_PACKED_KEPT", "Unpack", "alike", "plain_unpack", "unpack_for_this_build"]

Unpack = Callable[[bytes, int, dict[bytes, str], Resolver, list[tuple[str, bytes]]], bool]

_IS_COMPILED: Final = not hasattr(unpack, "__code__")

IS_PACKED_KEPT: Final = _IS_COMPILED
"""Whether it is quicker to look at a datagram twice than to take all out of it at once."""

_TEXT_HEAD: Final = {2: struct.Struct(">BH"), 4: struct.Struct(">BI")}
_DATA_HEAD: Final = struct.Struct(">BI")
_PREFIX_TRIES: Final = 8
_ACROSS_COUNT_MIN: Final = 32
"""With less updates it is quicker to compare what stands before the data of each."""
_CUT_COUNT_MAX: Final = 64
"""Ways to cut a datagram that are remembered."""


def plain_unpack(
    data: bytes,
    text_length_bytes: int,
    memo: dict[bytes, str],
    resolver: Resolver,
    updates: list[tuple[str, bytes]],
) -> bool:
    """What `unpack` does, in less time as long as datagrams are as they always are."""
    known_count = len(updates)
    text_head = _TEXT_HEAD[text_length_bytes].unpack_from
    text_head_bytes = 1 + text_length_bytes
    data_head = _DATA_HEAD.unpack_from
    find = memo.get
    add = updates.append
    begins_with = data.startswith
    size = len(data)
    pos = 28
    count = int.from_bytes(data[24:28], "big")
    # Often many updates in a row have one subject and one length, so all before their data is the
    # same. Where that is not so, looking for it is given up.
    prefix, prefix_bytes, subject, length, tries = b"", 0, "", 0, _PREFIX_TRIES
    try:
        for _ in range(count):
            if prefix and begins_with(prefix, pos):
                start = pos + prefix_bytes
                pos = start + length
                if pos > size:
                    break
                tries = _PREFIX_TRIES
                add((subject, data[start:pos]))
                continue
            begin = pos
            has_text, length = text_head(data, pos)
            pos += text_head_bytes
            stop = pos + length
            has_data, length = data_head(data, stop)
            raw = data[pos:stop]
            start = stop + 5
            pos = start + length
            if pos > size or has_text != 1 or has_data != 1:
                break
            found = find(raw)
            subject = resolver.resolve(raw) if found is None else found
            if subject:
                add((subject, data[start:pos]))
            # One that is told nobody is not looked for: it may have to be counted each time.
            prefix = data[begin:start] if subject and tries > 0 else b""
            prefix_bytes = start - begin
            tries -= 1
        else:
            return pos == size
    except struct.error:
        pass  # It ends within a head. The careful loop finds out whether it may.
    del updates[known_count:]
    return unpack(data, text_length_bytes, memo, resolver, updates)


def alike(
    data: bytes, first: int, stop: int, text_length_bytes: int, memo: dict[bytes, str]
) -> AlikeUpdates | None:
    """The updates in the datagram between `first` and `stop` of some bytes.

    None unless all have one subject, known and wanted, and one length.
    """
    begin = first + UPDATE_HEADER_BYTES
    if stop < begin + text_length_bytes + 6:
        return None
    count = read_i32_be(data, begin - 4)
    head_bytes = text_length_bytes + 1
    text_stop = begin + head_bytes + read_i16_be(data, begin + head_bytes - 2)
    prefix = data[begin : text_stop + 5]
    prefix_bytes = len(prefix)
    length = int.from_bytes(prefix[-4:], "big")
    if count <= 0 or count * (prefix_bytes + length) != stop - begin:
        return None
    subject = memo.get(prefix[head_bytes:-5])
    if not subject or prefix != _prefix(prefix[head_bytes:-5], text_length_bytes, length):
        return None
    if count < _ACROSS_COUNT_MIN:
        cut = _cut_all(prefix_bytes, length, count)(data, begin)
        return AlikeUpdates(subject, cut[1::2]) if cut[::2].count(prefix) == count else None
    # Looked at across: the first byte of all updates, the second of all, and so on.
    step = prefix_bytes + length
    for place, value in enumerate(prefix, begin):
        if data[place:stop:step].count(value) != count:
            return None
    return AlikeUpdates(subject, _cut_alike(prefix_bytes, length, count)(data, begin))


@lru_cache(maxsize=_CUT_COUNT_MAX)
def _prefix(raw: bytes, text_length_bytes: int, length: int) -> bytes:
    """All that stands before the data of an update."""
    text_length = len(raw).to_bytes(text_length_bytes, "big")
    return b"\x01" + text_length + raw + b"\x01" + length.to_bytes(4, "big")


@lru_cache(maxsize=_CUT_COUNT_MAX)
def _cut_all(
    prefix_bytes: int, length: int, count: int
) -> Callable[[bytes, int], tuple[bytes, ...]]:
    return struct.Struct(f"{prefix_bytes}s{length}s" * count).unpack_from


@lru_cache(maxsize=_CUT_COUNT_MAX)
def _cut_alike(
    prefix_bytes: int, length: int, count: int
) -> Callable[[bytes, int], tuple[bytes, ...]]:
    return struct.Struct(f"{prefix_bytes}x{length}s" * count).unpack_from


def unpack_for_this_build() -> Unpack:
    """The quicker one of the two."""
    return unpack if _IS_COMPILED else plain_unpack
