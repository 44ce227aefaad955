"""JSON schemas of types, with which viewers display objects as JSON."""

from __future__ import annotations

from typing import Any, Final

from skerry.recording.json_rows import FACT_NAMES
from skerry.schema.model import (
    INTEGER_RANGES,
    EnumType,
    FieldType,
    Kind,
    StructType,
    VectorType,
)

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "number"}
_HEX: Final = {"type": "string", "contentEncoding": "base16"}

_SCALARS: Final[dict[Kind, dict[str, Any]]] = {
    Kind.BOOL: {"type": "boolean"},
    Kind.FLOAT16: _NUMBER,
    Kind.FLOAT32: _NUMBER,
    Kind.FLOAT64: _NUMBER,
    Kind.TIMEPOINT: _NUMBER,
    Kind.STEADY_TIMEPOINT: _NUMBER,
    Kind.DURATION: _NUMBER,
    Kind.STRING: _TEXT,
    Kind.BYTES: _HEX,
    Kind.UUID: {"type": "string", "format": "uuid"},
    Kind.ANY: {"type": "object", "properties": {"type": _TEXT, "payload": _HEX}},
    Kind.REF: {"type": "object", "properties": {"type": _TEXT, "key": _HEX}},
}

_TEXT_FACTS: Final = ("_operation", "_type", "_subject", "_space", "_time", "_source")
_OPEN_FACTS: Final = ("_key",)
"""Facts of any JSON type."""


def json_schema(type_: StructType) -> dict[str, Any]:
    """The schema of rows of a type: its fields and the facts of a row. No field is required."""
    properties = _properties(type_)
    for name in FACT_NAMES:
        if name in _TEXT_FACTS:
            properties[name] = _TEXT
        elif name not in _OPEN_FACTS:
            properties[name] = {"type": "integer"}
    properties["_unknown"] = {"type": "object", "additionalProperties": _HEX}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": type_.name,
        "type": "object",
        "properties": properties,
    }


def _properties(type_: StructType) -> dict[str, Any]:
    return {field.name: _schema(field.type) for field in type_.fields}


def _schema(type_: FieldType) -> dict[str, Any]:
    if isinstance(type_, StructType):
        return {"type": "object", "properties": _properties(type_)}
    if isinstance(type_, VectorType):
        return {"type": "array", "items": _schema(type_.element)}
    if isinstance(type_, EnumType):
        return {"type": "string", "enum": [element.name for element in type_.elements]}
    if type_.kind in INTEGER_RANGES:
        low, high = INTEGER_RANGES[type_.kind]
        return {"type": "integer", "minimum": low, "maximum": high}
    return dict(_SCALARS[type_.kind])
