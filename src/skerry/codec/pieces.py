"""Works on encoded objects without decoding them.

A node needs to know little about a payload: whether it is valid, its key, and how it changes the
cached object. So it splits a payload into pieces, one per field, and copies the pieces.

A payload may have tags that the plan does not have, at the top or inside a struct. Their bytes are
kept when objects are cut and merged. `normalize` leaves them out, as `codec.projection` does.

To find the end of a vector, each of its values has to be read. So the pieces of the last large
objects are remembered: a node splits the same object for each filtered subscription, and a cached
one for each update of it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from skerry.codec import kinds
from skerry.codec.decoder import decode_value, read_float, read_int
from skerry.codec.encoder import encode_value, head
from skerry.codec.heads import (
    describe,
    head_size,
    read_argument,
    read_count,
    read_span,
    read_tag,
    skip,
    skip_key,
    skip_usual,
)
from skerry.codec.plans import (
    TAG_COUNT,
    FieldPlan,
    StructPlan,
    ValuePlan,
    refuse_bytes,
    refuse_size,
)
from skerry.limits import (
    PAYLOAD_BYTES_MAX,
    STRUCT_COUNT_MAX,
    STRUCT_ENTRY_COUNT_MAX,
    VECTOR_COUNT_MAX,
)

_BITS: Final[list[int]] = [1 << tag for tag in range(TAG_COUNT)]
"""The bit of each tag in a property set: compiled code would shift a number of 32 bits."""


LARGE_BYTES: Final = 16 * 1024
"""Objects above this size are large."""
_RECENT_COUNT: Final = 4
_RECENT_BYTES: Final = 32 * 1024 * 1024
"""At most so many large objects are remembered: the last one, and others with up to so many bytes
in all."""


class Pieces:
    """The offsets of the values of one encoded object."""

    def __init__(self, data: bytes) -> None:
        self.data: bytes = data
        self.plan: StructPlan | None = None
        """The plan by which it was split."""
        self.present: int = 0
        """Property set of the payload, including unknown tags."""
        self.unknown: i64 = 0
        """The tags among them that the plan does not have, or that have such tags inside."""
        self.at_bit: i64 = 0
        """The bit of the current field while the object is checked."""
        self.is_canonical: bool = True
        """Whether the encoder of this type would return the same bytes."""
        self.stop: int = 0
        """Offset of the end of the object in `data`."""
        self.struct_count: i64 = 0
        """Number of structs in it, including itself; of a joined object at the most."""
        self.starts: list[int] = [0] * TAG_COUNT
        self.stops: list[int] = [0] * TAG_COUNT
        self.projections: list[tuple[StructPlan, i64, bytes, i64]] = []
        """The last projections of a large object (`codec.projection`)."""

    def value(self, tag: int) -> bytes | None:
        """The encoded value of a tag, or None."""
        if not (self.present >> tag) & 1:
            return None
        return self.data[self.starts[tag] : self.stops[tag]]


def split(plan: StructPlan, data: bytes, start: int) -> Pieces:
    """Check the object that begins at `start` as strictly as the decoder does, and split it."""
    if not isinstance(data, bytes):
        raise TypeError(f"bytes object expected; got {type(data).__name__}")
    end: i64 = len(data)
    first: i64 = start
    if end - first > PAYLOAD_BYTES_MAX:
        refuse_bytes(plan, None, f"{int(end - first)} bytes, the limit is {PAYLOAD_BYTES_MAX}", 0)
    if end > LARGE_BYTES and first == 0:
        known = recent_pieces(data)
        if known is not None and known.plan is plan:
            return known
    pieces = Pieces(data)
    stop, exact = _check_struct(plan, data, first, end, pieces, True)
    pieces.stop = stop
    pieces.is_canonical = exact
    if end > LARGE_BYTES and first == 0:
        _recent.split_count += 1
        _remember(plan, pieces)
    return pieces


def recent_pieces(data: bytes) -> Pieces | None:
    """The pieces of a large object that was split or joined recently, by any plan."""
    for pieces in _recent.pieces:
        if pieces.data is data:
            return pieces
    return None


def _remember(plan: StructPlan, pieces: Pieces) -> None:
    pieces.plan = plan
    kept = [pieces]
    size: i64 = len(pieces.data)
    for other in _recent.pieces:
        size += len(other.data)
        if size > _RECENT_BYTES or len(kept) == _RECENT_COUNT:
            break
        kept.append(other)
    # Other threads use it, too: one assignment replaces all.
    _recent.pieces = kept


class _Recent:
    """The pieces of the large objects that were split or joined last, the last one first."""

    def __init__(self) -> None:
        self.pieces: list[Pieces] = []
        self.split_count: int = 0


_recent: Final = _Recent()


def split_again(pieces: Pieces, plan: StructPlan, data: bytes, start: i64) -> None:
    """The same, reusing the pieces of another object."""
    end: i64 = len(data)
    if end - start > PAYLOAD_BYTES_MAX:
        refuse_bytes(plan, None, f"{int(end - start)} bytes, the limit is {PAYLOAD_BYTES_MAX}", 0)
    pieces.data = data
    pieces.struct_count = 0
    pieces.unknown = 0
    # The lists still have offsets of the former object. They are not read for fields that are not
    # present.
    stop, exact = _check_struct(plan, data, start, end, pieces, True)
    pieces.stop = stop
    pieces.is_canonical = exact


def split_whole(plan: StructPlan, data: bytes) -> Pieces:
    """Check and split bytes that hold one object and nothing else."""
    pieces = split(plan, data, 0)
    if pieces.stop != len(data):
        rest = len(data) - pieces.stop
        refuse_bytes(plan, None, f"{rest} bytes follow the object", pieces.stop)
    return pieces


def canonical_key(plan: StructPlan, pieces: Pieces) -> bytes:
    """The canonical key of an encoded object, with null for missing key fields."""
    parts: list[bytes] = [head(0x80, len(plan.keys))]
    for field in plan.keys:
        if not (pieces.present >> int(field.tag)) & 1:
            parts.append(b"\xf6")
        else:
            parts.append(_exact_value(plan, field, pieces, True))
    return b"".join(parts)


def normalize(plan: StructPlan, data: bytes) -> bytes:
    """The bytes that the encoder of this type returns: known tags in its order, shortest heads."""
    pieces = split_whole(plan, data)
    if pieces.is_canonical:
        return data
    return _join(plan, pieces, pieces, 0, plan.mask, is_pure=True)


def cut(plan: StructPlan, pieces: Pieces, mask: i64) -> bytes:
    """The object with the fields of the mask only."""
    return _join(plan, pieces, pieces, 0, mask)


def merge(plan: StructPlan, stored: bytes, update: bytes, attributes: int) -> bytes:
    """Apply an update to `stored`: the named fields are replaced, or removed if absent.

    Nested structs and vectors are replaced as a whole, keys never change, and fields that the
    attributes do not name stay. Values are copied, not decoded.
    """
    return merge_pieces(plan, stored, split_whole(plan, update), attributes)


def merge_pieces(plan: StructPlan, stored: bytes, update: Pieces, attributes: i64) -> bytes:
    """The same for an update that is split already."""
    old = split_whole(plan, stored)
    return _join(plan, old, update, attributes & ~plan.key_mask, -1, is_kept=True)


def _join(
    plan: StructPlan,
    old: Pieces,
    new: Pieces,
    named: i64,
    mask: i64,
    *,
    is_pure: bool = False,
    is_kept: bool = False,
) -> bytes:
    """Of the fields in the mask, join the named ones of `new` and the others of `old`.

    With `is_pure`, without tags that the plan does not have, also inside of structs. With
    `is_kept`, the pieces of a large result are remembered.
    """
    parts: list[bytes] = []
    for field in plan.fields:
        source = new if (named >> field.tag) & 1 else old
        if (source.present >> int(field.tag)) & (mask >> field.tag) & 1:
            parts.append(field.head)
            parts.append(_exact_value(plan, field, source, is_pure))
    unknown: i64 = ((new.unknown & named) | (old.unknown & ~named)) & mask
    if is_pure:
        unknown = 0
    if unknown & ~plan.mask:
        _append_unknown(parts, old, new, named, unknown & ~plan.mask)
    joined = head(0xA0, len(parts) >> 1) + b"".join(parts)
    # An update can enlarge an object, and so can a wider form of a number.
    if len(joined) > PAYLOAD_BYTES_MAX:
        refuse_size(plan, len(joined))
    struct_count = old.struct_count + new.struct_count
    if is_kept and len(joined) > LARGE_BYTES and struct_count <= STRUCT_COUNT_MAX:
        pieces = _pieces_of(joined, parts, unknown)
        pieces.struct_count = struct_count
        _remember(plan, pieces)
    return joined


def _pieces_of(joined: bytes, parts: list[bytes], unknown: i64) -> Pieces:
    """The pieces of an object that was joined of heads and values, without splitting it."""
    pieces = Pieces(joined)
    pos: i64 = len(head(0xA0, len(parts) >> 1))
    for index in range(0, len(parts), 2):
        # The tag is the last byte of its head.
        name = parts[index]
        tag: int = name[len(name) - 1]
        pos += len(name)
        pieces.starts[tag] = int(pos)
        pos += len(parts[index + 1])
        pieces.stops[tag] = int(pos)
        pieces.present |= 1 << tag
    pieces.unknown = unknown & pieces.present
    pieces.is_canonical = pieces.unknown == 0
    pieces.stop = int(pos)
    return pieces


def _append_unknown(parts: list[bytes], old: Pieces, new: Pieces, named: i64, extra: i64) -> None:
    """Append the values of tags that the plan does not have, unchanged."""
    for tag in range(TAG_COUNT):
        if (extra >> tag) & 1:
            source = new if (named >> tag) & 1 else old
            parts.append(head(0x00, tag))
            parts.append(source.data[source.starts[tag] : source.stops[tag]])


def _exact_value(plan: StructPlan, field: FieldPlan, pieces: Pieces, is_pure: bool) -> bytes:
    """A value in canonical form. With unknown tags inside it is unchanged, unless `is_pure`."""
    tag: int = field.tag
    start = pieces.starts[tag]
    if pieces.is_canonical or (pieces.unknown & field.bit and not is_pure):
        return pieces.data[start : pieces.stops[tag]]
    value, _ = decode_value(plan, field, pieces.data, start)
    return encode_value(plan, field, value)


def check_value(
    plan: StructPlan,
    field: FieldPlan,
    spec: ValuePlan,
    data: bytes,
    pos: i64,
    end: i64,
    pieces: Pieces,
) -> tuple[i64, bool]:
    """The end of a value, and whether it is in canonical form."""
    if pos >= end:
        refuse_bytes(plan, field, "the bytes end before the value", pos)
    kind = spec.kind
    first: i64 = data[pos]
    if kinds.FLOAT16 <= kind <= kinds.FLOAT64 or kinds.TIMEPOINT <= kind <= kinds.DURATION:
        return _check_float(plan, field, spec, data, pos, end)
    if kinds.INT8 <= kind <= kinds.UINT64 or kind == kinds.PROPERTY_SET:
        if first < 24:
            return pos + 1, True
        number, after = read_int(plan, field, spec, data, pos, end)
        if number < 0:
            number = -1 - number
        wide = number >= 0x100000000
        return after, after - pos == (9 if wide else head_size(number))
    if kind == kinds.STRING or kind == kinds.BYTES or kind == kinds.UUID:
        stop, start = read_span(plan, field, data, pos, end, 0x60 if kind == kinds.STRING else 0x40)
        if kind == kinds.UUID and stop - start != 16:
            refuse_bytes(plan, field, f"a uuid has 16 bytes, found {int(stop - start)}", pos)
        return stop, head_size(stop - start) == start - pos
    if kind == kinds.BOOL:
        if first != 0xF4 and first != 0xF5:
            refuse_bytes(plan, field, f"expected a bool, found {describe(first)}", pos)
        return pos + 1, True
    if kind == kinds.ENUM:
        tag, after = read_argument(plan, field, data, pos, end, 0x00)
        if tag not in spec.members:
            refuse_bytes(plan, field, f"{spec.name} has no element with tag {int(tag)}", pos)
        return after, head_size(tag) == after - pos
    if kind == kinds.STRUCT:
        nested = spec.struct
        assert nested is not None
        return _check_struct(nested, data, pos, end, pieces, False)
    if kind == kinds.ANY or kind == kinds.REF:
        return _check_pair(plan, field, spec, data, pos, end)
    count, after = read_count(plan, field, data, pos, end, 0x80, VECTOR_COUNT_MAX)
    exact = head_size(count) == after - pos
    element = spec.element
    assert element is not None
    while count > 0:
        after, count = skip_usual(element, data, after, end, count)
        if count > 0:
            count -= 1
            after, exact_item = check_value(plan, field, element, data, after, end, pieces)
            exact = exact and exact_item
    return after, exact


def _check_struct(
    plan: StructPlan,
    data: bytes,
    start: i64,
    end: i64,
    pieces: Pieces,
    is_whole: bool,
) -> tuple[i64, bool]:
    """The end of a struct, and whether it is in canonical form.

    With `is_whole`, the pieces are set, and else only the unknown tags.
    """
    pieces.struct_count += 1
    if pieces.struct_count > STRUCT_COUNT_MAX:
        refuse_bytes(plan, None, f"over {STRUCT_COUNT_MAX} structs, which is the limit", start)
    count, pos = read_count(plan, None, data, start, end, 0xA0, STRUCT_ENTRY_COUNT_MAX)
    exact = head_size(count) == pos - start
    previous: i64 = -1
    seen: i64 = 0
    by_tag = plan.by_tag
    while count > 0:
        count -= 1
        tag: i64 = data[pos] if pos < end else 24
        if tag < 24:
            pos += 1
        else:
            tag_at = pos
            tag, pos = read_tag(plan, data, pos, end)
            exact = exact and head_size(tag) == pos - tag_at
        field = by_tag[tag] if tag < TAG_COUNT else None
        if field is None:
            exact = False
            value_at = pos
            pos = skip(plan, data, pos, end)
            if not is_whole:
                pieces.unknown |= pieces.at_bit
            elif 0 < tag < TAG_COUNT:
                # Decoders skip it, also if it occurs twice. The last one is kept.
                bit: i64 = _BITS[tag]
                seen |= bit
                pieces.unknown |= bit
                pieces.starts[tag] = value_at
                pieces.stops[tag] = pos
            continue
        if seen & field.bit:
            refuse_bytes(plan, field, f"tag {int(tag)} comes twice", pos)
        seen |= field.bit
        if field.index < previous:
            exact = False
        previous = field.index
        value_at = pos
        kind = field.kind
        # The most frequent kinds in their usual form, without further calls.
        if (kind == kinds.FLOAT64 or (kinds.TIMEPOINT <= kind <= kinds.DURATION)) and (
            pos + 9 <= end and data[pos] == 0xFB
        ):
            pos += 9
        elif kinds.INT8 <= kind <= kinds.UINT64 and pos < end and data[pos] < 24:
            pos += 1
        elif (
            (kind == kinds.STRING and pos < end)
            and (0x60 <= data[pos] < 0x78)
            and pos + data[pos] - 0x5F <= end
        ):
            # The head is one byte: 0x60 plus the length.
            pos += data[pos] - 0x5F
        else:
            if is_whole:
                pieces.at_bit = field.bit
            pos, exact_value = check_value(plan, field, field.value, data, pos, end, pieces)
            exact = exact and exact_value
        if is_whole:
            pieces.starts[tag] = value_at
            pieces.stops[tag] = pos
    if is_whole:
        pieces.present = seen
    return pos, exact


def _check_pair(
    plan: StructPlan, field: FieldPlan, spec: ValuePlan, data: bytes, pos: i64, end: i64
) -> tuple[i64, bool]:
    """Check the two kinds that consist of a type name and bytes or a key."""
    exact = True
    if spec.target is None:
        if data[pos] != 0x82:
            refuse_bytes(
                plan,
                field,
                f"expected a type name and {'a key' if spec.kind == kinds.REF else 'bytes'}",
                pos,
            )
        stop, start = read_span(plan, field, data, pos + 1, end, 0x60)
        exact = head_size(stop - start) == start - pos - 1
        pos = stop
    if spec.kind == kinds.REF:
        return skip_key(plan, field, data, pos, end), exact
    stop, start = read_span(plan, field, data, pos, end, 0x40)
    return stop, exact and head_size(stop - start) == start - pos


def _check_float(
    plan: StructPlan, field: FieldPlan, spec: ValuePlan, data: bytes, pos: i64, end: i64
) -> tuple[i64, bool]:
    _, after = read_float(plan, field, spec, data, pos, end)
    width: i64 = 9
    if spec.kind == kinds.FLOAT32:
        width = 5
    elif spec.kind == kinds.FLOAT16:
        width = 3
    return after, after - pos == width
