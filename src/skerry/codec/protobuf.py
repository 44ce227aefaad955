"""The wire format of Protocol Buffers: numbered fields, for messages whose layout is fixed.

A writer leaves out fields with the value zero, as proto3 does. A reader skips fields that it does
not know, so that later versions may add some; of a field that occurs twice, the last one counts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from skerry.errors import DecodeError

__all__ = [
    "BLOB",
    "FIXED64",
    "VARINT",
    "blob_field",
    "fixed_field",
    "packed_field",
    "read_fields",
    "read_packed",
    "varint_field",
]

VARINT: Final = 0
FIXED64: Final = 1
BLOB: Final = 2
"""The wire types, in the lowest three bits of a tag. A tag is the number of the field times 8, and
the wire type."""
_FIXED32: Final = 5
_VARINT_BYTES_MAX: Final = 10
_U64: Final = (1 << 64) - 1
_SIGNED: Final = struct.Struct("<q")


def varint_field(number: int, value: int) -> bytes:
    """Return a field with a number that is not negative."""
    return _varint(number << 3 | VARINT) + _varint(value) if value else b""


def fixed_field(number: int, value: int) -> bytes:
    """Return a field with a signed number of 64 bits."""
    return _varint(number << 3 | FIXED64) + _SIGNED.pack(value) if value else b""


def blob_field(number: int, value: bytes, *, is_repeated: bool = False) -> bytes:
    """Return a field with bytes, a text in UTF-8, or a message. Repeated ones may be empty."""
    if not value and not is_repeated:
        return b""
    return _varint(number << 3 | BLOB) + _varint(len(value)) + value


def packed_field(number: int, values: Iterable[int]) -> bytes:
    """Return a repeated field of signed numbers of 64 bits."""
    return blob_field(number, b"".join(map(_SIGNED.pack, values)))


def read_fields(data: bytes) -> tuple[list[tuple[int, int]], list[tuple[int, bytes]]]:
    """Return the numbers and the bytes of a message, each with its tag, in order.

    Numbers of 64 bits are signed, and varints are not. Raises DecodeError.
    """
    numbers: list[tuple[int, int]] = []
    blobs: list[tuple[int, bytes]] = []
    offset, size = 0, len(data)
    while offset < size:
        tag, offset = _read_varint(data, offset)
        wire_type = tag & 7
        if wire_type == VARINT:
            value, offset = _read_varint(data, offset)
            numbers.append((tag, value))
            continue
        if wire_type == FIXED64:
            stop = offset + 8
        elif wire_type == BLOB:
            length, offset = _read_varint(data, offset)
            stop = offset + length
        elif wire_type == _FIXED32:
            stop = offset + 4
        else:
            raise _fault(f"wire type {wire_type} is not supported", offset)
        if stop > size:
            raise _fault("a field exceeds the message", offset)
        if wire_type == FIXED64:
            numbers.append((tag, _SIGNED.unpack_from(data, offset)[0]))
        elif wire_type == BLOB:
            blobs.append((tag, data[offset:stop]))
        offset = stop
    return numbers, blobs


def read_packed(data: bytes) -> tuple[int, ...]:
    """Return the numbers of a packed field. Raises DecodeError."""
    if len(data) % 8:
        raise _fault(f"{len(data)} bytes of numbers with 8 bytes each", 0)
    return tuple(value for (value,) in _SIGNED.iter_unpack(data))


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return a number and the offset behind it."""
    value = shift = 0
    for index in range(offset, min(offset + _VARINT_BYTES_MAX, len(data))):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _U64, index + 1
        shift += 7
    raise _fault("a number does not end", offset)


def _fault(detail: str, offset: int) -> DecodeError:
    return DecodeError(type_name="Protobuf", detail=detail, offset=offset)
