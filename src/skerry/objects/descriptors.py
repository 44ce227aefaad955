"""Types as descriptor objects, which are transmitted: StructDescriptorData, EnumDescriptorData.

A received description is not trusted. It is checked like a type file, except for names, since other
programming languages may have other names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from skerry.errors import SchemaCheckError
from skerry.limits import (
    DOCUMENTATION_BYTES_MAX,
    ENUM_ELEMENT_COUNT_MAX,
    ENUM_TAG_MAX,
    NAME_BYTES_MAX,
    TAG_MAX,
    TAG_MIN,
    TYPE_DEPTH_MAX,
)
from skerry.objects.base import Struct
from skerry.objects.internal import internal_class
from skerry.schema.model import (
    SCALAR_KINDS,
    EnumElement,
    EnumType,
    Field,
    FieldType,
    Flags,
    NamedType,
    RefType,
    ScalarType,
    Scope,
    StructType,
    VectorType,
)
from skerry.schema.rules.typenames import BUILT_IN_NAMES

_FLAGS = (
    ("cached", "cached"),
    ("internal", "internal"),
    ("persistent", "persistent"),
    ("cleanup", "cleanup"),
    ("local", "local"),
    ("substructOnly", "substruct_only"),
)
"""Each flag by its name in DotsStructFlags and in the model."""


def describe(type_: NamedType, *, with_documentation: bool = False) -> Struct:
    """The descriptor object of a type, as C++ programs fill it.

    They do not send documentation, so it is only included on request.
    """
    if isinstance(type_, EnumType):
        return _describe_enum(type_)
    property_class = internal_class("StructPropertyData")
    obj = internal_class("StructDescriptorData")(
        name=type_.name,
        properties=[
            property_class(name=f.name, tag=f.tag, isKey=f.is_key, type=f.type.name)
            for f in type_.fields
        ],
        flags=internal_class("DotsStructFlags")(
            **{wire: getattr(type_.flags, name) for wire, name in _FLAGS}
        ),
    )
    if type_.scope is not None:
        obj.scope = internal_class("DotsStructScope").of_tag(int(type_.scope))
    if with_documentation and type_.documentation:
        obj.documentation = internal_class("StructDocumentation")(description=type_.documentation)
    return obj  # type: ignore[no-any-return]


def from_description(obj: Any, known: Mapping[str, NamedType]) -> NamedType:
    """The type that a descriptor object describes; the types of its fields must be `known`."""
    name = obj.name
    _check_name("type", name)
    if name in BUILT_IN_NAMES or set(name) & set("<>"):
        raise SchemaCheckError(f"a type cannot have the name {name} of a built-in type")
    if obj.descriptor.name == "EnumDescriptorData":
        return EnumType(name=name, elements=tuple(_elements(obj)))
    struct = StructType(
        name=name,
        fields=tuple(_fields(obj, known)),
        flags=_flags(obj.flags),
        scope=None if obj.scope is None else Scope(obj.scope.tag),
        documentation=_documentation(obj),
    )
    depth = struct.depth
    if depth > TYPE_DEPTH_MAX:
        raise SchemaCheckError(f"{name} is nested {depth} deep, the limit is {TYPE_DEPTH_MAX}")
    return struct


def _describe_enum(type_: EnumType) -> Struct:
    element_class = internal_class("EnumElementDescriptor")
    return internal_class("EnumDescriptorData")(  # type: ignore[no-any-return]
        name=type_.name,
        elements=[
            element_class(enum_value=e.value, name=e.name, tag=e.tag) for e in type_.elements
        ],
    )


def _elements(obj: Any) -> Iterable[EnumElement]:
    elements = obj.elements or []
    if not elements:
        raise SchemaCheckError(f"{obj.name} has no elements")
    if len(elements) > ENUM_ELEMENT_COUNT_MAX:
        raise SchemaCheckError(
            f"{obj.name} has {len(elements)} elements, the limit is {ENUM_ELEMENT_COUNT_MAX}"
        )
    for item in elements:
        _check_name("element", item.name)
        if item.tag is None or item.enum_value is None:
            raise SchemaCheckError(f"{obj.name}.{item.name} has no tag or no value")
        if not TAG_MIN <= item.tag <= ENUM_TAG_MAX:
            raise SchemaCheckError(
                f"{obj.name}.{item.name} has tag {item.tag}, not one of {TAG_MIN} to {ENUM_TAG_MAX}"
            )
        yield EnumElement(tag=item.tag, name=item.name, value=item.enum_value)
    _check_unique(obj.name, elements)


def _fields(obj: Any, known: Mapping[str, NamedType]) -> Iterable[Field]:
    properties = obj.properties or []
    for item in properties:
        _check_name("field", item.name)
        if item.tag is None or item.isKey is None or item.type is None:
            raise SchemaCheckError(f"{obj.name}.{item.name} has no tag, key flag or type")
        if not TAG_MIN <= item.tag <= TAG_MAX:
            raise SchemaCheckError(
                f"{obj.name}.{item.name} has tag {item.tag}, which is not {TAG_MIN} to {TAG_MAX}"
            )
        type_ = _field_type(f"{obj.name}.{item.name}", item.type, known)
        yield Field(tag=item.tag, name=item.name, type=type_, is_key=item.isKey)
    _check_unique(obj.name, properties)


def _field_type(where: str, name: str, known: Mapping[str, NamedType]) -> FieldType:
    if match := re.fullmatch(r"vector<(.*)>", name):
        element = match[1].strip()
        if element.startswith("vector<"):
            raise SchemaCheckError(f"{where} is a vector of vectors, which cannot be encoded")
        return VectorType(_field_type(where, element, known))
    if name in SCALAR_KINDS:
        return ScalarType(SCALAR_KINDS[name])
    if match := re.fullmatch(r"instance_ref(?:<(.*)>)?", name):
        if match[1] is not None:
            _check_name("type", match[1])
        return RefType(match[1])
    if name in known:
        return known[name]
    raise SchemaCheckError(f"{where} is of type {name:.60}, which was not described before")


def _flags(flags: Any) -> Flags:
    """Flags that are unset count as false, even `cached`."""
    values = {name: bool(flags is not None and getattr(flags, wire)) for wire, name in _FLAGS}
    return Flags(**values)


def _documentation(obj: Any) -> str:
    text = "" if obj.documentation is None else obj.documentation.description or ""
    if len(text.encode("utf-8", "surrogatepass")) > DOCUMENTATION_BYTES_MAX:
        raise SchemaCheckError(
            f"the documentation of {obj.name} is over {DOCUMENTATION_BYTES_MAX} bytes"
        )
    return str(text)


def _check_name(what: str, name: str | None) -> None:
    if not name:
        raise SchemaCheckError(f"a description has no name of its {what}")
    if not name.isprintable():
        raise SchemaCheckError(
            f"the {what} {name[:40]!a} has a name with characters that cannot be printed"
        )
    if len(name.encode()) > NAME_BYTES_MAX:
        raise SchemaCheckError(f"the {what} {name[:40]}... has a name over {NAME_BYTES_MAX} bytes")
    if name.startswith("/"):
        # A group name that begins with a slash is a subject pattern.
        raise SchemaCheckError(f"the {what} {name!r} has a name that begins with a slash")


def _check_unique(where: str, items: list[Any]) -> None:
    for what in ("tag", "name"):
        seen: set[Any] = set()
        for item in items:
            value = getattr(item, what)
            if value in seen:
                raise SchemaCheckError(f"{where} has two entries with the {what} {value}")
            seen.add(value)
