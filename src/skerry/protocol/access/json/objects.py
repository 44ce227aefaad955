"""Objects in the JSON of the WebSocket dialect: fields by name, elements of enums by tag.

It differs from `objects.json`, which is for people: here elements are written by tag and bytes in
base64, and fields that the type does not have are skipped. Infinities and NaN, which JSON does not
have, are written as the C++ host writes them, or for strict readers as `1e999` and `null`. Spaces
are those of the C++ host.
"""

from __future__ import annotations

import binascii
import json
import math
from functools import lru_cache
from typing import Any, Final, NoReturn
from uuid import UUID

from skerry.codec.plans import FieldPlan, StructPlan, ValuePlan, shown
from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.errors import DecodeError
from skerry.schema.model import INTEGER_RANGES, Kind

_FLOATS: Final = frozenset(
    {
        Kind.FLOAT16,
        Kind.FLOAT32,
        Kind.FLOAT64,
        Kind.TIMEPOINT,
        Kind.STEADY_TIMEPOINT,
        Kind.DURATION,
    }
)
_AS_THEY_ARE: Final = frozenset({*INTEGER_RANGES, Kind.BOOL, Kind.STRING})
"""Kinds whose JSON values the encoder accepts, or rejects with its own error."""
_STRICT_INFINITY: Final = "1e999"
"""Valid JSON that parsers with 64-bit floats read as an infinity: JavaScript and Python do."""
_quote: Final = json.JSONEncoder(ensure_ascii=False).encode


# -- to text


def object_text(plan: StructPlan, obj: object, *, is_strict: bool = False) -> str:
    """Return the object as text.

    Infinities and NaN are written as `inf`, `-inf` and `nan`, which is not JSON; with `is_strict`
    as `1e999`, `-1e999` and `null`.
    """
    parts = []
    for field, value in zip(plan.fields, plan.values_of(obj), strict=True):
        if value is not None:
            text = value_text(field.value, value, is_strict)
            parts.append(f"{quoted_name(field.name)}: {text}")
    return _enclosed("{", parts, "}")


def value_text(spec: ValuePlan, value: Any, is_strict: bool) -> str:
    kind = int(spec.kind)
    if kind == Kind.STRING:
        return _quote(value)
    if kind in _FLOATS:
        return _float_text(value, is_strict)
    if kind == Kind.VECTOR:
        element = spec.element
        assert element is not None
        parts = [value_text(element, item, is_strict) for item in value]
        return _enclosed("[", parts, "]")
    if kind == Kind.STRUCT:
        assert spec.struct is not None
        return object_text(spec.struct, value, is_strict=is_strict)
    if kind == Kind.BOOL:
        return "true" if value else "false"
    if kind == Kind.ENUM:
        return str(value.tag)
    if kind == Kind.UUID:
        return f'"{value}"'
    if kind == Kind.BYTES:
        return _base64_text(value)
    if kind == Kind.ANY:
        return _pair_text(value.type_name, "payload", value.payload)
    if kind == Kind.REF:
        return _pair_text(value.type_name, "key", value.key)
    return str(int(value))


def _float_text(value: float, is_strict: bool) -> str:
    if math.isfinite(value):
        return repr(value)
    if math.isnan(value):
        return "null" if is_strict else "nan"
    text = _STRICT_INFINITY if is_strict else "inf"
    return text if value > 0 else f"-{text}"


def _base64_text(data: bytes) -> str:
    return f'"{binascii.b2a_base64(data, newline=False).decode("ascii")}"'


def _pair_text(type_name: str, second: str, data: bytes) -> str:
    parts = [f'"typeName": {_quote(type_name)}', f'"{second}": {_base64_text(data)}']
    return _enclosed("{", parts, "}")


def _enclosed(opening: str, parts: list[str], closing: str) -> str:
    return f"{opening} {', '.join(parts)} {closing}" if parts else f"{opening} {closing}"


@lru_cache(maxsize=4096)
def quoted_name(name: str) -> str:
    """Return the name of a field as text."""
    return _quote(name)


def string_part(data: bytes) -> str:
    """Return encoded text as it is written inside of quotes."""
    return _quote(data.decode("utf-8", "surrogateescape"))[1:-1]


# -- from JSON values


def object_from_plain(plan: StructPlan, plain: object) -> Any:
    """Return the object of JSON values; DecodeError if a value has another form.

    The encoder checks whether a number or a text fits its field.
    """
    if not isinstance(plain, dict):
        _refuse(plan, "", f"expected an object with fields, got {_shown(plain)}")
    obj = plan.new(plan.cls)
    # By the fields of the type, so any number of other names costs nothing.
    for field in plan.fields:
        value = plain.get(field.name)
        if value is not None:
            value = value_from_plain(plan, field, field.value, value)
        setattr(obj, field.attribute, value)
    return obj


def value_from_plain(plan: StructPlan, field: FieldPlan, spec: ValuePlan, plain: Any) -> Any:
    """Return the value of a field, or of an element of it; DecodeError if it has another form."""
    kind = int(spec.kind)
    if kind in _FLOATS:
        return _float_from_plain(plan, field, spec, plain)
    if kind == Kind.VECTOR:
        return list_from_plain(plan, field, spec, plain)
    if kind == Kind.STRUCT:
        assert spec.struct is not None
        if not isinstance(plain, dict):
            _refuse(plan, field.name, f"expected an object with fields, got {_shown(plain)}")
        return object_from_plain(spec.struct, plain)
    if kind == Kind.ENUM:
        # Not a bool, which would find the element 1, because True equals 1.
        if type(plain) is not int or plain not in spec.members:
            _refuse(plan, field.name, f"{spec.name} has no element with tag {_shown(plain)}")
        return spec.members[plain]
    if kind == Kind.PROPERTY_SET and type(plain) is int and plain >= 0:
        return PropertySet(plain)
    if kind == Kind.UUID:
        return _uuid_from_plain(plan, field, plain)
    if kind == Kind.BYTES:
        return _bytes_from_plain(plan, field, plain)
    if kind in (Kind.ANY, Kind.REF):
        return _pair_from_plain(plan, field, kind, plain)
    return plain


def list_from_plain(plan: StructPlan, field: FieldPlan, spec: ValuePlan, plain: Any) -> list[Any]:
    """Return the elements of a vector; DecodeError if the JSON value is not a list."""
    if not isinstance(plain, list):
        _refuse(plan, field.name, f"expected a list, got {_shown(plain)}")
    element = spec.element
    assert element is not None
    if int(element.kind) in _AS_THEY_ARE:
        return plain
    if int(element.kind) in _FLOATS:
        # An element cannot be unset, so null is a NaN.
        plain = [math.nan if item is None else item for item in plain]
    return [value_from_plain(plan, field, element, item) for item in plain]


def _float_from_plain(plan: StructPlan, field: FieldPlan, spec: ValuePlan, plain: Any) -> float:
    # JavaScript writes a float without fraction as an integer.
    if type(plain) is not float and type(plain) is not int:
        _refuse(plan, field.name, f"expected {spec.name}, got {_shown(plain)}")
    try:
        return float(plain)
    except OverflowError:
        return math.inf if plain > 0 else -math.inf


def _uuid_from_plain(plan: StructPlan, field: FieldPlan, plain: Any) -> UUID:
    if isinstance(plain, str):
        try:
            found = UUID(plain)
        except ValueError:
            pass
        else:
            # Python also accepts braces, a prefix, and dashes anywhere.
            if str(found) == plain.lower():
                return found
    _refuse(plan, field.name, f"{_shown(plain)} is not a uuid")


def _bytes_from_plain(plan: StructPlan, field: FieldPlan, plain: Any) -> bytes:
    if isinstance(plain, str):
        try:
            return binascii.a2b_base64(plain, strict_mode=True)
        except ValueError:
            pass
    _refuse(plan, field.name, f"expected bytes in base64, got {_shown(plain)}")


def _pair_from_plain(plan: StructPlan, field: FieldPlan, kind: int, plain: Any) -> AnyObject | Ref:
    second = "payload" if kind == Kind.ANY else "key"
    name = plain.get("typeName") if isinstance(plain, dict) else None
    if not isinstance(name, str):
        _refuse(plan, field.name, f'expected {{ "typeName": ..., "{second}": ... }}')
    data = _bytes_from_plain(plan, field, plain.get(second))
    return AnyObject(name, data) if kind == Kind.ANY else Ref(name, data)


def _shown(plain: object) -> str:
    return "null" if plain is None else f"{type(plain).__name__} {shown(plain)}"


def _refuse(plan: StructPlan, field: str, detail: str) -> NoReturn:
    raise DecodeError(type_name=plan.name, field=field, detail=detail)
