"""From the definition of a type to its plan."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.codec.compile import (
    make_plan,
    value_plan,
    values_getter,
)
from skerry.objects.typeset import TypeSet
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import Kind, RefType, ScalarType, VectorType


def nothing(type_: Any) -> Any:
    raise AssertionError(f"{type_} needs no class")


@pytest.mark.parametrize("kind", [kind for kind in Kind if Kind.INT8 <= kind <= Kind.UINT64])
def test_integers_have_the_range_of_their_name(kind: Kind) -> None:
    plan = value_plan(ScalarType(kind), nothing)
    bits = int(kind.name.lstrip("UINT"))
    is_signed = kind.name.startswith("INT")
    assert plan.low == (-(2 ** (bits - 1)) if is_signed else 0)
    assert plan.high == (2 ** (bits - 1) - 1 if is_signed else 2**bits - 1)
    assert plan.info_max == {8: 24, 16: 25, 32: 26, 64: 27}[bits]


def test_a_property_set_is_a_number_of_32_bits() -> None:
    plan = value_plan(ScalarType(Kind.PROPERTY_SET), nothing)
    assert (plan.low, plan.high, plan.info_max) == (0, 2**32 - 1, 26)


def test_plans_of_other_values(types: TypeSet) -> None:
    def class_of(type_: Any) -> Any:
        return types[type_.name]

    vector = value_plan(VectorType(ScalarType(Kind.BOOL)), nothing)
    assert vector.name == "vector<bool>"
    assert vector.element is not None
    assert vector.element.kind == Kind.BOOL
    assert value_plan(RefType("T"), nothing).target == "T"
    assert value_plan(RefType(), nothing).target is None
    color = value_plan(types.Color.descriptor, class_of)
    assert color.members == {1: types.Color.red, 2: types.Color.green, 200: types.Color.blue}
    inner = value_plan(types.Inner.descriptor, class_of)
    assert inner.struct is types.Inner._codec.plan


def test_a_plan_of_a_struct(types: TypeSet) -> None:
    names = {"text": "a", "second": "b", "first": "c", "value": "d"}
    plan = make_plan(types.Keyed.descriptor, object, names, nothing)
    assert [(field.name, field.attribute) for field in plan.fields] == list(names.items())
    assert [field.name for field in plan.keys] == ["first", "second"]
    assert plan.fingerprint == fingerprint(types.Keyed.descriptor)
    assert plan.mask == types.Keyed.descriptor.mask
    assert plan.key_mask == types.Keyed.descriptor.key_mask


def test_values_are_a_tuple_of_any_length(types: TypeSet) -> None:
    obj = types.Keyed(first=1, text="t")
    assert values_getter([])(obj) == ()
    assert values_getter(["first"])(obj) == (1,)
    assert values_getter(["text", "first"])(obj) == ("t", 1)
