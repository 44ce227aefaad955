"""Makes the codec of a struct: tables where they are compiled, written functions where not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Protocol

from skerry.codec.generated import GeneratedCodec
from skerry.codec.hot_loops import StructLayout
from skerry.codec.pieces import Pieces
from skerry.codec.plans import FieldPlan, StructPlan, ValuePlan
from skerry.codec.tables import TableCodec
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import INTEGER_RANGES, EnumType, FieldType, RefType, StructType, VectorType

__all__ = [
    "ClassOf",
    "Codec",
    "compile_codec",
    "is_compiled",
    "make_plan",
    "value_plan",
    "values_getter",
]

ClassOf = Callable[[StructType | EnumType], Any]
"""Finds the Python class of a named type."""


class Codec(Protocol):
    """What can be done with objects of one struct and with their bytes."""

    @property
    def plan(self) -> StructPlan: ...
    @property
    def layout(self) -> StructLayout: ...
    @property
    def encode(self) -> Callable[[object], bytes]: ...
    @property
    def encode_only(self) -> Callable[[object, int], bytes]: ...
    @property
    def encode_key(self) -> Callable[[object], bytes]: ...
    @property
    def decode(self) -> Callable[[bytes], Any]: ...
    @property
    def decode_from(self) -> Callable[[bytes, int], tuple[Any, int]]: ...
    @property
    def split(self) -> Callable[..., Pieces]: ...
    @property
    def key(self) -> Callable[[bytes], bytes]: ...
    @property
    def key_of(self) -> Callable[[Pieces], bytes]: ...
    @property
    def normalize(self) -> Callable[[bytes], bytes]: ...
    @property
    def merge(self) -> Callable[[bytes, bytes, int], bytes]: ...


def is_compiled() -> bool:
    """Whether the modules that walk tables are machine code in this installation."""
    return not hasattr(TableCodec.encode_key, "__code__")


def compile_codec(plan: StructPlan) -> Codec:
    """The codec of a plan, of the kind that is the faster one here."""
    return TableCodec(plan) if is_compiled() else GeneratedCodec(plan)


def make_plan(
    struct: StructType, cls: Any, attributes: Mapping[str, str], class_of: ClassOf
) -> StructPlan:
    """The plan of a struct whose objects are of class `cls` with these Python names of fields."""
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
    """A function that gives these attributes of an object as a tuple."""
    if not attributes:
        return lambda _obj: ()
    get = attrgetter(*attributes)
    if len(attributes) == 1:
        # Of one name, attrgetter gives the bare value.
        return lambda obj: (get(obj),)
    return get


def value_plan(type_: FieldType, class_of: ClassOf) -> ValuePlan:
    """The plan of a value of this type alone."""
    plan = ValuePlan(int(type_.kind), type_.name)
    if isinstance(type_, VectorType):
        plan.element = value_plan(type_.element, class_of)
    elif isinstance(type_, RefType):
        plan.target = type_.target
    elif isinstance(type_, EnumType):
        plan.member_class = class_of(type_)
        plan.members = {member.tag: member for member in plan.member_class}
    elif isinstance(type_, StructType):
        plan.struct = class_of(type_)._codec.plan
    elif type_.kind in INTEGER_RANGES:
        plan.low, plan.high = INTEGER_RANGES[type_.kind]
        bits = (plan.high - plan.low).bit_length()
        plan.info_max = {8: 24, 16: 25, 32: 26, 64: 27}[bits]
    return plan
