"""Filters as they travel: which nodes a `where` becomes, and which mask a choice of fields."""

from __future__ import annotations

from typing import Any

import pytest

import skerry
from skerry.errors import FilterError
from skerry.limits import FILTER_BYTES_MAX, FILTER_DEPTH_MAX, FILTER_LIST_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.where.filter_tree import (
    FILTER_NODE_COUNT_MAX,
    FILTER_PATTERN_CHAR_COUNT_MAX,
)
from skerry.protocol.access.where.filters import compile_where, make_filter, uses_like

Vessel = skerry.define_types(
    """
enum Kind { 1: tug, 2: ferry }
struct Place { 1: float64 lat; }
struct Vessel {
    5: [key] uint32 mmsi;
    1: string name;
    2: float64 lat;
    3: Kind kind;
    4: duration age;
    6: bool active;
    7: int8 deck;
    8: Place place;
    9: vector<uint8> numbers;
    10: timepoint seen;
    11: uuid id;
    12: steady_timepoint up;
    13: string like;
}
"""
).Vessel
TYPE = Vessel.descriptor


def shown(where: str) -> str:
    """The nodes of a condition in the order in which they travel."""
    return " ".join(map(node_text, compile_where(where, TYPE).nodes))


def node_text(node: Any) -> str:
    if node.leaf is None:
        return f"{node.kind.label}/{node.arity}"
    parts = [str(node.leaf.propertyTag), node.leaf.op.label]
    if node.leaf.value is not None:
        fields = node.leaf.value.descriptor.fields
        slots = {f.name: getattr(node.leaf.value, f.name) for f in fields}
        parts += [f"{name}={value}" for name, value in slots.items() if value is not None]
    return f"[{' '.join(parts)}]"


@pytest.mark.parametrize(
    ("where", "nodes"),
    [
        ("lat > 50", "[2 gt floatVal=50.0]"),
        ("mmsi = 7", "[5 eq uintVal=7]"),
        ("deck != -1", "[7 neq intVal=-1]"),
        ("deck < 2.5", "[7 le intVal=2]"),
        ("name <= 'M'", "[1 le stringVal=M]"),
        ("kind = ferry", "[3 eq uintVal=2]"),
        ("active == true", "[6 eq boolVal=True]"),
        ("age >= '1 min'", "[4 ge durationVal=60.0]"),
        ("seen < '1970-01-01T00:01Z'", "[10 lt timepointVal=60.0]"),
        ("up > 2", "[12 gt floatVal=2.0]"),
        (
            "id > '00000000-0000-0000-0000-000000000001'",
            "[11 gt uuidVal=00000000-0000-0000-0000-000000000001]",
        ),
        ("lat is null", "[2 isNull]"),
        ("place is not null", "[8 notNull]"),
        ("numbers is null", "[9 isNull]"),
        ("mmsi in (1, 2)", "[5 isIn uintList=[1, 2]]"),
        ("deck not in (1)", "[7 notIn intList=[1]]"),
        ("lat in (1)", "[2 isIn floatList=[1.0]]"),
        ("kind in (tug, 'ferry')", "[3 isIn uintList=[1, 2]]"),
        ("name in ('a')", "[1 isIn stringList=['a']]"),
        ("seen in (1)", "[10 isIn timepointList=[1.0]]"),
        ("up in (1)", "[12 isIn floatList=[1.0]]"),
        ("age in (1)", "[4 eq durationVal=1.0]"),
        ("age in (1, 2)", "orOp/2 [4 eq durationVal=1.0] [4 eq durationVal=2.0]"),
        ("age not in (1, 2)", "andOp/2 [4 neq durationVal=1.0] [4 neq durationVal=2.0]"),
        ("active in (true, false)", "orOp/2 [6 eq boolVal=True] [6 eq boolVal=False]"),
        ("lat between 1 and 2", "andOp/2 [2 ge floatVal=1.0] [2 le floatVal=2.0]"),
        ("deck between 0.5 and 2.5", "andOp/2 [7 gt intVal=0] [7 le intVal=2]"),
        (
            "lat not between 1 and 2",
            "andOp/2 [2 notNull] notOp/1 andOp/2 [2 ge floatVal=1.0] [2 le floatVal=2.0]",
        ),
        ("name like 'M%'", "[1 like stringVal=M%]"),
        ("name not like 'M%'", "andOp/2 [1 notNull] notOp/1 [1 like stringVal=M%]"),
        ("not lat = 1", "notOp/1 [2 eq floatVal=1.0]"),
        (
            "lat = 1 and deck = 2 and (deck = 3 or mmsi = 4)",
            "andOp/3 [2 eq floatVal=1.0] [7 eq intVal=2] orOp/2 [7 eq intVal=3] [5 eq uintVal=4]",
        ),
        ("\"like\" like '%'", "[13 like stringVal=%]"),
    ],
)
def test_a_condition_becomes_nodes_in_pre_order(where: str, nodes: str) -> None:
    assert shown(where) == nodes


@pytest.mark.parametrize(
    ("where", "message", "hint"),
    [
        ("nmae = 'a'", "Vessel has no field nmae", "did you mean name?"),
        ("lat > name", "`name` is a field", "quotes"),
        ("active > true", "bool, which has no order", "`in`"),
        ("kind between tug and ferry", "Kind, which has no order", "`in`"),
        ("place = 1", "Place, which cannot be compared", "`is null`"),
        ("numbers in (1)", "vector<uint8>, which cannot be compared", "`is null`"),
        ("lat like '5%'", "`like` is for text", None),
        ("lat = null", "nothing equals null", "`lat is null`"),
    ],
)
def test_a_value_that_does_not_fit_the_type_is_refused(
    where: str, message: str, hint: str | None
) -> None:
    with pytest.raises(FilterError) as caught:
        compile_where(where, TYPE)
    assert message in str(caught.value)
    assert str(caught.value).startswith("where:1:")
    assert hint is None or hint in str(caught.value.hint)


def test_the_number_of_conditions_is_limited() -> None:
    most = [f"lat = {number}" for number in range(FILTER_NODE_COUNT_MAX - 1)]
    assert len(compile_where(" or ".join(most), TYPE).nodes) == FILTER_NODE_COUNT_MAX
    with pytest.raises(FilterError, match=f"the limit is {FILTER_NODE_COUNT_MAX}"):
        compile_where(" or ".join([*most, "lat = 0.5"]), TYPE)


def test_the_length_of_lists_is_limited() -> None:
    most = ", ".join(str(number) for number in range(FILTER_LIST_COUNT_MAX))
    [node] = compile_where(f"mmsi in ({most})", TYPE).nodes
    assert len(node.leaf.value.uintList) == FILTER_LIST_COUNT_MAX
    with pytest.raises(FilterError, match=f"the limit is {FILTER_LIST_COUNT_MAX}"):
        compile_where(f"mmsi in ({most}, 1)", TYPE)


def test_the_nesting_of_the_tree_is_bounded() -> None:
    # Each bracket with another word in it is a level of its own.
    where = "lat = 1"
    for level in range(FILTER_DEPTH_MAX - 1):
        where = f"({where}) {'and' if level % 2 else 'or'} lat = 2"
    compile_where(where, TYPE)
    with pytest.raises(FilterError, match=f"deeper than {FILTER_DEPTH_MAX}"):
        compile_where(f"not not (({where}))", TYPE)
    with pytest.raises(FilterError, match=f"deeper than {FILTER_DEPTH_MAX}"):
        compile_where(where.replace("lat = 1", "lat not between 1 and 2"), TYPE)


def test_bytes_and_patterns_are_bounded() -> None:
    with pytest.raises(FilterError, match=f"the limit is {FILTER_BYTES_MAX}"):
        compile_where(f"name = '{'é' * (FILTER_BYTES_MAX // 2)}'", TYPE)
    compile_where(f"name like '{'%' * FILTER_PATTERN_CHAR_COUNT_MAX}'", TYPE)
    with pytest.raises(FilterError, match=f"the limit is {FILTER_PATTERN_CHAR_COUNT_MAX}"):
        compile_where(f"name like '{'%' * (FILTER_PATTERN_CHAR_COUNT_MAX + 1)}'", TYPE)


def test_a_filter_has_only_the_requested_parts() -> None:
    assert int(make_filter(TYPE).attributes) == 0
    only_where = make_filter(TYPE, "lat > 1")
    assert only_where.predicate == compile_where("lat > 1", TYPE)
    assert only_where.propertyMask is None
    only_fields = make_filter(TYPE, fields=["lat", "name"])
    assert only_fields.predicate is None
    assert int(only_fields.propertyMask) == 1 << 5 | 1 << 2 | 1 << 1
    assert int(make_filter(TYPE, fields=[]).propertyMask) == 1 << 5


def test_a_filter_survives_its_way() -> None:
    made = make_filter(TYPE, "name like 'M%' and not mmsi in (1, 2)", ["lat"])
    assert internal_class("DotsFilter").decode(made.encode()) == made


def test_fields_that_are_not_there_are_refused() -> None:
    with pytest.raises(FilterError, match="Vessel has no field nmae") as caught:
        make_filter(TYPE, fields=["lat", "nmae"])
    assert caught.value.hint == "did you mean name?"
    with pytest.raises(TypeError, match="names of fields"):
        make_filter(TYPE, fields="lat")


def test_only_a_filter_with_like_needs_a_host_that_knows_it() -> None:
    assert uses_like(make_filter(TYPE, "lat > 1 or not (name like 'M%')"))
    assert not uses_like(make_filter(TYPE, "lat > 1"))
    assert not uses_like(make_filter(TYPE, fields=["lat"]))
    assert not uses_like(internal_class("DotsFilter")(predicate=internal_class("DotsPredicate")()))
