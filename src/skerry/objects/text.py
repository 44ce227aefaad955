"""Objects as text in the manner of the type language: `Vessel{ .mmsi = 1u, .lat = 52.1 }`."""

from __future__ import annotations

import json
from typing import Any

from skerry.codec.plans import shown
from skerry.objects.times import to_datetime
from skerry.schema.model import FieldType, Kind, StructType, VectorType

__all__ = ["object_text", "value_text"]


def object_text(obj: Any) -> str:
    """The type's name and the set fields."""
    return f"{obj.descriptor.name}{_fields_text(obj)}"


def value_text(type_: FieldType, value: Any) -> str:
    """One value of a field of that type; what does not fit the type shows as Python has it."""
    try:
        return _value_text(type_, value)
    except (AttributeError, TypeError, ValueError, OverflowError):
        return shown(value)


def _fields_text(obj: Any) -> str:
    struct: StructType = obj.descriptor
    values = type(obj)._values(obj)
    shown = [
        f".{field.name} = {value_text(field.type, value)}"
        for field, value in zip(struct.fields, values, strict=True)
        if value is not None
    ]
    return f"{{ {', '.join(shown)} }}" if shown else "{ }"


def _value_text(type_: FieldType, value: Any) -> str:
    if isinstance(type_, VectorType):
        return "{ " + ", ".join(_value_text(type_.element, item) for item in value) + " }"
    match type_.kind:
        case Kind.STRUCT:
            return _fields_text(value)
        case Kind.ENUM:
            return str(value.label)
        case Kind.UINT8 | Kind.UINT16 | Kind.UINT32 | Kind.UINT64:
            return f"{value:d}u"
        case Kind.FLOAT32:
            return f"{float(value)!r}f"
        case Kind.BOOL:
            return "true" if value else "false"
        case Kind.STRING:
            # A byte that was no UTF-8 shows as an escape: its stand-in cannot be printed.
            escaped = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
            return escaped.decode()
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
