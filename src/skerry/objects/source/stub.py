"""The class of a type in a generated stub: what type checkers cannot see in the module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skerry.objects.classes import attribute_names, member_names
from skerry.objects.source.layout import INDENT, Brackets, docstring, lay_out, text_literal
from skerry.objects.source.source_names import SourceNames
from skerry.schema.model import EnumType, Field, FieldType, Kind, NamedType, StructType, VectorType


def stub_lines(type_: NamedType, source_names: SourceNames) -> list[str]:
    """The lines that describe the class of a type to type checkers.

    Editors find the documentation of a class in the module, but that of a field only here.
    """
    name = source_names.classes[type_.name]
    if isinstance(type_, EnumType):
        return [f"class {name}(skerry.Enum):", *_stub_elements(type_)]
    return [
        f"class {name}(skerry.Struct):",
        *_stub_fields(type_, source_names),
        "",
        *_stub_methods(type_, source_names),
    ]


def _stub_elements(type_: EnumType) -> list[str]:
    names = member_names(type_)
    lines: list[str] = []
    for element in type_.elements:
        lines.append(f"{INDENT}{names[element.name]} = {element.tag}")
        lines += docstring(element.documentation, INDENT) or []
    return lines


def _stub_fields(struct: StructType, source_names: SourceNames) -> Iterator[str]:
    names = attribute_names(struct)
    for field in struct.fields:
        yield f"{INDENT}{names[field.name]}: {_type_seen(field, source_names)}"
        yield from docstring(field.documentation, INDENT) or ()


def _stub_methods(struct: StructType, source_names: SourceNames) -> Iterator[str]:
    names = attribute_names(struct)
    by_position = [field for field in struct.fields if field.is_ctor]
    by_name = [field for field in struct.fields if not field.is_ctor]
    matched = [text_literal(names[field.name]) for field in by_position or by_name]
    yield from lay_out(Brackets("__match_args__ = (", matched, ")"), INDENT)
    yield ""
    parameters = [
        "self",
        *(_parameter(field, names, source_names) for field in by_position),
        *(["*"] if by_name else []),
        *(_parameter(field, names, source_names) for field in by_name),
    ]
    yield from lay_out(Brackets("def __init__(", parameters, ") -> None: ..."), INDENT)


def _parameter(field: Field, names: dict[str, str], source_names: SourceNames) -> str:
    is_none = field.default is None and not field.is_key
    default = "None" if is_none else "..."
    return f"{names[field.name]}: {_type_seen(field, source_names)} = {default}"


def _type_seen(field: Field, source_names: SourceNames) -> str:
    """The type of an attribute. A key field is never None, so that keys need no checks."""
    seen = _seen(field.type, source_names)
    return seen if field.is_key else f"{seen} | None"


_SEEN: Final = {
    Kind.BOOL: "bool",
    Kind.STRING: "str",
    Kind.BYTES: "bytes",
    Kind.UUID: "UUID",
    Kind.PROPERTY_SET: "PropertySet",
    Kind.ANY: "AnyObject",
    Kind.REF: "Ref",
}
"""The Python types of kinds; `int` and `float` for the rest."""


def _seen(type_: FieldType, source_names: SourceNames) -> str:
    """The type of a field's values."""
    if isinstance(type_, VectorType):
        return f"{source_names.outer('list')}[{_seen(type_.element, source_names)}]"
    if isinstance(type_, (StructType, EnumType)):
        return source_names.of_type(type_)
    if type_.kind in {Kind.PROPERTY_SET, Kind.ANY, Kind.REF}:
        return f"{source_names.outer('skerry')}.{_SEEN[type_.kind]}"
    plain = "int" if type_.kind <= Kind.UINT64 else "float"
    return source_names.outer(_SEEN.get(type_.kind, plain))
