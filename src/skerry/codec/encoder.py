"""Encodes objects by walking a plan: shortest heads, declaration order, fixed float widths.

Bytes are passed to the writer as `u8`. For any other type, compiled code would create a Python
number and call a method for each byte.
"""

from __future__ import annotations

import struct
import uuid
from typing import Any, NoReturn

from librt.strings import (
    BytesWriter,
    write_f32_be,
    write_f64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i16, i32, i64, u8

from skerry.codec import kinds
from skerry.codec.heads import skip_key
from skerry.codec.plans import FieldPlan, StructPlan, ValuePlan, refuse_size, refuse_value, shown
from skerry.codec.values import AnyObject, Ref
from skerry.errors import DecodeError
from skerry.limits import PAYLOAD_BYTES_MAX, VECTOR_COUNT_MAX

_I64_MAX = (1 << 63) - 1
_FLOAT32_MAX = 3.4028235677973366e38
"""The middle between the largest float32 and the next power. Larger values round to infinity."""
_pack_half = struct.Struct(">e").pack


def encode(plan: StructPlan, obj: object, mask: int) -> bytes:
    """Encode the set fields whose tags are in the mask, as a CBOR map."""
    writer = BytesWriter()
    _write_struct(writer, plan, obj, mask)
    if len(writer) > PAYLOAD_BYTES_MAX:
        refuse_size(plan, len(writer))
    return writer.getvalue()


def encode_key(plan: StructPlan, obj: object) -> bytes:
    """The canonical key of an object: its key values in tag order, null for unset ones."""
    writer = BytesWriter()
    write_head(writer, 0x80, len(plan.keys))
    for field in plan.keys:
        value = getattr(obj, field.attribute)
        if value is None:
            writer.append(u8(0xF6))
        else:
            _write_value(writer, plan, field, field.value, value)
    return writer.getvalue()


def head(major: int, count: int) -> bytes:
    """The head of an array or map with `count` entries."""
    writer = BytesWriter()
    write_head(writer, major, count)
    return writer.getvalue()


def encode_value(
    plan: StructPlan, field: FieldPlan, value: object, spec: ValuePlan | None = None
) -> bytes:
    """Encode one value of a field, or with `spec` a value inside of it, without the tag."""
    writer = BytesWriter()
    _write_value(writer, plan, field, field.value if spec is None else spec, value)
    return writer.getvalue()


def _write_struct(writer: BytesWriter, plan: StructPlan, obj: object, mask: i64) -> None:
    """Write the set values whose tags are in the mask, in declaration order, as a map."""
    values: tuple[object, ...] = plan.values_of(obj)
    fields = plan.fields
    count: i64 = 0
    index: i64 = 0
    for value in values:
        if value is not None and (mask >> fields[index].tag) & 1:
            count += 1
        index += 1
    write_head(writer, 0xA0, count)
    index = 0
    for value in values:
        field = fields[index]
        index += 1
        tag = field.tag
        if value is None or not (mask >> tag) & 1:
            continue
        if tag >= 24:
            writer.append(u8(24))
        writer.append(u8(tag))
        kind = field.kind
        # The most frequent kinds, without a further call.
        if kind == kinds.FLOAT64 or kinds.TIMEPOINT <= kind <= kinds.DURATION:
            if isinstance(value, float):
                writer.append(u8(0xFB))
                write_f64_be(writer, value)
                continue
        elif (
            kinds.UINT8 <= kind <= kinds.UINT64
            and isinstance(value, int)
            and not isinstance(value, bool)
        ):
            if 0 <= value <= field.small_max:
                write_head(writer, 0x00, value)
                continue
        _write_value(writer, plan, field, field.value, value)


def _write_value(
    writer: BytesWriter, plan: StructPlan, field: FieldPlan, spec: ValuePlan, value: object
) -> None:
    kind = spec.kind
    if kinds.INT8 <= kind <= kinds.UINT64 or kind == kinds.PROPERTY_SET:
        if not isinstance(value, int) or isinstance(value, bool):
            _refuse_type(plan, field, spec, value)
        _write_int(writer, plan, field, spec, value)
    elif kind == kinds.STRING:
        if not isinstance(value, str):
            _refuse_type(plan, field, spec, value)
        _write_text(writer, plan, field, value)
    elif kinds.FLOAT16 <= kind <= kinds.FLOAT64 or kinds.TIMEPOINT <= kind <= kinds.DURATION:
        _write_float(writer, plan, field, spec, value)
    elif kind == kinds.BOOL:
        if value is True:
            writer.append(u8(0xF5))
        elif value is False:
            writer.append(u8(0xF4))
        else:
            _refuse_type(plan, field, spec, value)
    elif kind == kinds.ENUM:
        write_head(writer, 0x00, _member_tag(plan, field, spec, value))
    elif kind == kinds.STRUCT:
        _write_struct(writer, _nested_plan(plan, field, spec, value), value, -1)
    elif kind == kinds.BYTES:
        if not isinstance(value, bytes):
            _refuse_type(plan, field, spec, value)
        write_head(writer, 0x40, len(value))
        writer.write(value)
    elif kind == kinds.UUID:
        if not isinstance(value, uuid.UUID):
            _refuse_type(plan, field, spec, value)
        writer.append(u8(0x50))
        writer.write(value.bytes)
    elif kind == kinds.ANY:
        if not isinstance(value, AnyObject):
            _refuse_type(plan, field, spec, value)
        writer.append(u8(0x82))
        _write_text(writer, plan, field, value.type_name)
        write_head(writer, 0x40, len(value.payload))
        writer.write(value.payload)
    elif kind == kinds.REF:
        _write_ref(writer, plan, field, spec, value)
    else:
        _write_vector(writer, plan, field, spec, value)


def _write_int(
    writer: BytesWriter, plan: StructPlan, field: FieldPlan, spec: ValuePlan, value: int
) -> None:
    if value < spec.low or value > spec.high:
        refuse_value(plan, field, f"{shown(value)} is out of the range of {spec.name}")
    if value < 0:
        write_head(writer, 0x20, -1 - value)
    elif value > _I64_MAX:
        writer.append(u8(0x1B))
        writer.write(value.to_bytes(8, "big"))
    else:
        write_head(writer, 0x00, value)


def _write_float(
    writer: BytesWriter, plan: StructPlan, field: FieldPlan, spec: ValuePlan, value: object
) -> None:
    if isinstance(value, float):
        number = value
    elif isinstance(value, int) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            refuse_value(plan, field, f"{shown(value)} is out of the range of {spec.name}")
    else:
        _refuse_type(plan, field, spec, value)
    if spec.kind == kinds.FLOAT32:
        if _FLOAT32_MAX <= abs(number) < float("inf"):
            refuse_value(plan, field, f"{number} is out of the range of float32")
        writer.append(u8(0xFA))
        write_f32_be(writer, number)
    elif spec.kind == kinds.FLOAT16:
        writer.append(u8(0xF9))
        try:
            writer.write(_pack_half(number))
        except OverflowError:
            refuse_value(plan, field, f"{number} is out of the range of float16")
    else:
        writer.append(u8(0xFB))
        write_f64_be(writer, number)


def _write_text(writer: BytesWriter, plan: StructPlan, field: FieldPlan, value: str) -> None:
    try:
        data = value.encode("utf-8")
    except UnicodeEncodeError:
        # Text that was received and is not UTF-8 is sent unchanged.
        try:
            data = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            refuse_value(plan, field, f"{value!r} has a surrogate that is not a character")
    write_head(writer, 0x60, len(data))
    writer.write(data)


def _write_ref(
    writer: BytesWriter, plan: StructPlan, field: FieldPlan, spec: ValuePlan, value: object
) -> None:
    if not isinstance(value, Ref):
        _refuse_type(plan, field, spec, value)
    if spec.target is None:
        writer.append(u8(0x82))
        _write_text(writer, plan, field, value.type_name)
    elif value.type_name != spec.target:
        refuse_value(plan, field, f"expected a reference to {spec.target}, got {value.type_name}")
    try:
        stop = skip_key(plan, field, value.key, 0, len(value.key))
    except DecodeError as error:
        refuse_value(plan, field, f"{value.key!r} is not a canonical key: {error.detail}")
    if stop != len(value.key):
        refuse_value(plan, field, f"{value.key!r} has bytes after the key")
    writer.write(value.key)


def _write_vector(
    writer: BytesWriter, plan: StructPlan, field: FieldPlan, spec: ValuePlan, value: object
) -> None:
    if not isinstance(value, list) and not isinstance(value, tuple):
        _refuse_type(plan, field, spec, value)
    items = list(value)
    if len(items) > VECTOR_COUNT_MAX:
        refuse_value(plan, field, f"{len(items)} elements, the limit is {VECTOR_COUNT_MAX}")
    write_head(writer, 0x80, len(items))
    element = spec.element
    assert element is not None
    for item in items:
        _write_value(writer, plan, field, element, item)


def write_head(writer: BytesWriter, major: i64, argument: i64) -> None:
    """Write the shortest head of a major type with an argument."""
    # The writers accept signed numbers, so the upper half of a width is passed as negative.
    if argument < 24:
        writer.append(u8(major | argument))
    elif argument < 0x100:
        writer.append(u8(major | 24))
        writer.append(u8(argument))
    elif argument < 0x10000:
        writer.append(u8(major | 25))
        write_i16_be(writer, i16(argument | -0x10000 if argument & 0x8000 else argument))
    elif argument < 0x100000000:
        writer.append(u8(major | 26))
        write_i32_be(writer, i32(argument | -0x100000000 if argument & 0x80000000 else argument))
    else:
        writer.append(u8(major | 27))
        write_i64_be(writer, argument)


def _member_tag(plan: StructPlan, field: FieldPlan, spec: ValuePlan, value: Any) -> i64:
    if not isinstance(value, spec.member_class):
        # A program may have two classes of one enum, for example from a file and a descriptor.
        tag = getattr(value, "tag", None)
        if not isinstance(tag, int) or spec.members.get(tag) != value:
            _refuse_type(plan, field, spec, value)
    return i64(value.tag)


def _nested_plan(plan: StructPlan, field: FieldPlan, spec: ValuePlan, value: Any) -> StructPlan:
    nested = spec.struct
    assert nested is not None
    if isinstance(value, nested.cls):
        return nested
    # The same for structs: an equal fingerprint means equal encoding.
    codec = getattr(type(value), "_codec", None)
    if codec is None or codec.plan.fingerprint != nested.fingerprint:
        _refuse_type(plan, field, spec, value)
    own: StructPlan = codec.plan
    return own


def _refuse_type(plan: StructPlan, field: FieldPlan, spec: ValuePlan, value: object) -> NoReturn:
    name = type(value).__name__
    refuse_value(plan, field, f"expected {spec.name}, got {name} {shown(value)}")
