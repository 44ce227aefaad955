"""Reading of a large JSON message, whose values are encoded as soon as they are parsed.

The message is a tree of values. Each list or object that the parser has opened has a node here,
which knows the type of its content. Fields that the type does not have are parsed and dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from skerry.codec.codec import Codec
from skerry.codec.encoder import encode_value, head
from skerry.codec.plans import FieldPlan, StructPlan, ValuePlan
from skerry.errors import DecodeError, EncodeError
from skerry.limits import JSON_PIECE_BYTES, PAYLOAD_BYTES_MAX, VECTOR_COUNT_MAX
from skerry.protocol.access.header import Header, read_header
from skerry.protocol.access.json.objects import (
    list_from_plain,
    object_from_plain,
    value_from_plain,
)
from skerry.protocol.access.json.parser import JsonParser
from skerry.schema.model import Kind

_FORM: Final = "expected [ header, object ]"


class JsonReading:
    """A large message that is read in steps.

    `header_codec` is the codec of DotsHeader; `find` returns the codec of the object for a header.
    """

    def __init__(
        self,
        data: bytes,
        header_codec: Codec,
        find: Callable[[Header], Codec],
        *,
        bytes_max: int,
        piece_bytes: int = JSON_PIECE_BYTES,
    ) -> None:
        self._size = len(data)
        self._bytes_max = bytes_max
        self._message = _Message(header_codec, find)
        self._parser = JsonParser(data, self._message, piece_bytes=piece_bytes)
        self.message: tuple[Header, bytes] | None = None
        """The transmission; None until all of it is read."""

    def step(self, count: int) -> int:
        """Read up to `count` units of work; return how many were done. DecodeError if invalid."""
        if self._size > self._bytes_max:
            _refuse("JSON", f"a message of {self._size} bytes, the limit is {self._bytes_max}")
        done = 0
        try:
            while done < count and not self._parser.is_done:
                done += self._parser.step()
            if self._parser.is_done:
                self.message = self._message.result()
        except EncodeError as error:
            raise unreadable(error) from None
        return done


class _Message:
    """The sink of the parser: the nodes of all lists and objects that are open."""

    def __init__(self, header_codec: Codec, find: Callable[[Header], Codec]) -> None:
        self._root = _Root(header_codec, find)
        self._open: list[tuple[_Node, str | None]] = []
        """Each with its name in the node before."""

    def begin(self, name: str | None, *, is_list: bool) -> None:
        """Open a list or an object."""
        if self._open:
            self._open.append((self._open[-1][0].inner(name, is_list), name))
        elif is_list:
            self._open.append((self._root, None))
        else:
            _refuse("JSON", _FORM)

    def add(self, values: list[Any] | dict[str, Any]) -> None:
        """Add values to the innermost list or object."""
        if not self._open:
            _refuse("JSON", _FORM)
        self._open[-1][0].add(values)

    def end(self) -> None:
        """Close the innermost list or object."""
        ended, name = self._open.pop()
        if self._open:
            self._open[-1][0].put(name, ended.encoded())

    def result(self) -> tuple[Header, bytes]:
        """Return the message, after all of it was parsed."""
        header, payload = self._root.header, self._root.payload
        if header is None or payload is None:
            _refuse("JSON", _FORM)
        if len(payload) > PAYLOAD_BYTES_MAX:
            detail = f"{len(payload)} bytes encoded, the limit is {PAYLOAD_BYTES_MAX}"
            _refuse(header.type_name, detail)
        return header, payload


class _Node:
    """A list or an object that is being parsed. This base class drops its content."""

    def add(self, values: Any) -> None:
        """Encode whole values."""

    def inner(self, _name: str | None, _is_list: bool) -> _Node:
        """Return the node for a list or object in this one."""
        return self

    def put(self, name: str | None, data: bytes | None) -> None:
        """Add the encoded value of an inner node; None if it is dropped."""

    def encoded(self) -> bytes | None:
        """Return the encoded value; None if it is dropped."""
        return None


_DROPPED: Final = _Node()


class _Root(_Node):
    """The message itself: a header and an object."""

    def __init__(self, header_codec: Codec, find: Callable[[Header], Codec]) -> None:
        self._plan = header_codec.plan
        self._find = find
        self.header: Header | None = None
        self.payload: bytes | None = None

    def add(self, values: list[Any]) -> None:
        for value in values:
            struct = self._struct(value)
            struct.add(value)
            self.put(None, struct.encoded())

    def inner(self, _name: str | None, is_list: bool) -> _Node:
        return self._struct([] if is_list else {})

    def _struct(self, plain: object) -> _Struct:
        if self.payload is not None:
            _refuse("JSON", _FORM)
        return _Struct(self._plan, plain)

    def put(self, _name: str | None, data: bytes | None) -> None:
        assert data is not None
        if self.header is None:
            self.header, _ = read_header(data, 0)
            self._plan = self._find(self.header).plan
        else:
            self.payload = data


class _Struct(_Node):
    """An object of a known type. `plain` is a JSON value of the same kind, for the check of it."""

    def __init__(self, plan: StructPlan, plain: object) -> None:
        if not isinstance(plain, dict):
            object_from_plain(plan, plain)
        self._plan = plan
        self._fields: dict[int, bytes] = {}

    def add(self, values: dict[str, Any]) -> None:
        plan = self._plan
        for field in plan.fields:
            plain = values.get(field.name)
            if plain is not None:
                value = value_from_plain(plan, field, field.value, plain)
                self._fields[int(field.tag)] = encode_value(plan, field, value, field.value)

    def inner(self, name: str | None, is_list: bool) -> _Node:
        for field in self._plan.fields:
            if field.name == name:
                return _node(self._plan, field, field.value, is_list)
        return _DROPPED

    def put(self, name: str | None, data: bytes | None) -> None:
        for field in self._plan.fields:
            if field.name == name and data is not None:
                self._fields[int(field.tag)] = data

    def encoded(self) -> bytes:
        parts = [head(0xA0, len(self._fields))]
        for field in self._plan.fields:
            data = self._fields.get(int(field.tag))
            if data is not None:
                parts += (head(0x00, int(field.tag)), data)
        return b"".join(parts)


class _Vector(_Node):
    def __init__(self, plan: StructPlan, field: FieldPlan, spec: ValuePlan) -> None:
        assert spec.element is not None
        self._plan = plan
        self._field = field
        self._spec = spec
        self._element = spec.element
        self._count = 0
        self._data = bytearray()

    def add(self, values: list[Any]) -> None:
        part = list_from_plain(self._plan, self._field, self._spec, values)
        data = encode_value(self._plan, self._field, part, self._spec)
        self._data += data[len(head(0x80, len(part))) :]
        self._grow(len(part))

    def inner(self, _name: str | None, is_list: bool) -> _Node:
        return _node(self._plan, self._field, self._element, is_list)

    def put(self, _name: str | None, data: bytes | None) -> None:
        assert data is not None
        self._data += data
        self._grow(1)

    def encoded(self) -> bytes:
        return head(0x80, self._count) + self._data

    def _grow(self, count: int) -> None:
        self._count += count
        if self._count > VECTOR_COUNT_MAX:
            raise EncodeError(
                type_name=self._plan.name,
                field=self._field.name,
                detail=f"{self._count} elements, the limit is {VECTOR_COUNT_MAX}",
            )


class _Single(_Node):
    """An object that is a single value, such as a type name with bytes."""

    def __init__(self, plan: StructPlan, field: FieldPlan, spec: ValuePlan) -> None:
        self._plan = plan
        self._field = field
        self._spec = spec
        self._found: dict[str, Any] = {}

    def add(self, values: dict[str, Any]) -> None:
        for name in ("typeName", "payload", "key"):
            if name in values:
                self._found[name] = values[name]

    def inner(self, _name: str | None, _is_list: bool) -> _Node:
        return _DROPPED

    def encoded(self) -> bytes:
        value = value_from_plain(self._plan, self._field, self._spec, self._found)
        return encode_value(self._plan, self._field, value, self._spec)


def _node(plan: StructPlan, field: FieldPlan, spec: ValuePlan, is_list: bool) -> _Node:
    """Return the node for a list or object where a value of this kind is expected."""
    if is_list and spec.kind == Kind.VECTOR:
        return _Vector(plan, field, spec)
    if not is_list and spec.kind == Kind.STRUCT:
        assert spec.struct is not None
        return _Struct(spec.struct, {})
    if not is_list and spec.kind in (Kind.ANY, Kind.REF):
        return _Single(plan, field, spec)
    # A value of another kind: this raises the error, or the encoder does.
    value: Any = [] if is_list else {}
    encode_value(plan, field, value_from_plain(plan, field, spec, value), spec)
    raise AssertionError(f"{spec.name} accepts a list or an object")


def unreadable(error: EncodeError) -> DecodeError:
    """Return the error for a message whose values do not fit their type."""
    return DecodeError(type_name=error.type_name, field=error.field, detail=error.detail)


def _refuse(type_name: str, detail: str) -> NoReturn:
    raise DecodeError(type_name=type_name, detail=detail)
