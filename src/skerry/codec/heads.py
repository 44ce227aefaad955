"""Reads the heads of CBOR items, and skips items of any kind.

The functions use plan and field only to name them in errors.
"""

from __future__ import annotations

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from skerry.codec import kinds
from skerry.codec.plans import FieldPlan, StructPlan, ValuePlan, refuse_bytes
from skerry.limits import SKIP_DEPTH_MAX


def read_tag(plan: StructPlan, data: bytes, pos: i64, end: i64) -> tuple[i64, i64]:
    """The tag at `pos` in the map of a struct, and the offset of its value."""
    if pos < end:
        first: i64 = data[pos]
        if first < 24:
            return first, pos + 1
    tag, after = read_argument(plan, None, data, pos, end, 0x00)
    if tag < 0:
        refuse_bytes(plan, None, "a tag of 64 bits", pos)
    return tag, after


def read_count(
    plan: StructPlan,
    field: FieldPlan | None,
    data: bytes,
    pos: i64,
    end: i64,
    major: i64,
    limit: i64,
) -> tuple[i64, i64]:
    """The number of entries of an array or map, and the offset of the first."""
    count, after = read_argument(plan, field, data, pos, end, major)
    # Each entry takes at least a byte: a count past the end is rejected before memory is used.
    if count < 0 or count > end - after:
        refuse_bytes(plan, field, "the bytes end before the counted entries", pos)
    if count > limit:
        refuse_bytes(plan, field, f"{int(count)} entries, the limit is {int(limit)}", pos)
    return count, after


def read_span(
    plan: StructPlan, field: FieldPlan | None, data: bytes, pos: i64, end: i64, major: i64
) -> tuple[i64, i64]:
    """The end and the start of the content of a text or byte string."""
    length, after = read_argument(plan, field, data, pos, end, major)
    if length < 0 or length > end - after:
        refuse_bytes(plan, field, "the bytes end inside a string", pos)
    return after + length, after


def read_argument(
    plan: StructPlan, field: FieldPlan | None, data: bytes, pos: i64, end: i64, major: i64
) -> tuple[i64, i64]:
    """The argument of a head of this major type. From 2**63 on it is returned as negative."""
    if pos >= end:
        refuse_bytes(plan, field, "the bytes end before the value", pos)
    first: i64 = data[pos]
    if first & 0xE0 != major:
        expected = _MAJORS[major >> 5]
        refuse_bytes(plan, field, f"expected {expected}, found {describe(first)}", pos)
    info = first & 0x1F
    if info < 24:
        return info, pos + 1
    if info > 27:
        refuse_bytes(plan, field, f"{describe(first)} is not allowed", pos)
    width: i64 = i64(1) << (info - 24)
    if pos + 1 + width > end:
        refuse_bytes(plan, field, "the bytes end inside a head", pos)
    if info == 24:
        return data[pos + 1], pos + 2
    if info == 25:
        return i64(read_i16_be(data, pos + 1)) & 0xFFFF, pos + 3
    if info == 26:
        return i64(read_i32_be(data, pos + 1)) & 0xFFFFFFFF, pos + 5
    return read_i64_be(data, pos + 1), pos + 9


def skip_usual(spec: ValuePlan, data: bytes, pos: i64, end: i64, count: i64) -> tuple[i64, i64]:
    """Skip elements of a vector in canonical form; the end of them, and how many are left.

    It stops at an element that has to be examined: because of another form, or of a kind that is
    not frequent.
    """
    kind = spec.kind
    head: i64 = 0
    if kinds.INT8 <= kind <= kinds.UINT64:
        return _skip_numbers(spec, data, pos, end, count)
    if kinds.FLOAT16 <= kind <= kinds.FLOAT64 or kinds.TIMEPOINT <= kind <= kinds.DURATION:
        head = 0xFB
        size: i64 = 9
        if kind == kinds.FLOAT32:
            head, size = 0xFA, 5
        elif kind == kinds.FLOAT16:
            head, size = 0xF9, 3
        while count > 0 and pos + size <= end and data[pos] == head:
            pos += size
            count -= 1
    elif kind == kinds.STRING or kind == kinds.BYTES:
        head = 0x60 if kind == kinds.STRING else 0x40
        while count > 0 and pos < end:
            length: i64 = i64(data[pos]) - head
            if length < 0 or length >= 24 or pos + 1 + length > end:
                break
            pos += 1 + length
            count -= 1
    elif kind == kinds.BOOL:
        while count > 0 and pos < end and (data[pos] == 0xF4 or data[pos] == 0xF5):
            pos += 1
            count -= 1
    elif kind == kinds.ENUM:
        tags = spec.small_tags
        while count > 0 and pos < end and data[pos] < 24 and (tags >> i64(data[pos])) & 1:
            pos += 1
            count -= 1
    return pos, count


def _skip_numbers(spec: ValuePlan, data: bytes, pos: i64, end: i64, count: i64) -> tuple[i64, i64]:
    is_signed = spec.low < 0
    info_max = spec.info_max
    while count > 0 and pos < end:
        first: i64 = data[pos]
        if first < 24:
            pos += 1
            count -= 1
            continue
        info = first & 0x1F
        if first >= 0x40 or info > info_max or (first >= 0x20 and not is_signed):
            break
        width: i64 = 0
        if info >= 24:
            width = i64(1) << (info - 24)
            if pos + 1 + width > end:
                break
            top: i64 = data[pos + 1]
            if is_signed and info == info_max and top >= 0x80:
                break
            # The upper half of the number is not zero if no shorter head could have it.
            if info == 24:
                if top < 24:
                    break
            elif info == 25:
                if top == 0:
                    break
            elif info == 26:
                if top == 0 and data[pos + 2] == 0:
                    break
            elif top == 0 and data[pos + 2] == 0 and data[pos + 3] == 0 and data[pos + 4] == 0:
                break
        pos += 1 + width
        count -= 1
    return pos, count


# -- values of unknown types


def skip(plan: StructPlan, data: bytes, pos: i64, end: i64) -> i64:
    """The end of the item at `pos`, of any kind. Nesting is counted instead of recursion."""
    pending: list[int] = []
    left: i64 = 1
    while True:
        while left == 0:
            if not pending:
                return pos
            left = pending.pop()
        left -= 1
        if pos >= end:
            refuse_bytes(plan, None, "the bytes end inside an unknown value", pos)
        first: i64 = data[pos]
        major = first & 0xE0
        argument, after = read_argument(plan, None, data, pos, end, major)
        inside: i64 = 0
        if major == 0x40 or major == 0x60:
            if argument < 0 or argument > end - after:
                refuse_bytes(plan, None, "the bytes end inside a string", pos)
            after += argument
        elif major == 0x80 or major == 0xA0:
            if argument < 0 or argument > end - after:
                refuse_bytes(plan, None, "the bytes end before the counted entries", pos)
            inside = argument if major == 0x80 else argument * 2
        elif major == 0xC0:
            inside = 1
        if inside > 0:
            if len(pending) >= SKIP_DEPTH_MAX:
                refuse_bytes(plan, None, f"nested deeper than {SKIP_DEPTH_MAX} levels", pos)
            pending.append(left)
            left = inside
        pos = after


def skip_key(plan: StructPlan, field: FieldPlan, data: bytes, pos: i64, end: i64) -> i64:
    """The end of the canonical key at `pos`. Only shortest heads are accepted, because equal keys
    must have equal bytes."""
    if pos >= end or data[pos] & 0xE0 != 0x80:
        refuse_bytes(plan, field, "expected the key of an object", pos)
    stop = skip(plan, data, pos, end)
    while pos < stop:
        first: i64 = data[pos]
        major = first & 0xE0
        argument, after = read_argument(plan, field, data, pos, stop, major)
        if major == 0xC0 or first == 0xF6:
            refuse_bytes(plan, field, f"a key does not hold {describe(first)}", pos)
        if major != 0xE0 and head_size(argument) != after - pos:
            refuse_bytes(plan, field, "the key is not in its shortest form", pos)
        pos = after
        if major == 0x40 or major == 0x60:
            pos += argument
    return stop


def head_size(argument: i64) -> i64:
    """Bytes of the shortest head for an argument."""
    if argument < 0:
        return 9
    if argument < 24:
        return 1
    if argument < 0x100:
        return 2
    if argument < 0x10000:
        return 3
    if argument < 0x100000000:
        return 5
    return 9


_MAJORS = (
    "an unsigned number",
    "a negative number",
    "bytes",
    "text",
    "an array",
    "a map",
    "a tag",
    "a simple value",
)


def describe(first: i64) -> str:
    """The kind of an item in words, from its first byte."""
    if first == 0xF6:
        return "null"
    if first == 0xF4 or first == 0xF5:
        return "a bool"
    if 0xF9 <= first <= 0xFB:
        return "a float"
    if first & 0x1F == 0x1F:
        return "an indefinite length"
    if first & 0x1F > 27:
        return f"a reserved head (0x{int(first):02x})"
    return _MAJORS[first >> 5]
