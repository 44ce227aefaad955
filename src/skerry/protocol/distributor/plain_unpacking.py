"""The loop of `unpacking` for where nothing is compiled: fewer and larger steps."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import repeat
from typing import Final

from skerry.protocol.distributor.unpacking import Resolver, unpack

__all__ = ["IS_PACKED_KEPT", "Unpack", "plain_unpack", "unpack_for_this_build"]

Unpack = Callable[[bytes, int, dict[bytes, str], Resolver, list[tuple[str, bytes]]], bool]

_IS_COMPILED: Final = not hasattr(unpack, "__code__")

IS_PACKED_KEPT: Final = _IS_COMPILED
"""Whether it is quicker to look at a datagram twice than to take all out of it at once."""

_TEXT_HEAD: Final = {2: struct.Struct(">BH"), 4: struct.Struct(">BI")}
_DATA_HEAD: Final = struct.Struct(">BI")
_PREFIX_TRIES: Final = 8
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
    alike = _unpack_alike(data, count, text_length_bytes, find)
    if alike is not None:
        updates += alike
        return True
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


def _unpack_alike(
    data: bytes, count: int, text_length_bytes: int, find: Callable[[bytes], str | None]
) -> Iterable[tuple[str, bytes]] | None:
    """The updates of a datagram where all have one subject, known and wanted, and one length."""
    step, rest = divmod(len(data) - 28, count) if count else (0, 1)
    head_bytes = text_length_bytes + 1
    if rest or step < head_bytes + 5:
        return None
    stop = 28 + head_bytes + int.from_bytes(data[28 + head_bytes - 2 : 28 + head_bytes], "big")
    prefix_bytes = stop + 5 - 28
    length = step - prefix_bytes
    subject = find(data[28 + head_bytes : stop])
    if not subject or length < 0:
        return None
    prefix = data[28 : stop + 5]
    if prefix != _prefix(prefix[head_bytes:-5], text_length_bytes, length):
        return None
    # Looked at across: the first byte of all updates, the second of all, and so on.
    for place, value in enumerate(prefix, 28):
        if data[place::step] != bytes((value,)) * count:
            return None
    cut = _cut_alike(prefix_bytes, length, count)
    return zip(repeat(subject), cut(data, 28), strict=False)


def _prefix(raw: bytes, text_length_bytes: int, length: int) -> bytes:
    """All that stands before the data of an update."""
    text_length = len(raw).to_bytes(text_length_bytes, "big")
    return b"\x01" + text_length + raw + b"\x01" + length.to_bytes(4, "big")


@lru_cache(maxsize=_CUT_COUNT_MAX)
def _cut_alike(
    prefix_bytes: int, length: int, count: int
) -> Callable[[bytes, int], tuple[bytes, ...]]:
    return struct.Struct(f"{prefix_bytes}x{length}s" * count).unpack_from


def unpack_for_this_build() -> Unpack:
    """The quicker one of the two."""
    return unpack if _IS_COMPILED else plain_unpack
