"""The default of a field as an argument of its declaration.

A Python value is easier to read than JSON text. It is used if the declaration makes exactly the
JSON text of the type from it, so that the declared type is equal.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from skerry.objects.classes import attribute_names, member_names
from skerry.objects.source.layout import Brackets, Piece, text_literal
from skerry.objects.source.source_names import SourceNames
from skerry.schema.model import EnumType, FieldType, Kind, StructType, VectorType


def default_argument(type_: FieldType, text: str, source_names: SourceNames) -> Piece:
    """`default=...` with a value if that results in `text`, else `default_json=...`."""
    value = json.loads(text)
    is_exact = json.dumps(value, ensure_ascii=False) == text
    expression = _expression(type_, value, source_names) if is_exact else None
    if expression is None:
        return f"default_json={text_literal(text)}"
    return _with_lead("default=", expression)


def _with_lead(lead: str, piece: Piece) -> Piece:
    if isinstance(piece, str):
        return lead + piece
    return Brackets(lead + piece.head, piece.items, piece.tail)


def _expression(type_: FieldType, value: Any, source_names: SourceNames) -> Piece | None:
    """Source of the value that a declaration converts to this JSON; None if there is none."""
    if isinstance(type_, VectorType):
        return _vector_expression(type_, value, source_names)
    if isinstance(type_, StructType):
        return _struct_expression(type_, value, source_names)
    if isinstance(type_, EnumType):
        return f"{source_names.of_type(type_)}.{member_names(type_)[value]}"
    if type_.kind == Kind.STRING:
        return text_literal(value)
    if type_.kind == Kind.BYTES and bytes.fromhex(value).hex() == value:
        return f'{source_names.outer("bytes")}.fromhex("{value}")'
    if type_.kind == Kind.UUID and str(UUID(value)) == value:
        return f'{source_names.outer("UUID")}("{value}")'
    return None if isinstance(value, str) else repr(value)


def _vector_expression(
    vector: VectorType, values: list[Any], source_names: SourceNames
) -> Brackets | None:
    items = [_expression(vector.element, value, source_names) for value in values]
    known = [item for item in items if item is not None]
    return Brackets("[", known, "]") if len(known) == len(items) else None


def _struct_expression(
    struct: StructType, values: dict[str, Any], source_names: SourceNames
) -> Brackets | None:
    names = attribute_names(struct)
    if [field.name for field in struct.fields if field.name in values] != list(values):
        # The fields of an object are in declaration order.
        return None
    items: list[Piece] = []
    for field in struct.fields:
        lead = f"{names[field.name]}="
        if field.name in values:
            expression = _expression(field.type, values[field.name], source_names)
            if expression is None:
                return None
            items.append(_with_lead(lead, expression))
        elif field.default is not None:
            # If it is omitted, it gets the default of its own type.
            items.append(f"{lead}None")
    return Brackets(f"{source_names.of_type(struct)}(", items, ")")
