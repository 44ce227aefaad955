"""The framing of Arrow messages, to find messages in a damaged stream.

A message is a marker of four bytes, the size of its metadata, the metadata (a flatbuffer), and a
body whose size is in the metadata. The reader of Arrow goes from one message to the next and cannot
continue after damage. This module checks every size that it reads and trusts nothing else.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

MARK: Final = b"\xff\xff\xff\xff"
"""Every message begins with this marker."""

END_OF_STREAM: Final = MARK + b"\0\0\0\0"
"""The end marker: a message without metadata."""

SCHEMA_MESSAGE: Final = 1
DICTIONARY: Final = 2
RECORD_BATCH: Final = 3

_HEADER_TYPE: Final = 1
_BODY_LENGTH: Final = 3
"""Indexes of these fields in the table of a message."""


@dataclass(frozen=True, slots=True)
class Message:
    """Kind and offsets of one message."""

    kind: int
    start: int
    body: int
    """Offset of the body; the metadata precedes it."""
    stop: int
    """Offset of the next message."""


def message_at(data: memoryview, start: int) -> Message | None:
    """The message that begins at `start`; None if there is no complete message."""
    if len(data) - start < 8 or bytes(data[start : start + 4]) != MARK:
        return None
    size = _int32(data, start + 4)
    body = start + 8 + size
    if size < 8 or size % 8 or body > len(data):
        return None
    facts = _facts(data[start + 8 : body])
    if facts is None:
        return None
    kind, body_size = facts
    if kind not in (SCHEMA_MESSAGE, DICTIONARY, RECORD_BATCH):
        return None
    if body_size < 0 or body_size % 8 or body_size > len(data) - body:
        return None
    return Message(kind, start, body, body + body_size)


def _facts(metadata: memoryview) -> tuple[int, int] | None:
    """Kind and size of the body, from the root table of the flatbuffer; None if it is invalid."""
    try:
        table = _uint32(metadata, 0)
        vtable = table - _int32(metadata, table)
        count = (_uint16(metadata, vtable) - 4) // 2
        kind = _field_offset(metadata, vtable, count, _HEADER_TYPE)
        length = _field_offset(metadata, vtable, count, _BODY_LENGTH)
        body_size = _int64(metadata, table + length) if length else 0
        return (metadata[table + kind] if kind else 0), body_size
    except (IndexError, struct.error):
        return None


def _field_offset(metadata: memoryview, vtable: int, count: int, field: int) -> int:
    """Offset of a field in its table; 0 if the field is missing."""
    return _uint16(metadata, vtable + 4 + 2 * field) if field < count else 0


def _uint16(data: memoryview, offset: int) -> int:
    return _number("<H", data, offset)


def _int32(data: memoryview, offset: int) -> int:
    return _number("<i", data, offset)


def _uint32(data: memoryview, offset: int) -> int:
    return _number("<I", data, offset)


def _int64(data: memoryview, offset: int) -> int:
    return _number("<q", data, offset)


def _number(form: str, data: memoryview, offset: int) -> int:
    if offset < 0:
        # Python would count a negative offset from the end.
        raise IndexError(offset)
    number: int = struct.unpack_from(form, data, offset)[0]
    return number
