"""Decodes objects by walking a plan. Bytes that are not an object of the type are rejected.

Fields may be in any order, and unknown tags are skipped with any content. But lengths must be
definite, a tag may occur once, numbers must not be wider than declared, and counts are bounded.
"""

from __future__ import annotations

import struct
import uuid
from typing import Any

from librt.strings import read_f32_be, read_f64_be
from mypy_extensions import i64

from skerry.codec import kinds
from skerry.codec.heads import (
    describe,
    read_argument,
    read_count,
    read_span,
    read_tag,
    skip,
    skip_key,
)
from skerry.codec.plans import TAG_COUNT, FieldPlan, StructPlan, ValuePlan, refuse_bytes
from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.limits import (
    PAYLOAD_BYTES_MAX,
    STRUCT_ENTRY_COUNT_MAX,
    VECTOR_COUNT_MAX,
)

_unpack_half = struct.Struct(">e").unpack_from
_new_uuid: Any = object.__new__
_set_uuid: Any = object.__setattr__
_SAFE_UNKNOWN = uuid.SafeUUID.unknown


def decode(plan: StructPlan, data: bytes) -> object:
    """Decode the object that all of `data` holds."""
    _expect_bytes(data)
    size: i64 = len(data)
    if size > PAYLOAD_BYTES_MAX:
        refuse_bytes(plan, None, f"{int(size)} bytes, the limit is {PAYLOAD_BYTES_MAX}", 0)
    obj, pos = _read_struct(plan, data, 0, size)
    if pos != size:
        refuse_bytes(plan, None, f"{int(size - pos)} bytes follow the object", pos)
    return obj


def decode_from(plan: StructPlan, data: bytes, start: int) -> tuple[object, int]:
    """The object that begins at `start`, and the offset of its end."""
    _expect_bytes(data)
    obj, pos = _read_struct(plan, data, start, len(data))
    return obj, int(pos)


def decode_value(
    plan: StructPlan, field: FieldPlan, data: bytes, start: int, spec: ValuePlan | None = None
) -> tuple[object, int]:
    """One value of a field, or with `spec` a value inside of it, and the offset of its end."""
    spec = field.value if spec is None else spec
    value, pos = _read_value(plan, field, spec, data, start, len(data))
    return value, int(pos)


def _expect_bytes(data: bytes) -> None:
    if not isinstance(data, bytes):
        # Compiled code raises the same error with the same text.
        raise TypeError(f"bytes object expected; got {type(data).__name__}")


def _read_struct(plan: StructPlan, data: bytes, pos: i64, end: i64) -> tuple[object, i64]:
    count, pos = read_count(plan, None, data, pos, end, 0xA0, STRUCT_ENTRY_COUNT_MAX)
    obj: object = plan.new(plan.cls)
    seen: i64 = 0
    by_tag = plan.by_tag
    while count > 0:
        count -= 1
        tag: i64 = data[pos] if pos < end else 24
        if tag < 24:
            pos += 1
        else:
            tag, pos = read_tag(plan, data, pos, end)
        field = by_tag[tag] if tag < TAG_COUNT else None
        if field is None:
            pos = skip(plan, data, pos, end)
            continue
        if seen & field.bit:
            refuse_bytes(plan, field, f"tag {int(tag)} comes twice", pos)
        seen |= field.bit
        kind = field.kind
        value: object
        # The most frequent kinds, without further calls.
        if (kind == kinds.FLOAT64 or (kinds.TIMEPOINT <= kind <= kinds.DURATION)) and (
            pos + 9 <= end and data[pos] == 0xFB
        ):
            value = read_f64_be(data, pos + 1)
            pos += 9
        elif kinds.UINT8 <= kind <= kinds.UINT64 and pos < end:
            value, pos = read_int(plan, field, field.value, data, pos, end)
        else:
            value, pos = _read_value(plan, field, field.value, data, pos, end)
        setattr(obj, field.attribute, value)
    if seen != plan.mask:
        for missing in plan.fields:
            if not (seen >> missing.tag) & 1:
                setattr(obj, missing.attribute, None)
    return obj, pos


def _read_value(
    plan: StructPlan, field: FieldPlan, spec: ValuePlan, data: bytes, pos: i64, end: i64
) -> tuple[object, i64]:
    if pos >= end:
        refuse_bytes(plan, field, "the bytes end before the value", pos)
    kind = spec.kind
    first: i64 = data[pos]
    if kinds.INT8 <= kind <= kinds.UINT64:
        return read_int(plan, field, spec, data, pos, end)
    if kind == kinds.STRING:
        return _read_text(plan, field, data, pos, end)
    if kinds.FLOAT16 <= kind <= kinds.FLOAT64 or kinds.TIMEPOINT <= kind <= kinds.DURATION:
        return read_float(plan, field, spec, data, pos, end)
    if kind == kinds.BOOL:
        if first != 0xF4 and first != 0xF5:
            refuse_bytes(plan, field, f"expected a bool, found {describe(first)}", pos)
        return first == 0xF5, pos + 1
    if kind == kinds.ENUM:
        tag, after = read_argument(plan, field, data, pos, end, 0x00)
        member = spec.members.get(tag)
        if member is None:
            refuse_bytes(plan, field, f"{spec.name} has no element with tag {int(tag)}", pos)
        return member, after
    if kind == kinds.STRUCT:
        nested = spec.struct
        assert nested is not None
        return _read_struct(nested, data, pos, end)
    if kind == kinds.BYTES:
        stop, after = read_span(plan, field, data, pos, end, 0x40)
        return data[after:stop], stop
    if kind == kinds.UUID:
        stop, after = read_span(plan, field, data, pos, end, 0x40)
        if stop - after != 16:
            refuse_bytes(plan, field, f"a uuid has 16 bytes, found {int(stop - after)}", pos)
        return _uuid_of(data[after:stop]), stop
    if kind == kinds.PROPERTY_SET:
        mask, after = read_int(plan, field, spec, data, pos, end)
        return PropertySet(mask), after
    if kind == kinds.ANY:
        return _read_any(plan, field, data, pos, end)
    if kind == kinds.REF:
        return _read_ref(plan, field, spec, data, pos, end)
    return _read_vector(plan, field, spec, data, pos, end)


def read_int(
    plan: StructPlan, field: FieldPlan, spec: ValuePlan, data: bytes, pos: i64, end: i64
) -> tuple[int, i64]:
    """A number of an integer kind, and the offset of its end."""
    first: i64 = data[pos]
    major = first & 0xE0
    if first & 0x1F > spec.info_max and first < 0x40:
        refuse_bytes(plan, field, f"a number wider than {spec.name}", pos)
    if major == 0 and spec.low == 0:
        # The width was checked, which is the range of an unsigned number.
        argument, after = read_argument(plan, field, data, pos, end, 0)
        # A machine integer holds the upper half of uint64 as negative numbers.
        return (argument if argument >= 0 else int(argument) + (1 << 64)), after
    if major > 0x20 or spec.low == 0:
        refuse_bytes(plan, field, f"expected {spec.name}, found {describe(first)}", pos)
    argument, after = read_argument(plan, field, data, pos, end, major)
    value: int = argument
    if argument < 0:
        value += 1 << 64
    if major != 0:
        value = -1 - value
    if value < spec.low or value > spec.high:
        refuse_bytes(plan, field, f"{value} is out of the range of {spec.name}", pos)
    return value, after


def read_float(
    plan: StructPlan, field: FieldPlan, spec: ValuePlan, data: bytes, pos: i64, end: i64
) -> tuple[float, i64]:
    """A number of a float kind or a time, and the offset of its end."""
    first: i64 = data[pos]
    kind = spec.kind
    if first == 0xFB and kind != kinds.FLOAT32 and kind != kinds.FLOAT16:
        if pos + 9 > end:
            refuse_bytes(plan, field, "the bytes end inside a number", pos)
        return read_f64_be(data, pos + 1), pos + 9
    if first == 0xFA and kind != kinds.FLOAT16:
        if pos + 5 > end:
            refuse_bytes(plan, field, "the bytes end inside a number", pos)
        return read_f32_be(data, pos + 1), pos + 5
    if first == 0xF9:
        if pos + 3 > end:
            refuse_bytes(plan, field, "the bytes end inside a number", pos)
        return _unpack_half(data, pos + 1)[0], pos + 3
    if 0xF9 <= first <= 0xFB:
        refuse_bytes(plan, field, f"a number wider than {spec.name}", pos)
    refuse_bytes(plan, field, f"expected {spec.name}, found {describe(first)}", pos)


def _read_text(
    plan: StructPlan, field: FieldPlan, data: bytes, pos: i64, end: i64
) -> tuple[str, i64]:
    stop, after = read_span(plan, field, data, pos, end, 0x60)
    raw = data[after:stop]
    try:
        return raw.decode("utf-8"), stop
    except UnicodeDecodeError:
        # As in the C++ programs, text is not validated. This way it is sent again unchanged.
        return raw.decode("utf-8", "surrogateescape"), stop


def _read_any(
    plan: StructPlan, field: FieldPlan, data: bytes, pos: i64, end: i64
) -> tuple[object, i64]:
    if data[pos] != 0x82:
        refuse_bytes(plan, field, "expected a type name and bytes", pos)
    name, pos = _read_text(plan, field, data, pos + 1, end)
    stop, after = read_span(plan, field, data, pos, end, 0x40)
    return AnyObject(name, data[after:stop]), stop


def _read_ref(
    plan: StructPlan, field: FieldPlan, spec: ValuePlan, data: bytes, pos: i64, end: i64
) -> tuple[object, i64]:
    name = spec.target
    if name is None:
        if data[pos] != 0x82:
            refuse_bytes(plan, field, "expected a type name and a key", pos)
        name, pos = _read_text(plan, field, data, pos + 1, end)
    stop = skip_key(plan, field, data, pos, end)
    return Ref(name, data[pos:stop]), stop


def _read_vector(
    plan: StructPlan, field: FieldPlan, spec: ValuePlan, data: bytes, pos: i64, end: i64
) -> tuple[object, i64]:
    count, pos = read_count(plan, field, data, pos, end, 0x80, VECTOR_COUNT_MAX)
    element = spec.element
    assert element is not None
    items: list[object] = []
    while count > 0:
        count -= 1
        item, pos = _read_value(plan, field, element, data, pos, end)
        items.append(item)
    return items, pos


def _uuid_of(raw: bytes) -> uuid.UUID:
    # The same as kinds.UUID(bytes=raw), without its checks which of six arguments was given.
    value = _new_uuid(uuid.UUID)
    _set_uuid(value, "int", int.from_bytes(raw, "big"))
    _set_uuid(value, "is_safe", _SAFE_UNKNOWN)
    return value  # type: ignore[no-any-return]
