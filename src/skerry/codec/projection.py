"""Converts encoded objects to another definition of their type."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from skerry.codec import kinds
from skerry.codec.decoder import decode_value, read_float
from skerry.codec.encoder import encode_value, head
from skerry.codec.heads import read_count, read_tag, skip
from skerry.codec.pieces import LARGE_BYTES, Pieces, check_value, recent_pieces
from skerry.codec.plans import TAG_COUNT, FieldPlan, StructPlan, ValuePlan
from skerry.errors import DecodeError, EncodeError
from skerry.limits import STRUCT_ENTRY_COUNT_MAX, VECTOR_COUNT_MAX

_KEPT_COUNT: Final = 4
"""Projections of a large object that are remembered with its pieces."""
_WIDEST: Final = ValuePlan(kinds.FLOAT64, "float64")


def project(plan: StructPlan, data: bytes, mask: i64) -> tuple[bytes, int]:
    """Convert an object of another definition to this plan. Returns it and its property set.

    Fields outside the mask, fields that the plan does not have, and values that do not match the
    plan are left out, also inside of structs.
    """
    known = recent_pieces(data) if len(data) > LARGE_BYTES else None
    if known is None:
        found, present = _project_struct(plan, data, 0, len(data), mask, Pieces(data))
        return found, int(present)
    # Clients with the same definition receive the same bytes.
    for other, other_mask, found, present in known.projections:
        if other is plan and other_mask == mask:
            return found, int(present)
    found, present = _project_pieces(plan, known, mask)
    known.projections = [(plan, mask, found, present), *known.projections[: _KEPT_COUNT - 1]]
    return found, int(present)


def _project_pieces(plan: StructPlan, pieces: Pieces, mask: i64) -> tuple[bytes, i64]:
    """The same for a large object, of which other fields are not read again."""
    data, end, scratch = pieces.data, len(pieces.data), Pieces(pieces.data)
    found: list[bytes | None] = [None] * len(plan.fields)
    for field in plan.fields:
        tag: int = field.tag
        if field.bit & mask and (pieces.present >> tag) & 1:
            scratch.struct_count = 0
            start = pieces.starts[tag]
            found[field.index] = _readable(plan, field, field.value, data, start, end, scratch)
    return _joined(plan, found)


def _project_struct(
    plan: StructPlan, data: bytes, start: i64, end: i64, mask: i64, scratch: Pieces
) -> tuple[bytes, i64]:
    found: list[bytes | None] = [None] * len(plan.fields)
    count, pos = read_count(plan, None, data, start, end, 0xA0, STRUCT_ENTRY_COUNT_MAX)
    while count > 0:
        count -= 1
        tag, pos = read_tag(plan, data, pos, end)
        field = plan.by_tag[tag] if 0 <= tag < TAG_COUNT else None
        if field is not None and field.bit & mask:
            scratch.struct_count = 0
            found[field.index] = _readable(plan, field, field.value, data, pos, end, scratch)
        pos = skip(plan, data, pos, end)
    return _joined(plan, found)


def _joined(plan: StructPlan, values: list[bytes | None]) -> tuple[bytes, i64]:
    parts: list[bytes] = []
    present: i64 = 0
    for field in plan.fields:
        value = values[field.index]
        if value is not None:
            parts.append(field.head)
            parts.append(value)
            present |= field.bit
    return head(0xA0, len(parts) >> 1) + b"".join(parts), present


def _readable(
    plan: StructPlan,
    field: FieldPlan,
    spec: ValuePlan,
    data: bytes,
    pos: i64,
    end: i64,
    scratch: Pieces,
) -> bytes | None:
    """A value in canonical form, or None if it does not match the plan.

    A nested struct keeps the fields that match, a vector all elements or none. A number is rounded
    to a narrower float, unless it is a key.
    """
    is_readable = True
    try:
        after, is_exact = check_value(plan, field, spec, data, pos, end, scratch)
        if is_exact:
            return data[pos:after]
    except DecodeError:
        is_readable = False
    kind = spec.kind
    if kind == kinds.STRUCT and data[pos] & 0xE0 == 0xA0:
        nested = spec.struct
        assert nested is not None
        return _project_struct(nested, data, pos, end, -1, scratch)[0]
    if kind == kinds.VECTOR and data[pos] & 0xE0 == 0x80:
        return _readable_vector(plan, field, spec, data, pos, end, scratch)
    if kinds.FLOAT16 <= kind <= kinds.FLOAT32 and 0xF9 <= data[pos] <= 0xFB and not field.is_key:
        number, _ = read_float(plan, field, _WIDEST, data, pos, end)
        try:
            return encode_value(plan, field, number, spec)
        except EncodeError:
            return None
    if not is_readable:
        return None
    value, _ = decode_value(plan, field, data, int(pos), spec)
    return encode_value(plan, field, value, spec)


def _readable_vector(
    plan: StructPlan,
    field: FieldPlan,
    spec: ValuePlan,
    data: bytes,
    pos: i64,
    end: i64,
    scratch: Pieces,
) -> bytes | None:
    element = spec.element
    assert element is not None
    count, after = read_count(plan, field, data, pos, end, 0x80, VECTOR_COUNT_MAX)
    items: list[bytes] = []
    while count > 0:
        count -= 1
        item = _readable(plan, field, element, data, after, end, scratch)
        if item is None:
            return None
        items.append(item)
        after = skip(plan, data, after, end)
    return head(0x80, len(items)) + b"".join(items)
