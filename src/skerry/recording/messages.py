"""Arrow's messages, as far as one has to know them to find one's way in a damaged stream.

A message is a mark of four bytes, the size of its metadata, the metadata (a flatbuffer), and a body
whose size stands in the metadata. Arrow's own reader goes from one to the next, and is lost after
the first damage. Here sizes are read with every step checked, and nothing is believed beyond that.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

__all__ = [
    "DICTIONARY",
    "END_OF_STREAM",
    "MARK",
    "RECORD_BATCH",
    "SCHEMA_MESSAGE",
    "Message",
    "message_at",
]

MARK: Final = b"\xff\xff\xff\xff"
"""Every message begins with it."""

END_OF_STREAM: Final = MARK + b"\0\0\0\0"
"""A message without metadata: nothing follows."""

SCHEMA_MESSAGE: Final = 1
DICTIONARY: Final = 2
RECORD_BATCH: Final = 3

_HEADER_TYPE: Final = 1
_BODY_LENGTH: Final = 3
"""Places of these fields in the table of a message."""


@dataclass(frozen=True, slots=True)
class Message:
    """Where one message is and what it is."""

    kind: int
    start: int
    body: int
    """Where its body begins; the metadata is between the start and here."""
    stop: int
    """Where the next message begins."""


def message_at(data: memoryview, start: int) -> Message | None:
    """The whole message that begins at `start`; None where there is none."""
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
    """Kind and size of the body, from the flatbuffer's root table; None where it is none."""
    try:
        table = _uint32(metadata, 0)
        places = table - _int32(metadata, table)
        count = (_uint16(metadata, places) - 4) // 2
        kind = _place(metadata, places, count, _HEADER_TYPE)
        length = _place(metadata, places, count, _BODY_LENGTH)
        body_size = _int64(metadata, table + length) if length else 0
        return (metadata[table + kind] if kind else 0), body_size
    except (IndexError, struct.error):
        return None


def _place(metadata: memoryview, places: int, count: int, field: int) -> int:
    """Where a field is in its table; 0 if it is not there."""
    return _uint16(metadata, places + 4 + 2 * field) if field < count else 0


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
        # What counts from the end in Python is outside of the table here.
        raise IndexError(offset)
    number: int = struct.unpack_from(form, data, offset)[0]
    return number
