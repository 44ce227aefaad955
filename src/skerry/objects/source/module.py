"""The class of a type in a generated module, as one would write it by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from skerry.objects.classes import attribute_names, member_names
from skerry.objects.source.defaults import default_argument
from skerry.objects.source.layout import INDENT, Brackets, Piece, docstring, lay_out, text_literal
from skerry.objects.source.source_names import SourceNames
from skerry.schema.model import (
    EnumElement,
    EnumType,
    Field,
    FieldType,
    Kind,
    NamedType,
    Option,
    RefType,
    RemovedField,
    StructType,
    VectorType,
)


def class_lines(type_: NamedType, source_names: SourceNames) -> list[str]:
    name = source_names.classes[type_.name]
    documented = docstring(type_.documentation, INDENT)
    notes = _type_notes(type_, name, is_documented=documented is not None)
    lines: list[str] = []
    if isinstance(type_, EnumType):
        lines += lay_out(Brackets(f"class {name}(", ["skerry.Enum", *notes], "):"))
        body = _element_lines(type_, source_names)
    else:
        arguments = [*_flags(type_), *notes]
        if type_.removed:
            removed = [_removed_field(field) for field in type_.removed]
            arguments.append(Brackets("removed=[", removed, "]"))
        lines += lay_out(
            Brackets("@skerry.struct(", arguments, ")") if arguments else "@skerry.struct"
        )
        lines += [f"class {name}(skerry.Struct):"]
        body = _field_lines(type_, source_names)
    return [*lines, *([*documented, ""] if documented else []), *body]


def _type_notes(type_: NamedType, class_name: str, *, is_documented: bool) -> Iterator[Piece]:
    """The facts of the type that the class statement does not contain."""
    if class_name != type_.name:
        yield f"name={text_literal(type_.name)}"
    yield from _notes("" if is_documented else type_.documentation, type_.options)


def _notes(documentation: str, options: Sequence[Option]) -> Iterator[Piece]:
    if documentation:
        yield f"documentation={text_literal(documentation)}"
    if options:
        yield Brackets("options={", [_option(*option) for option in options], "}")


def _option(name: str, value: str | bool) -> str:
    shown = str(value) if isinstance(value, bool) else text_literal(value)
    return f"{text_literal(name)}: {shown}"


def _flags(struct: StructType) -> Iterator[Piece]:
    for name, value in struct.flags.not_default():
        yield f"{name}={value}"
    if struct.scope is not None:
        yield f'scope="{struct.scope.name.lower()}"'
    if struct.is_deprecated:
        yield "deprecated=True"


def _removed_field(field: RemovedField) -> Piece:
    arguments: list[Piece] = [
        str(field.tag),
        f"name={text_literal(field.name)}",
        f"type_name={text_literal(field.type_name)}",
        *_notes(field.documentation, ()),
    ]
    return Brackets("skerry.removed(", arguments, ")")


def _element_lines(type_: EnumType, source_names: SourceNames) -> Iterator[str]:
    names = member_names(type_)
    for element in type_.elements:
        name = names[element.name]
        yield from lay_out(_element(element, name, source_names), INDENT, lead=f"{name} = ")


def _element(element: EnumElement, name: str, source_names: SourceNames) -> Piece:
    arguments: list[Piece] = []
    if name != element.name:
        arguments.append(f"name={text_literal(element.name)}")
    if element.value != element.tag - 1:
        arguments.append(f"value={element.value}")
    arguments += _notes(element.documentation, ())
    if not arguments:
        return str(element.tag)
    return Brackets(f"{source_names.outer('skerry')}.element(", [str(element.tag), *arguments], ")")


def _field_lines(struct: StructType, source_names: SourceNames) -> Iterator[str]:
    names = attribute_names(struct)
    for field in struct.fields:
        name = names[field.name]
        # A key field has a value, except in an object that is not complete yet.
        absent = "" if field.is_key else " | None"
        lead = f"{name}: {_declared(field.type, source_names)}{absent} = "
        yield from lay_out(_field(field, name, source_names), INDENT, lead=lead)


def _field(field: Field, name: str, source_names: SourceNames) -> Piece:
    arguments: list[Piece] = [str(field.tag)]
    if name != field.name:
        arguments.append(f"name={text_literal(field.name)}")
    if field.default is not None:
        arguments.append(default_argument(field.type, field.default, source_names))
    if field.is_deprecated:
        arguments.append("deprecated=True")
    if field.is_ctor:
        arguments.append("ctor=True")
    arguments += _notes(field.documentation, field.options)
    function = "key" if field.is_key else "field"
    return Brackets(f"{source_names.outer('skerry')}.{function}(", arguments, ")")


_OWN_NAMES: Final = {Kind.BOOL: "bool", Kind.STRING: "str", Kind.BYTES: "bytes", Kind.UUID: "UUID"}
"""Kinds that are declared by Python's own names."""


def _declared(type_: FieldType, source_names: SourceNames) -> str:
    """The annotation that declares a field of this type."""
    if isinstance(type_, VectorType):
        return f"{source_names.outer('list')}[{_declared(type_.element, source_names)}]"
    if isinstance(type_, (StructType, EnumType)):
        return source_names.of_type(type_)
    if type_.kind in _OWN_NAMES:
        return source_names.outer(_OWN_NAMES[type_.kind])
    skerry = source_names.outer("skerry")
    if isinstance(type_, RefType) and type_.target is not None:
        return f"{source_names.outer('Annotated')}[{skerry}.Ref, {text_literal(type_.target)}]"
    return f"{skerry}.any_object" if type_.kind == Kind.ANY else f"{skerry}.{type_.name}"
