"""The default of a field as an argument of its declaration.

A Python value says more to a reader than JSON text. It is used where the declaration makes exactly
the text of the type from it again, so that the declared type stays equal.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from skerry.objects.classes import attribute_names, member_names
from skerry.objects.source.layout import Brackets, Piece, text_literal
from skerry.objects.source.literals import Spelling
from skerry.schema.model import EnumType, FieldType, Kind, StructType, VectorType

__all__ = ["default_argument"]


def default_argument(type_: FieldType, text: str, spelling: Spelling) -> Piece:
    """`default=...` with a value if that gives `text` again, else `default_json=...`."""
    value = json.loads(text)
    is_exact = json.dumps(value, ensure_ascii=False) == text
    expression = _expression(type_, value, spelling) if is_exact else None
    if expression is None:
        return f"default_json={text_literal(text)}"
    return _with_lead("default=", expression)


def _with_lead(lead: str, piece: Piece) -> Piece:
    if isinstance(piece, str):
        return lead + piece
    return Brackets(lead + piece.head, piece.items, piece.tail)


def _expression(type_: FieldType, value: Any, spelling: Spelling) -> Piece | None:
    """Source of the value that a declaration turns into this JSON; None if there is no such."""
    if isinstance(type_, VectorType):
        return _vector_expression(type_, value, spelling)
    if isinstance(type_, StructType):
        return _struct_expression(type_, value, spelling)
    if isinstance(type_, EnumType):
        return f"{spelling.of_type(type_)}.{member_names(type_)[value]}"
    if type_.kind == Kind.STRING:
        return text_literal(value)
    if type_.kind == Kind.BYTES and bytes.fromhex(value).hex() == value:
        return f'{spelling.outer("bytes")}.fromhex("{value}")'
    if type_.kind == Kind.UUID and str(UUID(value)) == value:
        return f'{spelling.outer("UUID")}("{value}")'
    return None if isinstance(value, str) else repr(value)


def _vector_expression(
    vector: VectorType, values: list[Any], spelling: Spelling
) -> Brackets | None:
    items = [_expression(vector.element, value, spelling) for value in values]
    known = [item for item in items if item is not None]
    return Brackets("[", known, "]") if len(known) == len(items) else None


def _struct_expression(
    struct: StructType, values: dict[str, Any], spelling: Spelling
) -> Brackets | None:
    names = attribute_names(struct)
    if [field.name for field in struct.fields if field.name in values] != list(values):
        # An object has its fields in the order of declaration.
        return None
    items: list[Piece] = []
    for field in struct.fields:
        lead = f"{names[field.name]}="
        if field.name in values:
            expression = _expression(field.type, values[field.name], spelling)
            if expression is None:
                return None
            items.append(_with_lead(lead, expression))
        elif field.default is not None:
            # Left out, it would get the default that it has by itself.
            items.append(f"{lead}None")
    return Brackets(f"{spelling.of_type(struct)}(", items, ")")
