"""Makes the plan of a struct, by which its codec works, from the definition of the type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from skerry.codec.plans import FieldPlan, StructPlan, ValuePlan
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import INTEGER_RANGES, EnumType, FieldType, RefType, StructType, VectorType

ClassOf = Callable[[StructType | EnumType], Any]
"""Returns the Python class of a named type."""


def make_plan(
    struct: StructType, cls: Any, attributes: Mapping[str, str], class_of: ClassOf
) -> StructPlan:
    """The plan of a struct. Its objects are of class `cls`; `attributes` maps field names to the
    names of Python attributes."""
    fields = [
        FieldPlan(
            item.tag,
            item.name,
            attributes[item.name],
            item.is_key,
            value_plan(item.type, class_of),
        )
        for item in struct.fields
    ]
    plan = StructPlan(struct.name, cls, fields, values_getter([f.attribute for f in fields]))
    plan.fingerprint = fingerprint(struct)
    return plan


def values_getter(attributes: list[str]) -> Callable[[object], tuple[Any, ...]]:
    """A function that returns these attributes of an object as a tuple."""
    if not attributes:
        return lambda _obj: ()
    get = attrgetter(*attributes)
    if len(attributes) == 1:
        # For one name, attrgetter returns the bare value.
        return lambda obj: (get(obj),)
    return get


def value_plan(type_: FieldType, class_of: ClassOf) -> ValuePlan:
    plan = ValuePlan(int(type_.kind), type_.name)
    if isinstance(type_, VectorType):
        plan.element = value_plan(type_.element, class_of)
    elif isinstance(type_, RefType):
        plan.target = type_.target
    elif isinstance(type_, EnumType):
        plan.member_class = class_of(type_)
        plan.members = {member.tag: member for member in plan.member_class}
        plan.small_tags = sum(1 << tag for tag in plan.members if 0 <= tag < 24)
    elif isinstance(type_, StructType):
        plan.struct = class_of(type_)._codec.plan
    elif type_.kind in INTEGER_RANGES:
        plan.low, plan.high = INTEGER_RANGES[type_.kind]
        bits = (plan.high - plan.low).bit_length()
        plan.info_max = {8: 24, 16: 25, 32: 26, 64: 27}[bits]
    return plan
