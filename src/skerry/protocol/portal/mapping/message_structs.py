"""Structs for messages of Protocol Buffers, and objects from messages and back.

A message becomes a struct, a nested message a struct in it, a repeated field a vector, and an enum
an enum. The tag of a field is its number if that is a valid tag. Further fields, in the order of
their numbers, get the highest free tags, so that a message can get new fields at its end without
a change of the others. Extensions and unknown fields are not mapped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from google.protobuf.descriptor import FieldDescriptor

from skerry.errors import DecodeError, EncodeError, SchemaCheckError
from skerry.limits import ENUM_ELEMENT_COUNT_MAX, ENUM_TAG_MAX, TAG_MAX, TAG_MIN, TYPE_DEPTH_MAX
from skerry.objects.base import Struct
from skerry.objects.classes import attribute_names, class_of
from skerry.protocol.portal.mapping.protobuf_types import parse_message, serialize_message
from skerry.schema.model import (
    EnumElement,
    EnumType,
    Field,
    FieldType,
    Flags,
    Kind,
    NamedType,
    ScalarType,
    StructType,
    VectorType,
)

_KINDS: Final = {
    FieldDescriptor.TYPE_BOOL: Kind.BOOL,
    FieldDescriptor.TYPE_BYTES: Kind.BYTES,
    FieldDescriptor.TYPE_DOUBLE: Kind.FLOAT64,
    FieldDescriptor.TYPE_FIXED32: Kind.UINT32,
    FieldDescriptor.TYPE_FIXED64: Kind.UINT64,
    FieldDescriptor.TYPE_FLOAT: Kind.FLOAT32,
    FieldDescriptor.TYPE_INT32: Kind.INT32,
    FieldDescriptor.TYPE_INT64: Kind.INT64,
    FieldDescriptor.TYPE_SFIXED32: Kind.INT32,
    FieldDescriptor.TYPE_SFIXED64: Kind.INT64,
    FieldDescriptor.TYPE_SINT32: Kind.INT32,
    FieldDescriptor.TYPE_SINT64: Kind.INT64,
    FieldDescriptor.TYPE_STRING: Kind.STRING,
    FieldDescriptor.TYPE_UINT32: Kind.UINT32,
    FieldDescriptor.TYPE_UINT64: Kind.UINT64,
}
_KEY_KINDS_EXCLUDED: Final = frozenset({Kind.FLOAT32, Kind.FLOAT64})
"""Numbers that may be unequal to themselves are no keys."""

_Made = TypeVar("_Made", StructType, EnumType)
_Reader = Callable[[Any], Any]
_Writer = Callable[[Any, Any], Any]


def type_name_of(message_name: str) -> str:
    """The name of the type for a message, if no other one is configured."""
    return message_name.replace(".", "_")


class MessageStructs:
    """The structs of messages by name. A name has one definition, wherever it is used."""

    def __init__(self) -> None:
        self.types: dict[str, NamedType] = {}
        self._nested: dict[str, StructType] = {}
        """The structs of messages inside others, by the name of the message."""

    def struct(
        self, message: Any, *, name: str = "", key: tuple[str, ...] = (), is_cached: bool = False
    ) -> StructType:
        """The struct for a message, given by its descriptor.

        With `key` or `is_cached` the objects are cached, without they are messages. Raises
        SchemaCheckError for a message that the type language cannot express, and if the name has
        another definition.
        """
        fields = {field.name: field for field in message.fields}
        for item in key:
            field = fields.get(item)
            if field is None:
                _refuse(message, f"the key field {item} does not exist")
            kind = _KINDS.get(field.type)
            if is_repeated(field) or kind is None or kind in _KEY_KINDS_EXCLUDED:
                _refuse(message, f"{item} cannot be a key: a key is one integer, bool or text")
        return self._struct(message, name, key, is_cached=is_cached or bool(key), path=())

    def _struct(
        self,
        message: Any,
        name: str,
        key: tuple[str, ...],
        *,
        is_cached: bool,
        path: tuple[str, ...],
    ) -> StructType:
        if not message.fields:
            _refuse(message, "it has no fields")
        path = (*path, message.full_name)
        tags = _tags(message)
        made = StructType(
            name=name or type_name_of(message.full_name),
            fields=tuple(
                Field(
                    tag=tags[field.number],
                    name=field.name,
                    type=self._field_type(field, path),
                    is_key=field.name in key,
                )
                for field in sorted(message.fields, key=lambda field: field.number)
            ),
            flags=Flags(cached=is_cached),
        )
        if made.depth > TYPE_DEPTH_MAX:
            _refuse(message, f"it is nested {made.depth} deep, and the limit is {TYPE_DEPTH_MAX}")
        return self._only(made)

    def _nested_struct(self, message: Any, path: tuple[str, ...]) -> StructType:
        name = message.full_name
        if name in path:
            _refuse(message, "it contains itself")
        found = self._nested.get(name)
        if found is None:
            found = self._struct(message, "", (), is_cached=False, path=path)
            self._nested[name] = found
        return found

    def _field_type(self, field: Any, path: tuple[str, ...]) -> FieldType:
        made: FieldType
        if field.message_type is not None:
            made = self._nested_struct(field.message_type, path)
        elif field.enum_type is not None:
            made = self._enum(field.enum_type)
        else:
            made = ScalarType(_KINDS[field.type])
        return VectorType(made) if is_repeated(field) else made

    def _enum(self, enum: Any) -> EnumType:
        if len(enum.values) > ENUM_ELEMENT_COUNT_MAX:
            _refuse(enum, f"it has {len(enum.values)} elements, above {ENUM_ELEMENT_COUNT_MAX}")
        elements: dict[int, EnumElement] = {}
        for value in enum.values:
            # Tags begin at 1; negative numbers get the highest ones.
            tag = value.number + 1 if value.number >= 0 else ENUM_TAG_MAX + 1 + value.number
            element = EnumElement(tag=tag, name=value.name, value=value.number)
            known = elements.setdefault(tag, element)  # the first of several names counts
            if not TAG_MIN <= tag <= ENUM_TAG_MAX or known.value != value.number:
                _refuse(enum, f"the number {value.number} of {value.name} is too large")
        return self._only(
            EnumType(name=type_name_of(enum.full_name), elements=tuple(elements.values()))
        )

    def _only(self, made: _Made) -> _Made:
        known = self.types.setdefault(made.name, made)
        if known != made:
            error = SchemaCheckError(
                f"two types would have the name {made.name}, with different fields or keys"
            )
            error.hint = "give one of them another name with `object`"
            raise error
        return made


class MessageObjects:
    """Converts messages of one class to objects of one struct, and back."""

    def __init__(self, message_class: Any, struct: StructType) -> None:
        self.struct = struct
        self._message_class = message_class
        self._convert = _Converter(message_class.DESCRIPTOR, struct, {})

    def object_of(self, data: bytes) -> Struct:
        """The object of an encoded message. Raises DecodeError."""
        message = parse_message(self._message_class, data)
        try:
            return self._convert.object_of(message)
        except UnicodeDecodeError as error:
            raise DecodeError(type_name=self.struct.name, detail=str(error)) from None

    def encoded(self, obj: Any) -> bytes:
        """The encoded message of an object. Raises EncodeError for what the message cannot hold."""
        message = self._message_class()
        try:
            self._convert.fill(message, obj)
        except (ValueError, TypeError, AttributeError) as error:
            raise EncodeError(type_name=self.struct.name, field="", detail=str(error)) from None
        return serialize_message(message)


class _Converter:
    """Converts messages of one type; nested ones with the converters in `others`."""

    def __init__(self, message: Any, struct: StructType, others: dict[str, _Converter]) -> None:
        self._class = class_of(struct)
        attributes = attribute_names(struct)
        self._fields = [
            _FieldConverter(field, struct.field(field.name).type, attributes[field.name], others)
            for field in message.fields
        ]

    def object_of(self, message: Any) -> Struct:
        values: dict[str, Any] = {}
        for field in self._fields:
            if field.is_set(message):
                values[field.attribute] = field.read(getattr(message, field.name))
        made: Struct = self._class(**values)
        return made

    def fill(self, message: Any, obj: Any) -> None:
        for field in self._fields:
            value = getattr(obj, field.attribute, None)
            if value is not None:
                field.write(message, value)


class _FieldConverter:
    def __init__(
        self, field: Any, type_: FieldType, attribute: str, others: dict[str, _Converter]
    ) -> None:
        self.name: str = field.name
        self.attribute = attribute
        self._has_presence = bool(field.has_presence)
        self._is_repeated = is_repeated(field)
        element = type_.element if isinstance(type_, VectorType) else type_
        self._read_one, self._write_one = _value_converters(field, element, others)
        self._is_message = field.message_type is not None

    def is_set(self, message: Any) -> bool:
        """Whether the field has a value. Without presence, the default value counts as one."""
        if self._is_repeated:
            return len(getattr(message, self.name)) > 0
        return not self._has_presence or message.HasField(self.name)

    def read(self, value: Any) -> Any:
        if not self._is_repeated:
            return self._read_one(value)
        return [self._read_one(item) for item in value]

    def write(self, message: Any, value: Any) -> None:
        if not self._is_repeated and not self._is_message:
            setattr(message, self.name, self._write_one(None, value))
        elif not self._is_repeated:
            nested = getattr(message, self.name)
            nested.SetInParent()
            self._write_one(nested, value)
        elif self._is_message:
            target = getattr(message, self.name)
            for item in value:
                self._write_one(target.add(), item)
        else:
            getattr(message, self.name).extend(self._write_one(None, item) for item in value)


def _value_converters(
    field: Any, type_: FieldType, others: dict[str, _Converter]
) -> tuple[_Reader, _Writer]:
    """The functions that read a value and that write one. Structs are written into a message."""
    if isinstance(type_, StructType):
        nested = others.get(type_.name)
        if nested is None:
            nested = others[type_.name] = _Converter(field.message_type, type_, others)
        return nested.object_of, nested.fill
    if isinstance(type_, EnumType):
        cls = class_of(type_)
        members = {element.value: cls.of_tag(element.tag) for element in type_.elements}
        numbers = {element.name: element.value for element in type_.elements}

        def read(number: int) -> Any:
            found = members.get(number)
            if found is None:
                detail = f"{number} is not an element of {type_.name}"
                raise DecodeError(type_name=type_.name, field=field.name, detail=detail)
            return found

        def write(_nested: Any, member: Any) -> int:
            found = numbers.get(member.label)
            if found is None:
                detail = f"{member.label} is not an element of {type_.name}"
                raise EncodeError(type_name=type_.name, field=field.name, detail=detail)
            return found

        return read, write
    return _same, lambda _nested, value: value


def _same(value: Any) -> Any:
    return value


def is_repeated(field: Any) -> bool:
    """Whether a field has any number of values."""
    # The label is deprecated in versions that have `is_repeated`.
    found = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if found is None else found)


def _tags(message: Any) -> dict[int, int]:
    """The tag of each field, by its number."""
    numbers = sorted(field.number for field in message.fields)
    if len(numbers) > TAG_MAX:
        _refuse(message, f"it has {len(numbers)} fields, and a type has at most {TAG_MAX}")
    tags = {number: number for number in numbers if TAG_MIN <= number <= TAG_MAX}
    free = (tag for tag in range(TAG_MAX, TAG_MIN - 1, -1) if tag not in tags)
    for number in numbers:
        if number > TAG_MAX:
            tags[number] = next(free)
    return tags


def _refuse(message: Any, detail: str) -> NoReturn:
    raise SchemaCheckError(f"{message.full_name} cannot become a type of skerry: {detail}")
