"""Conditions on encoded objects, tested without decoding the objects.

A condition is a chain of steps. Each step knows which step follows if it is true and which if it is
false, so `and`, `or` and `not` are only ways of linking steps, and testing a condition is one loop
that reads no more of the object than it must. The node tests each update for each filtered
subscription, so the module is compiled.
"""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from skerry.codec import kinds
from skerry.codec.decoder import read_float, read_int
from skerry.codec.heads import read_argument, read_count, read_span, read_tag, skip
from skerry.codec.pieces import recent_pieces
from skerry.codec.plans import TAG_COUNT, FieldPlan, StructPlan, refuse_bytes
from skerry.limits import FILTER_BYTES_MAX, STRUCT_ENTRY_COUNT_MAX
from skerry.protocol.access.where.like_pattern import LikePattern

# The tags of DotsCompareOp, repeated as constants that compiled code can branch on. A test compares
# them with the enum.
EQUAL: Final = 1
UNEQUAL: Final = 2
LESS: Final = 3
LESS_EQUAL: Final = 4
GREATER: Final = 5
GREATER_EQUAL: Final = 6
IS_IN: Final = 7
NOT_IN: Final = 8
IS_NULL: Final = 9
NOT_NULL: Final = 10


class Step:
    """A test of one field. A step without a field is an end of the chain."""

    def __init__(self, plan: StructPlan | None, field: FieldPlan | None) -> None:
        self.plan: StructPlan | None = plan
        self.field: FieldPlan | None = field
        self.is_end: bool = field is None
        self.slot: i64 = 0
        """Index of the field among those that the condition reads."""
        self.is_for_unset: bool = False
        """The result for an unset field: a comparison with one is false."""
        self.part_count: int = 1
        """The cost of this step, in comparisons, at the worst."""
        self.if_true: Step = self
        self.if_false: Step = self

    def holds(self, data: bytes, at: i64) -> bool:
        """The result for a field that is set and whose value begins at `at`."""
        raise AssertionError("an end of a condition has no result")


_LARGE_BYTES: Final = 4096
"""Objects above this size are searched once for all conditions, since each element of a vector has
to be read to skip the vector."""

_LONG_TEXT_BYTES: Final = 256
"""Longer texts are copied once for all conditions."""

ACCEPT: Final = Step(None, None)
REJECT: Final = Step(None, None)


class IsSet(Step):
    """Tests whether the field is set, or whether it is unset."""

    def __init__(self, plan: StructPlan, field: FieldPlan, is_wanted: bool) -> None:
        super().__init__(plan, field)
        self.is_wanted: bool = is_wanted
        self.is_for_unset = not is_wanted

    def holds(self, data: bytes, at: i64) -> bool:
        return self.is_wanted


class Comparison(Step):
    """Compares the field with one value.

    Both stay Python objects, since Python compares integers and floats of any size exactly.
    """

    def __init__(self, plan: StructPlan, field: FieldPlan, op: int, bound: Any) -> None:
        super().__init__(plan, field)
        self.op: i64 = op
        self.bound: Any = bound

    def holds(self, data: bytes, at: i64) -> bool:
        value = _read(self, data, at)
        bound = self.bound
        op = self.op
        if op == GREATER:
            return bool(value > bound)
        if op == LESS:
            return bool(value < bound)
        if op == EQUAL:
            return bool(value == bound)
        if op == GREATER_EQUAL:
            return bool(value >= bound)
        if op == LESS_EQUAL:
            return bool(value <= bound)
        return bool(value != bound)


class InList(Step):
    """Tests whether the field has one of some values, or none of them."""

    def __init__(
        self, plan: StructPlan, field: FieldPlan, values: frozenset[Any], is_wanted: bool
    ) -> None:
        super().__init__(plan, field)
        self.values: frozenset[Any] = values
        self.is_wanted: bool = is_wanted

    def holds(self, data: bytes, at: i64) -> bool:
        return (_read(self, data, at) in self.values) == self.is_wanted


class Fit(Step):
    """Tests whether the text matches a pattern of `like`."""

    def __init__(self, plan: StructPlan, field: FieldPlan, pattern: LikePattern) -> None:
        super().__init__(plan, field)
        self.pattern: LikePattern = pattern
        self.part_count = pattern.part_count

    def holds(self, data: bytes, at: i64) -> bool:
        text: bytes = _read(self, data, at)
        return self.pattern.matches(text)


class Predicate:
    """A condition on objects of one struct: linked steps and the first of them."""

    def __init__(self, plan: StructPlan, first: Step, steps: list[Step]) -> None:
        self.plan: StructPlan = plan
        self.first: Step = first
        self.mask: int = 0
        """Property set of the fields that it reads."""
        self.part_count: int = 0
        """Its cost in comparisons, at the worst."""
        self._slots: list[int] = [-1] * TAG_COUNT
        slot_count = 0
        for step in steps:
            field = step.field
            assert field is not None
            tag: int = field.tag
            if self._slots[tag] < 0:
                self._slots[tag] = slot_count
                slot_count += 1
            step.slot = self._slots[tag]
            self.mask |= int(field.bit)
            self.part_count += step.part_count
        self._slot_count: i64 = slot_count

    def holds(self, data: bytes) -> bool:
        """Whether the condition is true for an encoded object, which was checked when received.

        Parts of the object that the condition does not read are not checked again.
        """
        starts = self._find(data)
        step = self.first
        while not step.is_end:
            at: i64 = starts[step.slot]
            holds = step.is_for_unset if at < 0 else step.holds(data, at)
            step = step.if_true if holds else step.if_false
        return step is ACCEPT

    def _find(self, data: bytes) -> list[int]:
        """The offsets of the values of the fields that the steps read; -1 for unset fields."""
        plan = self.plan
        end: i64 = len(data)
        left = self._slot_count
        starts: list[int] = [-1] * left
        if end > _LARGE_BYTES:
            found = _starts_of_large(plan, data)
            for tag in range(TAG_COUNT):
                if self._slots[tag] >= 0:
                    starts[self._slots[tag]] = found[tag]
            return starts
        count, pos = read_count(plan, None, data, 0, end, 0xA0, STRUCT_ENTRY_COUNT_MAX)
        while count > 0:
            count -= 1
            tag, pos = read_tag(plan, data, pos, end)
            slot: i64 = self._slots[tag] if tag < TAG_COUNT else -1
            if slot >= 0:
                starts[slot] = pos
                left -= 1
                if left == 0:
                    break
            if pos >= end:
                refuse_bytes(plan, None, "the bytes end before the value", pos)
            size: i64 = _SIZES[data[pos]]
            pos = pos + size if size > 0 else skip(plan, data, pos, end)
        return starts


class _LastLarge:
    """The last large object that was searched, since many conditions are tested on the same one."""

    def __init__(self) -> None:
        self.data: bytes = b""
        self.starts: list[int] = []
        self.search_count: int = 0


_last_large: Final = _LastLarge()


def _starts_of_large(plan: StructPlan, data: bytes) -> list[int]:
    """The offset of the value of each tag; -1 for absent tags."""
    last = _last_large
    if last.data is data:
        return last.starts
    pieces = recent_pieces(data)
    starts: list[int] = [-1] * TAG_COUNT
    if pieces is not None:
        for tag in range(TAG_COUNT):
            if (pieces.present >> tag) & 1:
                starts[tag] = pieces.starts[tag]
    else:
        last.search_count += 1
        end: i64 = len(data)
        count, pos = read_count(plan, None, data, 0, end, 0xA0, STRUCT_ENTRY_COUNT_MAX)
        while count > 0:
            count -= 1
            found, pos = read_tag(plan, data, pos, end)
            if found < TAG_COUNT:
                starts[found] = pos
            pos = skip(plan, data, pos, end)
    last.data = data
    last.starts = starts
    return starts


class _LastText:
    """The last long text that was read, since many conditions are tested on the same one."""

    def __init__(self) -> None:
        self.data: bytes = b""
        self.start: i64 = 0
        self.text: bytes = b""
        self.read_count: int = 0

    def read(self, data: bytes, start: i64, stop: i64) -> bytes:
        if self.data is not data or self.start != start:
            self.data = data
            self.start = start
            self.text = data[start:stop]
            self.read_count += 1
        return self.text


_last_text: Final = _LastText()


def _read(step: Step, data: bytes, at: i64) -> Any:
    """The value at `at` in the form for comparisons: text and UUIDs as bytes, enums as tags."""
    plan = step.plan
    field = step.field
    assert plan is not None
    assert field is not None
    end: i64 = len(data)
    if at >= end:
        refuse_bytes(plan, field, "the bytes end before the value", at)
    kind = field.kind
    if kinds.FLOAT16 <= kind <= kinds.FLOAT64 or kinds.TIMEPOINT <= kind <= kinds.DURATION:
        number, _ = read_float(plan, field, field.value, data, at, end)
        return number
    if kind == kinds.STRING:
        stop, start = read_span(plan, field, data, at, end, 0x60)
        if stop - start > _TEXT_BYTES_MAX:
            # No value in a condition is as long, so the result does not depend on the rest.
            stop = start + _TEXT_BYTES_MAX
        if stop - start > _LONG_TEXT_BYTES:
            return _last_text.read(data, start, stop)
        return data[start:stop]
    if kind == kinds.UUID:
        stop, start = read_span(plan, field, data, at, end, 0x40)
        return data[start:stop]
    if kind == kinds.ENUM:
        tag, _ = read_argument(plan, field, data, at, end, 0x00)
        return int(tag)
    if kind == kinds.BOOL:
        return data[at] == 0xF5
    whole, _ = read_int(plan, field, field.value, data, at, end)
    return whole


_TEXT_BYTES_MAX: Final = FILTER_BYTES_MAX + 1


def _size(first: int) -> int:
    """Size in bytes of an item with this first byte, if that alone determines it; else 0."""
    major = first >> 5
    info = first & 0x1F
    if major in (0, 1, 7):
        return 1 if info < 24 else {24: 2, 25: 3, 26: 5, 27: 9}.get(info, 0)
    if major in (2, 3):
        return 1 + info if info < 24 else 0
    return 1 if first in (0x80, 0xA0) else 0


_SIZES: Final = bytes([_size(first) for first in range(256)])
