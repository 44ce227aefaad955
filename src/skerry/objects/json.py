"""Objects as JSON and back: fields by name, unset fields left out.

Elements of enums are written by name (and read by tag too), times and durations as seconds,
property sets as their mask, UUIDs as text, bytes in hexadecimal, and numbers that JSON does not
have as the texts `nan`, `inf` and `-inf`.
"""

from __future__ import annotations

import binascii
import json
import math
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn
from uuid import UUID

from skerry.codec.plans import FieldPlan, StructPlan, ValuePlan, shown
from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.errors import DecodeError, EncodeError
from skerry.limits import TYPE_COUNT_MAX
from skerry.objects.times import to_timepoint
from skerry.schema.model import Kind
from skerry.suggestions import nearest

_FLOATS = (
    Kind.FLOAT16,
    Kind.FLOAT32,
    Kind.FLOAT64,
    Kind.TIMEPOINT,
    Kind.STEADY_TIMEPOINT,
    Kind.DURATION,
)


def dump(obj: Any) -> str:
    """The object as JSON text; raises EncodeError if a value does not fit its field."""
    # JSON accepts values that are invalid for the type; the encoder does not.
    obj._codec.encode(obj)
    return json.dumps(to_json_values(obj), allow_nan=False)


def load(cls: Any, text: str | bytes) -> Any:
    """The object of a class in JSON text; raises DecodeError if the text is invalid."""
    try:
        plain = json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates
        )
    except (ValueError, RecursionError) as error:
        raise DecodeError(type_name=cls.descriptor.name, detail=f"not JSON: {error}") from None
    return from_json_values(cls, plain)


def to_json_values(obj: Any) -> dict[str, Any]:
    """The object as JSON values: dictionaries, lists, texts and numbers."""
    plan: StructPlan = obj._codec.plan
    values = type(obj)._values(obj)
    return {
        field.name: value_to_json_values(field.value, value)
        for field, value in zip(plan.fields, values, strict=True)
        if value is not None
    }


def from_json_values(cls: Any, plain: object) -> Any:
    """The object of a class in such a dictionary; None stands for unset."""
    plan: StructPlan = cls._codec.plan
    obj = _struct_from_json_values(plan, plain)
    try:
        cls._codec.encode(obj)
    except EncodeError as error:
        raise DecodeError(
            type_name=error.type_name, field=error.field, detail=error.detail
        ) from None
    return obj


def value_from_json_values(plan: StructPlan, field: FieldPlan, plain: object) -> Any:
    return _value_from_json_values(plan, field, field.value, plain)


def value_to_json_values(spec: ValuePlan, value: Any) -> Any:
    kind = int(spec.kind)
    if kind == Kind.VECTOR:
        assert spec.element is not None
        return [value_to_json_values(spec.element, item) for item in value]
    if kind == Kind.STRUCT:
        return to_json_values(value)
    if kind == Kind.ENUM:
        return value.label
    if kind in _FLOATS:
        return value if math.isfinite(value) else str(float(value))
    if kind == Kind.UUID:
        return str(value)
    if kind == Kind.BYTES:
        return value.hex()
    if kind == Kind.PROPERTY_SET:
        return int(value)
    if kind == Kind.ANY:
        return {"type": value.type_name, "payload": value.payload.hex()}
    if kind == Kind.REF:
        return {"type": value.type_name, "key": value.key.hex()}
    return value


def _struct_from_json_values(plan: StructPlan, plain: object) -> Any:
    if not isinstance(plain, Mapping):
        _refuse(plan, "", f"expected an object with fields, got {_name_of(plain)}")
    by_name = {item.name: item for item in plan.fields}
    obj = plan.new(plan.cls)
    for item in plan.fields:
        setattr(obj, item.attribute, None)
    for name, value in plain.items():
        known = by_name.get(name)
        if known is None:
            guess = nearest(str(name), by_name)
            advice = f"; did you mean {guess}?" if guess else ""
            _refuse(plan, "", f"there is no field {name!s:.60}{advice}")
        if value is not None:
            setattr(obj, known.attribute, _value_from_json_values(plan, known, known.value, value))
    return obj


def _value_from_json_values(plan: StructPlan, field: FieldPlan, spec: ValuePlan, plain: Any) -> Any:
    kind = int(spec.kind)
    if kind == Kind.VECTOR:
        if not isinstance(plain, list):
            _refuse(plan, field.name, f"expected a list, got {_name_of(plain)}")
        assert spec.element is not None
        return [_value_from_json_values(plan, field, spec.element, item) for item in plain]
    if kind == Kind.STRUCT:
        assert spec.struct is not None
        if not isinstance(plain, Mapping):
            _refuse(plan, field.name, f"expected an object with fields, got {_name_of(plain)}")
        return _struct_from_json_values(spec.struct, plain)
    if kind == Kind.ENUM:
        return _member(plan, field, spec, plain)
    if kind in _FLOATS:
        return _float(plan, field, spec, plain)
    if kind == Kind.PROPERTY_SET and type(plain) is int and plain >= 0:
        return PropertySet(plain)
    if kind == Kind.UUID:
        try:
            return UUID(plain)
        except (ValueError, TypeError, AttributeError):
            _refuse(plan, field.name, f"{shown(plain)} is not a uuid")
    if kind == Kind.BYTES:
        return _bytes(plan, field, plain)
    if kind in (Kind.ANY, Kind.REF):
        return _pair(plan, field, kind, plain)
    return plain


def _member(plan: StructPlan, field: FieldPlan, spec: ValuePlan, plain: Any) -> Any:
    by_label = _members_by_label(spec.member_class)
    if isinstance(plain, str) and plain in by_label:
        return by_label[plain]
    if type(plain) is int and plain in spec.members:
        return spec.members[plain]
    names = ", ".join(list(by_label)[:_NAMES_SHOWN])
    more = ", ..." if len(by_label) > _NAMES_SHOWN else ""
    _refuse(plan, field.name, f"{spec.name} has no {shown(plain)}; it has {names}{more}")


_NAMES_SHOWN = 20


@lru_cache(maxsize=TYPE_COUNT_MAX)
def _members_by_label(cls: Any) -> dict[str, Any]:
    return {member.label: member for member in cls}


def _float(plan: StructPlan, field: FieldPlan, spec: ValuePlan, plain: Any) -> float:
    if isinstance(plain, (int, float)) and not isinstance(plain, bool):
        try:
            number = float(plain)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            _refuse(plan, field.name, f"{shown(plain)} is out of the range of {spec.name}")
        return _rounded(spec, number)
    if plain in ("nan", "inf", "-inf"):
        return float(plain)
    if spec.kind == Kind.TIMEPOINT and isinstance(plain, str):
        try:
            return to_timepoint(plain)
        except ValueError:
            _refuse(plan, field.name, f"{shown(plain)} is not an ISO 8601 time with a time zone")
    _refuse(plan, field.name, f"expected {spec.name}, got {_name_of(plain)}")


def _rounded(spec: ValuePlan, number: float) -> float:
    """The number as it is after encoding and decoding."""
    code = {Kind.FLOAT32: ">f", Kind.FLOAT16: ">e"}.get(Kind(int(spec.kind)))
    if code is None:
        return number
    try:
        return float(struct.unpack(code, struct.pack(code, number))[0])
    except OverflowError:
        return number  # the encoder rejects it


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f'{name} is not JSON; write "{name.lower().replace("infinity", "inf")}"')


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{duplicate} appears twice")
    return plain


def _pair(plan: StructPlan, field: FieldPlan, kind: int, plain: Any) -> AnyObject | Ref:
    second = "payload" if kind == Kind.ANY else "key"
    if not isinstance(plain, Mapping) or set(plain) != {"type", second}:
        _refuse(plan, field.name, f'expected {{"type": ..., "{second}": ...}}')
    data = _bytes(plan, field, plain[second])
    name = plain["type"]
    if not isinstance(name, str):
        _refuse(plan, field.name, f"expected the name of a type, got {_name_of(name)}")
    return AnyObject(name, data) if kind == Kind.ANY else Ref(name, data)


def _bytes(plan: StructPlan, field: FieldPlan, plain: Any) -> bytes:
    try:
        return binascii.unhexlify(plain)
    except (TypeError, ValueError):
        _refuse(plan, field.name, "expected bytes as pairs of hexadecimal digits")


def _name_of(plain: object) -> str:
    return "null" if plain is None else f"{type(plain).__name__} {shown(plain)}"


def _refuse(plan: StructPlan, field: str, detail: str) -> NoReturn:
    raise DecodeError(type_name=plan.name, field=field, detail=detail)
