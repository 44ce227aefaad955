"""Defaults of fields: the text that stands in a type, and what objects have as JSON.

The two differ in bytes, which a type writes as hexadecimal digits, and in timepoints, which it may
write as ISO 8601 text.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from skerry.objects.times import to_timepoint
from skerry.schema.model import FieldType, Kind, StructType, VectorType

__all__ = ["default_text", "plain_default"]


def plain_default(type_: FieldType, text: str) -> Any:
    """The default as objects have it in JSON; ValueError when the text is no JSON."""
    return _to_plain(type_, json.loads(text))


def default_text(type_: FieldType, plain: Any) -> str:
    """The text for a type of a value as objects have it in JSON."""
    return json.dumps(_from_plain(type_, plain), allow_nan=False, ensure_ascii=False)


def _to_plain(type_: FieldType, value: Any) -> Any:
    if isinstance(type_, VectorType) and isinstance(value, list):
        return [_to_plain(type_.element, item) for item in value]
    if isinstance(type_, StructType) and isinstance(value, dict):
        return {
            name: _to_plain(type_.field(name).type, item) if type_.has_field(name) else item
            for name, item in value.items()
        }
    if isinstance(value, str) and type_.kind == Kind.BYTES:
        return base64.b64encode(bytes.fromhex(value)).decode()
    if isinstance(value, str) and type_.kind == Kind.TIMEPOINT:
        return to_timepoint(value)
    return value


def _from_plain(type_: FieldType, value: Any) -> Any:
    if isinstance(type_, VectorType):
        return [_from_plain(type_.element, item) for item in value]
    if isinstance(type_, StructType):
        return {name: _from_plain(type_.field(name).type, item) for name, item in value.items()}
    if type_.kind == Kind.BYTES:
        return base64.b64decode(value).hex()
    return value
