"""BSON, in which Goby programs exchange JSON: documents to JSON values, and back.

Only what JSON has is supported, and binary data: the types that Goby programs write. Integers are
written in the shortest of the three forms for them, as those programs do.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from skerry.errors import DecodeError, EncodeError
from skerry.limits import JSON_DEPTH_MAX, JSON_VALUE_COUNT_MAX

_NAME: Final = "BSON"

_DOUBLE: Final = 0x01
_STRING: Final = 0x02
_DOCUMENT: Final = 0x03
_ARRAY: Final = 0x04
_BINARY: Final = 0x05
_BOOL: Final = 0x08
_NULL: Final = 0x0A
_INT32: Final = 0x10
_UINT64: Final = 0x11
"""A time stamp by the standard, but Goby programs write integers above 63 bits like this."""
_INT64: Final = 0x12

_SIZE: Final = struct.Struct("<i")
_NUMBERS: Final = {
    _DOUBLE: struct.Struct("<d"),
    _INT32: struct.Struct("<i"),
    _UINT64: struct.Struct("<Q"),
    _INT64: struct.Struct("<q"),
}
_EMPTY_BYTES: Final = _SIZE.size + 1
"""Bytes of a document without elements: its size and the final NUL."""


def decode_bson(data: bytes) -> dict[str, Any]:
    """The document as JSON values; binary data as bytes. Raises DecodeError."""
    reader = _Reader(data)
    values, stop = reader.document(0, 1)
    if stop != len(data):
        _refuse(f"{len(data) - stop} bytes follow the document")
    return values


def encode_bson(values: Mapping[str, Any]) -> bytes:
    """JSON values as a document, in their order. Raises EncodeError for what BSON does not have."""
    return _document(values.items(), 1)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._count = 0

    def document(self, start: int, depth: int) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        stop = self._elements(start, depth, values.__setitem__)
        return values, stop

    def _elements(self, start: int, depth: int, put: Any) -> int:
        if depth > JSON_DEPTH_MAX:
            _refuse(f"documents are nested more than {JSON_DEPTH_MAX} deep")
        data = self._data
        if len(data) - start < _EMPTY_BYTES:
            _refuse("the bytes end in a document")
        size = int.from_bytes(data[start : start + _SIZE.size], "little", signed=True)
        stop = start + size
        if size < _EMPTY_BYTES or stop > len(data) or data[stop - 1]:
            _refuse(f"a document cannot have {size} bytes here")
        at = start + _SIZE.size
        while at < stop - 1:
            self._count += 1
            if self._count > JSON_VALUE_COUNT_MAX:
                _refuse(f"more than {JSON_VALUE_COUNT_MAX} values")
            kind = data[at]
            end = data.find(b"\0", at + 1, stop - 1)
            if end < 0:
                _refuse("the name of an element has no end")
            name = _text(data[at + 1 : end])
            value, at = self._value(kind, end + 1, stop - 1, depth)
            put(name, value)
        return stop

    def _value(self, kind: int, at: int, stop: int, depth: int) -> tuple[Any, int]:
        """The value, and the offset after it, which is at most `stop`."""
        number = _NUMBERS.get(kind)
        value: Any = None
        if number is not None:
            end = self._end(at, number.size, stop)
            (value,) = number.unpack_from(self._data, at)
        elif kind == _STRING:
            size = self._size(at, stop)
            at += _SIZE.size
            end = self._end(at, size, stop)
            if size < 1 or self._data[end - 1]:
                _refuse("a text does not end with NUL")
            value = _text(self._data[at : end - 1])
        elif kind == _BINARY:
            size = self._size(at, stop)
            at += _SIZE.size + 1
            end = self._end(at, size, stop)
            value = self._data[at:end]
        elif kind == _DOCUMENT:
            value, end = self.document(at, depth + 1)
        elif kind == _ARRAY:
            items: list[Any] = []
            end = self._elements(at, depth + 1, lambda _name, item: items.append(item))
            value = items
        elif kind == _BOOL:
            end = self._end(at, 1, stop)
            value = self._data[at] != 0
        elif kind == _NULL:
            end = at
        else:
            _refuse(f"type 0x{kind:02x} is not one of JSON")
        if end > stop:
            _refuse("a value ends after its document")
        return value, end

    def _size(self, at: int, stop: int) -> int:
        self._end(at, _SIZE.size, stop)
        return int.from_bytes(self._data[at : at + _SIZE.size], "little", signed=True)

    def _end(self, at: int, size: int, stop: int) -> int:
        if size < 0 or at + size > stop:
            _refuse("a value ends after its document")
        return at + size


def _document(items: Any, depth: int) -> bytes:
    if depth > JSON_DEPTH_MAX:
        _refuse_value(f"values are nested more than {JSON_DEPTH_MAX} deep")
    parts = [b""]
    for name, value in items:
        text = _utf8(name)
        if b"\0" in text:
            _refuse_value("a name contains NUL")
        kind, data = _encoded(value, depth)
        parts += (bytes([kind]), text, b"\0", data)
    parts.append(b"\0")
    size = _SIZE.size + sum(map(len, parts))
    if size >= 2**31:
        _refuse_value(f"a document of {size} bytes; BSON has at most 2 GiB")
    parts[0] = _SIZE.pack(size)
    return b"".join(parts)


def _encoded(value: Any, depth: int) -> tuple[int, bytes]:
    if value is None:
        return _NULL, b""
    if isinstance(value, bool):
        return _BOOL, bytes([value])
    if isinstance(value, int):
        for kind, low, stop in ((_INT32, -(2**31), 2**31), (_INT64, -(2**63), 2**63)):
            if low <= value < stop:
                return kind, _NUMBERS[kind].pack(value)
        if 0 <= value < 2**64:
            return _UINT64, _NUMBERS[_UINT64].pack(value)
        _refuse_value("an integer does not fit into 64 bits")
    if isinstance(value, float):
        return _DOUBLE, _NUMBERS[_DOUBLE].pack(value)
    if isinstance(value, str):
        data = _utf8(value)
        return _STRING, _SIZE.pack(len(data) + 1) + data + b"\0"
    if isinstance(value, bytes):
        return _BINARY, _SIZE.pack(len(value)) + b"\0" + value
    if isinstance(value, Mapping):
        return _DOCUMENT, _document(value.items(), depth + 1)
    if isinstance(value, Sequence):
        return _ARRAY, _document(((str(i), item) for i, item in enumerate(value)), depth + 1)
    _refuse_value(f"a {type(value).__name__} is not a JSON value")


def _utf8(text: Any) -> bytes:
    if not isinstance(text, str):
        _refuse_value(f"the name of an element is a {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError:
        _refuse_value("a text contains surrogates")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        _refuse("a text is not UTF-8")


def _refuse(detail: str) -> NoReturn:
    raise DecodeError(type_name=_NAME, detail=detail)


def _refuse_value(detail: str) -> NoReturn:
    raise EncodeError(type_name=_NAME, field="", detail=detail)
