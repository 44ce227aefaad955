"""Filters of subscriptions, compiled once and evaluated often.

A filter comes from the other side of a connection. All of it is checked here against the type,
before the first object is tested, so that testing cannot fail. The node uses this for its
subscribers, and a client uses it if its node has no filters, so both give the same result.
"""

from __future__ import annotations

from typing import Any, Final

from skerry.codec.pieces import cut, split_whole
from skerry.codec.plans import FieldPlan, StructPlan
from skerry.engine.delivery.predicate import (
    ACCEPT,
    EQUAL,
    IS_IN,
    IS_NULL,
    NOT_IN,
    NOT_NULL,
    REJECT,
    UNEQUAL,
    Comparison,
    Fit,
    InList,
    IsSet,
    Predicate,
    Step,
)
from skerry.errors import FilterError
from skerry.limits import FILTER_LIST_COUNT_MAX, TAG_MAX
from skerry.objects.base import codec_of
from skerry.objects.classes import class_of
from skerry.protocol.access.where.filter_tree import LIKE, Branch, predicate_tree
from skerry.protocol.access.where.like_pattern import LikePattern
from skerry.schema.model import INTEGER_RANGES, Kind, StructType

ALL_FIELDS: Final = -1
"""The mask of a subscription to all fields, including those that are added to the type later."""


class Query:
    """The condition of a subscription on objects of a type, and the fields that it selects."""

    def __init__(self, plan: StructPlan, predicate: Predicate | None, mask: int) -> None:
        self._plan: StructPlan = plan
        self.predicate: Predicate | None = predicate
        """The condition; None if all objects match."""
        self.mask: int = mask
        """Property set of the selected fields, the key included."""
        self._is_whole: bool = int(plan.mask) & ~mask == 0
        self.part_count: int = 1 if predicate is None else predicate.part_count
        """Comparisons in its condition; 1 if it has none."""
        read = 0 if predicate is None else predicate.mask
        self._relevant: int = (mask | read) & ~int(plan.key_mask)

    def matches(self, payload: bytes) -> bool:
        """Whether an encoded object, with all of its set fields, matches the condition."""
        return self.predicate is None or self.predicate.holds(payload)

    def project(self, payload: bytes, attributes: int) -> tuple[bytes, int]:
        """Reduce an encoded object or update and its property set to the selected fields."""
        if self._is_whole:
            return payload, attributes
        return cut(self._plan, split_whole(self._plan, payload), self.mask), attributes & self.mask

    def cares(self, attributes: int) -> bool:
        """Whether an update of these fields can change the result or a selected field.

        Keys never change, so an update that names only keys cannot.
        """
        return attributes & self._relevant != 0


def compile_filter(filter_: Any, type_: StructType) -> Query:
    """Compile a DotsFilter for objects of a type; raises FilterError if it is invalid."""
    plan = codec_of(class_of(type_)).plan
    predicate = None
    if filter_.predicate is not None:
        predicate = _Linker(plan).predicate(predicate_tree(filter_.predicate))
    mask = ALL_FIELDS
    if filter_.propertyMask is not None:
        mask = int(filter_.propertyMask) | int(plan.key_mask)
    return Query(plan, predicate, mask)


def empty_query(type_: StructType) -> Query:
    """A query that matches no object of a type."""
    plan = codec_of(class_of(type_)).plan
    return Query(plan, Predicate(plan, REJECT, []), ALL_FIELDS)


class _Linker:
    """Creates the steps of one condition and links them."""

    def __init__(self, plan: StructPlan) -> None:
        self._plan: StructPlan = plan
        self._steps: list[Step] = []

    def predicate(self, tree: Branch) -> Predicate:
        first = self._link(tree, ACCEPT, REJECT)
        return Predicate(self._plan, first, self._steps)

    def _link(self, branch: Branch, if_true: Step, if_false: Step) -> Step:
        """The first step of a branch, with the steps that follow if it is true or false."""
        first = if_true
        if branch.kind == "and":
            for part in reversed(branch.parts):
                first = self._link(part, first, if_false)
            return first
        if branch.kind == "or":
            first = if_false
            for part in reversed(branch.parts):
                first = self._link(part, if_true, first)
            return first
        if branch.kind == "not":
            return self._link(branch.parts[0], if_false, if_true)
        step = _step(self._plan, branch.leaf)
        step.if_true = if_true
        step.if_false = if_false
        self._steps.append(step)
        return step


# -- comparisons of single fields

_NUMBERS: Final = ("intVal", "uintVal", "floatVal")
_SLOTS: Final[dict[int, tuple[str, ...]]] = {
    Kind.BOOL: ("boolVal",),
    **dict.fromkeys(INTEGER_RANGES, _NUMBERS),
    **dict.fromkeys((Kind.FLOAT16, Kind.FLOAT32, Kind.FLOAT64), _NUMBERS),
    Kind.STRING: ("stringVal",),
    Kind.UUID: ("uuidVal",),
    Kind.TIMEPOINT: ("timepointVal",),
    Kind.STEADY_TIMEPOINT: ("floatVal",),
    Kind.DURATION: ("durationVal",),
    Kind.ENUM: ("uintVal", "intVal"),
}
"""Slots of a DotsPredicateValue that a field of each kind can be compared with."""

_UNORDERED: Final = (Kind.BOOL, Kind.ENUM)


def _step(plan: StructPlan, leaf: Any) -> Step:
    tag = leaf.propertyTag
    field = plan.by_tag[tag] if tag is not None and tag <= TAG_MAX else None
    if field is None:
        raise FilterError(f"{plan.name} has no field with tag {tag}")
    op = 0 if leaf.op is None else leaf.op.tag
    slots = _slots_set(leaf.value)
    if op in (IS_NULL, NOT_NULL):
        if slots:
            raise FilterError(f"{field.name}: whether it is set is asked without a value")
        return IsSet(plan, field, op == NOT_NULL)
    if op == 0:
        raise FilterError(f"{field.name}: no comparison is named")
    if len(slots) != 1:
        raise FilterError(f"{field.name}: one value is needed, found {len(slots)}")
    slot = slots[0]
    value = getattr(leaf.value, slot)
    needs_list = op in (IS_IN, NOT_IN)
    _check_slot(field, slot, needs_list=needs_list)
    if needs_list:
        return InList(plan, field, _members(field, value), op == IS_IN)
    if op == LIKE:
        if field.kind != Kind.STRING:
            raise FilterError(f"{field.name}: `like` is for text")
        return Fit(plan, field, LikePattern(value))
    if op not in (EQUAL, UNEQUAL) and field.kind in _UNORDERED:
        raise FilterError(f"{field.name}: {field.value.name} has no order")
    return Comparison(plan, field, op, _comparable(field, value))


def _slots_set(value: Any) -> list[str]:
    if value is None:
        return []
    return [slot.name for slot in value.descriptor.fields if value.is_set(slot.name)]


def _check_slot(field: FieldPlan, slot: str, *, needs_list: bool) -> None:
    is_list = slot.endswith("List")
    single = slot.removesuffix("List") + "Val" if is_list else slot
    if is_list != needs_list or single not in _SLOTS.get(int(field.kind), ()):
        raise FilterError(f"{field.name}: {field.value.name} is not compared with {slot} so")


def _members(field: FieldPlan, values: list[Any]) -> frozenset[Any]:
    if not values:
        raise FilterError(f"{field.name}: an empty list")
    if len(values) > FILTER_LIST_COUNT_MAX:
        detail = f"a list of {len(values)} values, the limit is {FILTER_LIST_COUNT_MAX}"
        raise FilterError(f"{field.name}: {detail}")
    return frozenset([_comparable(field, value) for value in values])


def _comparable(field: FieldPlan, value: Any) -> Any:
    """A value in the form in which the steps read the field."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if field.kind == Kind.UUID:
        return value.bytes
    if isinstance(value, float) and value != value:
        raise FilterError(f"{field.name}: nothing compares with a number that is none")
    if field.kind == Kind.ENUM and value not in field.value.members:
        raise FilterError(f"{field.name}: {field.value.name} has no element with tag {value}")
    return value
