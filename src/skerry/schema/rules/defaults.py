"""Whether the JSON text of a `default` fits the type of its field.

    bool                       true, false
    integers, property_set     a whole number in range
    floats                     a number
    timepoint                  seconds since 1970 as a number, or ISO 8601 text with a zone
    steady_timepoint, duration seconds as a number
    string                     a text
    bytes                      a text of hexadecimal digits
    uuid                       a text such as "6f1c2a5e-8c3b-4d55-9d1e-0a2b4c6d8e0f"
    enum                       the name of an element
    vector<T>                  an array
    struct                     an object with field names

`any` and `instance_ref` have no default: their content is known only at run time.
"""

from __future__ import annotations

import json
import math
import re
from datetime import datetime
from typing import Any, Final, NoReturn
from uuid import UUID

from skerry.schema.model import INTEGER_RANGES, EnumType, FieldType, Kind, StructType, VectorType

NO_JSON: Final = "it is not JSON"

TEXT_KINDS: Final = frozenset({Kind.STRING, Kind.BYTES, Kind.UUID, Kind.TIMEPOINT, Kind.ENUM})
"""Kinds whose default is a JSON text, in quotes inside the quotes of the option."""

TEXT_HINT: Final = "a text needs quotes of its own: `default='\"abc\"'`"

_FLOATS: Final = {
    Kind.FLOAT16: 65504.0,
    Kind.FLOAT32: 3.4028234663852886e38,
    Kind.FLOAT64: math.inf,
    Kind.STEADY_TIMEPOINT: math.inf,
    Kind.DURATION: math.inf,
    Kind.TIMEPOINT: math.inf,
}

_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})*")


def default_fault(type_: FieldType, text: str) -> str | None:
    """Why `text` is not a valid default for `type_`; None if it is."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return NO_JSON
    return _fault(type_, value)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _fault(type_: FieldType, value: Any) -> str | None:
    if value is None:
        return "null is not a value: leave the default out"
    if isinstance(type_, VectorType):
        if not isinstance(value, list):
            return f"{_show(value)} is not an array"
        return next((fault for item in value if (fault := _fault(type_.element, item))), None)
    if isinstance(type_, StructType):
        return _struct_fault(type_, value)
    if isinstance(type_, EnumType):
        if isinstance(value, str) and any(value == e.name for e in type_.elements):
            return None
        return f"{_show(value)} is not an element of `{type_.name}`"
    return _scalar_fault(type_.kind, type_.name, value)


def _struct_fault(type_: StructType, value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"{_show(value)} is not an object"
    for name, item in value.items():
        if not type_.has_field(name):
            return f"`{type_.name}` has no field `{name}`"
        if fault := _fault(type_.field(name).type, item):
            return f"{name}: {fault}"
    return None


def _scalar_fault(kind: Kind, name: str, value: Any) -> str | None:
    if kind in INTEGER_RANGES:
        return _integer_fault(kind, value)
    if kind == Kind.TIMEPOINT and isinstance(value, str):
        return None if _is_instant(value) else f"{_show(value)} is not an ISO 8601 time with a zone"
    if kind in _FLOATS:
        return _float_fault(kind, name, value)
    if kind == Kind.BOOL:
        return None if isinstance(value, bool) else f"{_show(value)} is not true or false"
    if kind in {Kind.ANY, Kind.REF}:
        return f"a field of type {name} has no default"
    if not isinstance(value, str):
        return f"{_show(value)} is not a text"
    if kind == Kind.BYTES and not _HEX.fullmatch(value):
        return f"{_show(value)} is not made of pairs of hexadecimal digits"
    if kind == Kind.UUID and not _is_uuid(value):
        return f"{_show(value)} is not a uuid"
    return None


def _integer_fault(kind: Kind, value: Any) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return f"{_show(value)} is not a whole number"
    low, high = INTEGER_RANGES[kind]
    return None if low <= value <= high else f"{_show(value)} is not in {low}..{high}"


def _float_fault(kind: Kind, name: str, value: Any) -> str | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return f"{_show(value)} is not a number"
    try:
        number = float(value)
    except OverflowError:
        return f"{_show(value)} is too large for {name}"
    if math.isinf(number) or abs(number) > _FLOATS[kind]:
        return f"{_show(value)} is too large for {name}"
    return None


def _is_instant(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _show(value: Any) -> str:
    """The value, shortened for a message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except ValueError:
        # Python does not write integers of thousands of digits.
        text = "this number"
    return text if len(text) <= 40 else f"{text[:37]}..."
