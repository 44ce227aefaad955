"""Objects as text in the style of the type language: `Vessel{ .mmsi = 1u, .lat = 52.1 }`."""

from __future__ import annotations

import json
import struct
from typing import Any

from skerry.codec.plans import shown
from skerry.objects.times import to_datetime
from skerry.schema.model import FieldType, Kind, StructType, VectorType


def object_text(obj: Any) -> str:
    """The type's name and the set fields."""
    return f"{obj.descriptor.name}{_fields_text(obj)}"


def value_text(type_: FieldType, value: Any) -> str:
    """The text of one value of a type; a value that does not fit the type is shown by `repr`."""
    try:
        text = _value_text(type_, value)
    except (AttributeError, TypeError, ValueError, OverflowError):
        text = shown(value)
    # A byte that is not UTF-8 is shown as an escape: its surrogate cannot be printed.
    return text.encode("utf-8", "backslashreplace").decode()


def _fields_text(obj: Any) -> str:
    struct: StructType = obj.descriptor
    values = type(obj)._values(obj)
    parts = [
        f".{field.name} = {value_text(field.type, value)}"
        for field, value in zip(struct.fields, values, strict=True)
        if value is not None
    ]
    return _braces(parts)


def _braces(parts: list[str]) -> str:
    return f"{{ {', '.join(parts)} }}" if parts else "{ }"


def _value_text(type_: FieldType, value: Any) -> str:
    if isinstance(type_, VectorType):
        return _braces([_value_text(type_.element, item) for item in value])
    match type_.kind:
        case Kind.STRUCT:
            return _fields_text(value)
        case Kind.ENUM:
            return str(value.label)
        case Kind.UINT8 | Kind.UINT16 | Kind.UINT32 | Kind.UINT64:
            return f"{value:d}u"
        case Kind.FLOAT32:
            return f"{_short_float(value)}f"
        case Kind.BOOL:
            return "true" if value else "false"
        case Kind.STRING:
            return json.dumps(value, ensure_ascii=False)
        case Kind.TIMEPOINT:
            return f'"{to_datetime(value).isoformat(timespec="milliseconds")}"'
        case Kind.PROPERTY_SET:
            return f"{int(value):#b}u"
        case Kind.UUID:
            return f'"{value}"'
        case Kind.BYTES:
            return f'0x"{value.hex()}"'
        case Kind.ANY:
            return f'{value.type_name}{{ 0x"{value.payload.hex()}" }}'
        case Kind.REF:
            return f'{value.type_name}@0x"{value.key.hex()}"'
        case _:
            return repr(value)


def _short_float(value: float) -> str:
    """The shortest text of a float32; as a float64 it would have ten digits more."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if struct.pack(">f", float(text)) == struct.pack(">f", value):
            return repr(float(text))
    return repr(float(value))
