"""The loop of `unpacking` for where nothing is compiled: fewer and larger steps."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from skerry.protocol.distributor.unpacking import Resolver, unpack

__all__ = ["Unpack", "plain_unpack", "unpack_for_this_build"]

Unpack = Callable[[bytes, int, dict[bytes, str], Resolver, list[tuple[str, bytes]]], bool]

_TEXT_HEAD: Final = {2: struct.Struct(">BH"), 4: struct.Struct(">BI")}
_DATA_HEAD: Final = struct.Struct(">BI")
_PREFIX_TRIES: Final = 8


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
    # Often many updates in a row have one subject and one length, so all before their data is the
    # same. Where that is not so, looking for it is given up.
    prefix, prefix_bytes, subject, length, tries = b"", 0, "", 0, _PREFIX_TRIES
    try:
        for _ in range(int.from_bytes(data[24:28], "big")):
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


def unpack_for_this_build() -> Unpack:
    """The quicker one of the two."""
    is_compiled = not hasattr(unpack, "__code__")
    return unpack if is_compiled else plain_unpack
