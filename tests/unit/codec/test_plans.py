"""Plans: tables of a type, and how values and bytes are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.codec import kinds, plans
from skerry.codec.plans import FieldPlan, StructPlan, ValuePlan
from skerry.errors import DecodeError, EncodeError
from skerry.limits import PAYLOAD_BYTES_MAX, TAG_MAX
from skerry.objects.typeset import TypeSet
from skerry.schema.model import Kind

CONSTANTS = {name: value for name, value in vars(kinds).items() if name in Kind.__members__}


def test_numbers_of_kinds_are_those_of_the_model() -> None:
    assert {name: Kind[name].value for name in CONSTANTS} == CONSTANTS
    assert {"BOOL", "INT8", "UINT8", "UINT64", "FLOAT64", "STRUCT", "VECTOR"} <= set(CONSTANTS)


def test_kinds_of_a_range_are_consecutive() -> None:
    integers = [kind for kind in Kind if kinds.INT8 <= kind <= kinds.UINT64]
    assert [kind.name for kind in integers] == [
        *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
    ]
    floats = [kind for kind in Kind if kinds.FLOAT16 <= kind <= kinds.FLOAT64]
    assert [kind.name for kind in floats] == ["FLOAT16", "FLOAT32", "FLOAT64"]
    times = [kind for kind in Kind if kinds.TIMEPOINT <= kind <= kinds.DURATION]
    assert [kind.name for kind in times] == ["TIMEPOINT", "STEADY_TIMEPOINT", "DURATION"]


def test_a_tag_table_has_room_for_every_tag() -> None:
    assert plans.TAG_COUNT == TAG_MAX + 1


def plan_with(*tags: int, keys: tuple[int, ...] = ()) -> StructPlan:
    value = ValuePlan(int(Kind.BOOL), "bool")
    fields = [FieldPlan(tag, f"f{tag}", f"f{tag}", tag in keys, value) for tag in tags]
    return StructPlan("T", object, fields, None)


def test_fields_keep_declaration_order_and_keys_are_in_tag_order() -> None:
    plan = plan_with(31, 2, 7, 1, keys=(7, 2))
    assert [int(field.index) for field in plan.fields] == [0, 1, 2, 3]
    assert [int(field.tag) for field in plan.keys] == [2, 7]
    assert plan.by_tag[31] is plan.fields[0]
    assert plan.by_tag[3] is None


@pytest.mark.parametrize("tag", [1, 23, 24, 30, 31])
def test_a_mask_has_the_bit_of_each_tag(tag: int) -> None:
    plan = plan_with(tag, keys=(tag,))
    assert plan.mask == plan.key_mask == 1 << tag
    assert plan.fields[0].bit == 1 << tag


def test_a_mask_of_all_tags_is_not_negative() -> None:
    assert plan_with(*range(1, 32)).mask == 0xFFFFFFFE


@pytest.mark.parametrize(("tag", "head"), [(1, "01"), (23, "17"), (24, "1818"), (31, "181f")])
def test_the_head_of_a_tag_is_the_shortest(tag: int, head: str) -> None:
    assert plan_with(tag).fields[0].head.hex() == head


def test_refusals_name_type_field_and_place(types: TypeSet) -> None:
    plan: Any = types.Single._codec.plan
    with pytest.raises(EncodeError, match=r"^Single\.id: no$"):
        plans.refuse_value(plan, plan.fields[0], "no")
    with pytest.raises(DecodeError, match=r"^Single\.id: no at byte 7$"):
        plans.refuse_bytes(plan, plan.fields[0], "no", 7)
    with pytest.raises(DecodeError, match=r"^Single: no at byte 0$"):
        plans.refuse_bytes(plan, None, "no", 0)
    with pytest.raises(EncodeError, match=rf"^Single: 9 bytes .* limit is {PAYLOAD_BYTES_MAX}$"):
        plans.refuse_size(plan, 9)


def test_values_are_shown_shortly_also_those_that_python_does_not_print() -> None:
    assert plans.shown(5) == "5"
    assert plans.shown("x" * 100) == "'" + "x" * 59
    assert plans.shown(10**5000) == "a number with too many digits"
