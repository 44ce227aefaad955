"""Decodes one payload to the values of its columns; defines the rules of decoding.

`columnar_decoder` returns the same values for many payloads at once. The rules are those of the
codec, with three differences so that recorded data is not lost. An enum tag without a name becomes
its number as text. Content that a column cannot represent (an unknown field at any depth, text that
is not UTF-8, a time outside the calendar) is kept as the encoded value of its top-level field. And
if a payload does not decode as its type, all columns are null, and tag 0, which no field has, keeps
the whole payload.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final
from uuid import UUID

from skerry.limits import (
    SKIP_DEPTH_MAX,
    STRUCT_COUNT_MAX,
    STRUCT_ENTRY_COUNT_MAX,
    VECTOR_COUNT_MAX,
)
from skerry.schema.model import (
    INTEGER_RANGES,
    EnumType,
    FieldType,
    Kind,
    RefType,
    StructType,
    VectorType,
)

WHOLE_TAG: Final = 0
"""The tag under which `unknown` has a payload that does not decode as its type."""

UNKNOWN_TAG_MAX: Final = 2**31 - 1
"""Tags in the column `unknown` are 32-bit integers."""

TIME_S_MIN: Final = -62135596800.0
TIME_S_MAX: Final = 253402300799.0
"""The years 1 to 9999, which all readers of tables can represent."""

_MAP: Final = 0xA0
_ARRAY: Final = 0x80
_TEXT: Final = 0x60
_BYTES: Final = 0x40
_UNSIGNED: Final = 0x00
_NEGATIVE: Final = 0x20
_FLOAT_FORMS: Final = {0xF9: (2, ">e"), 0xFA: (4, ">f"), 0xFB: (8, ">d")}
_FLOAT_WIDEST: Final = {Kind.FLOAT16: 0xF9, Kind.FLOAT32: 0xFA}


def decode_payload(reader: StructType, data: bytes) -> tuple[list[Any], dict[int, bytes]]:
    """The value of each field (None if unset), and by tag the encoded values of `unknown`."""
    if not data:
        return [None] * len(reader.fields), {}
    try:
        return _PayloadReader(data).whole(reader)
    except _Mismatch:
        return [None] * len(reader.fields), {WHOLE_TAG: data}


class _Mismatch(Exception):
    """The payload does not decode as its type."""


class _PayloadReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pos = 0
        self._end = len(data)
        self._struct_count = 0
        self._is_exact = True

    def whole(self, reader: StructType) -> tuple[list[Any], dict[int, bytes]]:
        unknown: dict[int, bytes] = {}
        values: dict[int, Any] = {}
        types = {field.tag: field.type for field in reader.fields}
        for _ in range(self._entry_count()):
            tag = self._tag()
            if tag in values or tag in unknown:
                raise _Mismatch
            start = self._pos
            self._is_exact = True
            if tag in types:
                values[tag] = self._value(types[tag])
            else:
                self._skip()
                self._is_exact = False
            if not self._is_exact:
                if tag == WHOLE_TAG:
                    raise _Mismatch
                unknown[tag] = self._data[start : self._pos]
        if self._pos != self._end:
            raise _Mismatch
        return [values.get(field.tag) for field in reader.fields], unknown

    # -- heads

    def _byte(self) -> int:
        if self._pos >= self._end:
            raise _Mismatch
        return self._data[self._pos]

    def _argument(self, major: int) -> int:
        first = self._byte()
        if first & 0xE0 != major:
            raise _Mismatch
        info = first & 0x1F
        if info < 24:
            self._pos += 1
            return info
        if info > 27:
            raise _Mismatch
        start, stop = self._pos + 1, self._pos + 1 + (1 << (info - 24))
        if stop > self._end:
            raise _Mismatch
        self._pos = stop
        return int.from_bytes(self._data[start:stop], "big")

    def _count(self, major: int, limit: int) -> int:
        count = self._argument(major)
        if count > self._end - self._pos or count > limit:
            raise _Mismatch
        return count

    def _entry_count(self) -> int:
        self._struct_count += 1
        if self._struct_count > STRUCT_COUNT_MAX:
            raise _Mismatch
        return self._count(_MAP, STRUCT_ENTRY_COUNT_MAX)

    def _tag(self) -> int:
        tag = self._argument(_UNSIGNED)
        if tag > UNKNOWN_TAG_MAX:
            raise _Mismatch
        return tag

    def _span(self, major: int) -> bytes:
        length = self._argument(major)
        if length > self._end - self._pos:
            raise _Mismatch
        self._pos += length
        return self._data[self._pos - length : self._pos]

    # -- values

    def _value(self, type_: FieldType) -> Any:
        kind = type_.kind
        if kind in INTEGER_RANGES:
            return self._integer(kind)
        if isinstance(type_, EnumType):
            tag = self._argument(_UNSIGNED)
            return next((e.name for e in type_.elements if e.tag == tag), str(tag))
        if isinstance(type_, StructType):
            return self._struct(type_)
        if isinstance(type_, VectorType):
            count = self._count(_ARRAY, VECTOR_COUNT_MAX)
            return [self._value(type_.element) for _ in range(count)]
        if isinstance(type_, RefType):
            return self._reference(type_)
        return self._scalar(kind)

    def _scalar(self, kind: Kind) -> Any:
        if kind == Kind.STRING:
            return self._text()
        if kind == Kind.BYTES:
            return self._span(_BYTES)
        if kind == Kind.BOOL:
            first = self._byte()
            if first not in (0xF4, 0xF5):
                raise _Mismatch
            self._pos += 1
            return first == 0xF5
        if kind == Kind.UUID:
            raw = self._span(_BYTES)
            if len(raw) != 16:
                raise _Mismatch
            return str(UUID(bytes=raw))
        if kind == Kind.ANY:
            self._pair()
            name = self._text()
            return {"type": name, "payload": self._span(_BYTES)}
        seconds = self._float(kind)
        return self._micros(seconds) if kind == Kind.TIMEPOINT else seconds

    def _integer(self, kind: Kind) -> int:
        low, high = INTEGER_RANGES[kind]
        widest = {8: 24, 16: 25, 32: 26, 64: 27}[(high - low).bit_length()]
        first = self._byte()
        major = first & 0xE0
        if first & 0x1F > widest or major > (_NEGATIVE if low else _UNSIGNED):
            raise _Mismatch
        argument = self._argument(major)
        value = -1 - argument if major else argument
        if not low <= value <= high:
            raise _Mismatch
        return value

    def _float(self, kind: Kind) -> float:
        first = self._byte()
        if not 0xF9 <= first <= _FLOAT_WIDEST.get(kind, 0xFB):
            raise _Mismatch
        width, form = _FLOAT_FORMS[first]
        start, self._pos = self._pos + 1, self._pos + 1 + width
        if self._pos > self._end:
            raise _Mismatch
        value: float = struct.unpack_from(form, self._data, start)[0]
        return value

    def _micros(self, seconds: float) -> int | None:
        if not TIME_S_MIN <= seconds <= TIME_S_MAX:
            self._is_exact = False
            return None
        # Rounded half to even, as numpy does.
        return round(seconds * 1e6) if math.isfinite(seconds) else None

    def _text(self) -> str:
        raw = self._span(_TEXT)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self._is_exact = False
            return raw.decode("utf-8", "replace")

    def _struct(self, type_: StructType) -> dict[str, Any]:
        types = {field.tag: field.type for field in type_.fields}
        values: dict[int, Any] = {}
        for _ in range(self._entry_count()):
            tag = self._tag()
            if tag in values:
                raise _Mismatch
            if tag in types:
                values[tag] = self._value(types[tag])
            else:
                self._skip()
                self._is_exact = False
        return {field.name: values.get(field.tag) for field in type_.fields}

    def _pair(self) -> None:
        if self._byte() != _ARRAY | 2:
            raise _Mismatch
        self._pos += 1

    def _reference(self, type_: RefType) -> dict[str, Any]:
        name = type_.target
        if name is None:
            self._pair()
            name = self._text()
        start = self._pos
        self._check_key()
        return {"type": name, "key": self._data[start : self._pos]}

    # -- values without a type

    def _skip(self) -> None:
        """Skip one item of any kind."""
        pending: list[int] = []
        left = 1
        while True:
            while left == 0:
                if not pending:
                    return
                left = pending.pop()
            left -= 1
            inside = self._skip_head()
            if inside:
                if len(pending) >= SKIP_DEPTH_MAX:
                    raise _Mismatch
                pending.append(left)
                left = inside

    def _skip_head(self) -> int:
        """Skip a head and its string; returns the number of items inside."""
        major = self._byte() & 0xE0
        argument = self._argument(major)
        if major in (_BYTES, _TEXT):
            if argument > self._end - self._pos:
                raise _Mismatch
            self._pos += argument
        elif major in (_ARRAY, _MAP):
            if argument > self._end - self._pos:
                raise _Mismatch
            return argument if major == _ARRAY else argument * 2
        return 1 if major == 0xC0 else 0

    def _check_key(self) -> None:
        """Skip a canonical key. Equal keys must have equal bytes, so heads must be shortest."""
        if self._byte() & 0xE0 != _ARRAY:
            raise _Mismatch
        start = self._pos
        self._skip()
        stop, self._pos = self._pos, start
        while self._pos < stop:
            first = self._byte()
            major = first & 0xE0
            before = self._pos
            argument = self._argument(major)
            if major == 0xC0 or first == 0xF6:
                raise _Mismatch
            if major != 0xE0 and _head_size(argument) != self._pos - before:
                raise _Mismatch
            if major in (_BYTES, _TEXT):
                self._pos += argument


def _head_size(argument: int) -> int:
    if argument < 24:
        return 1
    return next(1 + size for size in (1, 2, 4, 8) if argument < 1 << (8 * size))
