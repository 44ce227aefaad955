"""Queries: filters that compile, all those that must not, matching, and cutting to the mask."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

import skerry
from skerry.engine.delivery.query import ALL_FIELDS, Query, compile_filter
from skerry.errors import FilterError
from skerry.limits import FILTER_LIST_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.where.filter_tree import FILTER_NODE_COUNT_MAX
from skerry.protocol.access.where.filters import make_filter

types = skerry.define_types(
    """
enum Kind { 1: tug, 20: ferry }
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
    13: float32 narrow;
    14: bytes blob;
}
"""
)
Vessel = types.Vessel
TYPE = Vessel.descriptor

Kind = internal_class("DotsPredicateKind")
Op = internal_class("DotsCompareOp")
Node = internal_class("DotsPredicateNode")
Leaf = internal_class("DotsPredicateLeaf")
Value = internal_class("DotsPredicateValue")
Predicate = internal_class("DotsPredicate")
Filter = internal_class("DotsFilter")


def query(where: str | None = None, fields: list[str] | None = None) -> Query:
    return compile_filter(make_filter(TYPE, where, fields), TYPE)


def compiled(*nodes: Any) -> Query:
    """The query of nodes that came over the wire."""
    sent = Filter(predicate=Predicate(nodes=list(nodes))).encode()
    return compile_filter(Filter.decode(sent), TYPE)


def leaf(tag: int | None, op: Any, **value: Any) -> Any:
    asked = Value(**value) if value else None
    return Node(kind=Kind.leaf, leaf=Leaf(propertyTag=tag, op=op, value=asked))


MARIA = Vessel(mmsi=7, name="Maria", lat=52.1, kind=types.Kind.ferry, deck=-3, age=90.0, up=4.0)


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        ("lat > 50 and name like 'M%'", True),
        ("lat > 50 and name like 'N%'", False),
        ("lat < 50 or name like 'M%'", True),
        ("not (lat > 50)", False),
        ("not (lat < 50 or deck = 3)", True),
        ("kind = ferry", True),
        ("kind in (tug)", False),
        ("kind != 'tug'", True),
        ("deck between -3.5 and -2.5", True),
        ("deck not between -5 and 0", False),
        ("age >= '1.5 min'", True),
        ("up = 4", True),
        ("active = true", False),
        ("active != true", False),
        ("not active = true", True),
        ("active not in (true, false)", False),
        ("id not in ('00000000-0000-0000-0000-000000000001')", False),
        ("narrow not between 1 and 2", False),
        ("place is null and numbers is null", True),
        ("mmsi in (1, 7, 9)", True),
        ("mmsi not in (1, 7, 9)", False),
    ],
)
def test_objects_match_by_their_bytes(where: str, matches: bool) -> None:
    assert query(where).matches(MARIA.encode()) is matches


def test_without_a_condition_every_object_matches() -> None:
    assert query().matches(MARIA.encode())
    assert query(fields=["lat"]).matches(b"\xa0")


def test_numbers_in_any_slot_are_compared_as_in_mathematics() -> None:
    assert compiled(leaf(2, Op.gt, intVal=52)).matches(MARIA.encode())
    assert compiled(leaf(7, Op.gt, floatVal=-3.5)).matches(MARIA.encode())
    assert compiled(leaf(5, Op.gt, intVal=-1)).matches(MARIA.encode())
    assert compiled(leaf(7, Op.lt, uintVal=2**64 - 1)).matches(MARIA.encode())
    assert compiled(leaf(7, Op.isIn, floatList=[0.5, -3.0])).matches(MARIA.encode())
    assert compiled(leaf(7, Op.lt, floatVal=float("inf"))).matches(MARIA.encode())


def test_elements_of_enums_are_compared_as_tags_in_either_integer_slot() -> None:
    assert compiled(leaf(3, Op.eq, uintVal=20)).matches(MARIA.encode())
    assert compiled(leaf(3, Op.eq, intVal=20)).matches(MARIA.encode())
    assert compiled(leaf(3, Op.isIn, uintList=[1, 20])).matches(MARIA.encode())
    assert compiled(leaf(3, Op.isIn, intList=[20])).matches(MARIA.encode())


def test_null_is_asked_with_no_value_or_an_empty_one() -> None:
    empty = Node(kind=Kind.leaf, leaf=Leaf(propertyTag=8, op=Op.isNull, value=Value()))
    assert compiled(empty).matches(MARIA.encode())
    assert compiled(leaf(8, Op.isNull)).matches(MARIA.encode())


NAN = float("nan")


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (leaf(31, Op.eq, intVal=1), "no field with tag 31"),
        (leaf(0, Op.isNull), "no field with tag 0"),
        (leaf(32, Op.isNull), "no field with tag 32"),
        (leaf(2**32 - 1, Op.isNull), "no field with tag 4294967295"),
        (leaf(None, Op.eq, intVal=1), "no field with tag None"),
        (leaf(2, None, floatVal=1.0), "no comparison"),
        (leaf(2, Op.eq), "one value is needed, found 0"),
        (leaf(2, Op.eq, floatVal=1.0, intVal=1), "one value is needed, found 2"),
        (leaf(2, Op.eq, stringVal="1"), "float64 is not compared with stringVal"),
        (leaf(2, Op.eq, durationVal=1.0), "not compared with durationVal"),
        (leaf(2, Op.eq, floatList=[1.0]), "not compared with floatList"),
        (leaf(2, Op.isIn, floatVal=1.0), "not compared with floatVal"),
        (leaf(1, Op.eq, intVal=1), "string is not compared with intVal"),
        (leaf(3, Op.eq, stringVal="tug"), "Kind is not compared with stringVal"),
        (leaf(3, Op.eq, floatVal=1.0), "Kind is not compared with floatVal"),
        (leaf(3, Op.eq, uintVal=2), "Kind has no element with tag 2"),
        (leaf(3, Op.isIn, intList=[1, -1]), "Kind has no element with tag -1"),
        (leaf(3, Op.lt, uintVal=1), "Kind has no order"),
        (leaf(4, Op.eq, floatVal=1.0), "duration is not compared with floatVal"),
        (leaf(4, Op.isIn, floatList=[1.0]), "duration is not compared with floatList"),
        (leaf(6, Op.eq, uintVal=1), "bool is not compared with uintVal"),
        (leaf(6, Op.ge, boolVal=True), "bool has no order"),
        (leaf(6, Op.isIn, boolVal=True), "not compared with boolVal"),
        (leaf(8, Op.eq, intVal=1), "Place is not compared"),
        (leaf(9, Op.isIn, uintList=[1]), "vector<uint8> is not compared"),
        (leaf(14, Op.eq, stringVal="x"), "bytes is not compared"),
        (leaf(10, Op.eq, floatVal=1.0), "timepoint is not compared with floatVal"),
        (leaf(11, Op.eq, stringVal="x"), "uuid is not compared with stringVal"),
        (leaf(12, Op.eq, timepointVal=1.0), "steady_timepoint is not compared with timepointVal"),
        (leaf(2, Op.lt, floatVal=NAN), "a number that is none"),
        (leaf(7, Op.lt, floatVal=NAN), "a number that is none"),
        (leaf(10, Op.eq, timepointVal=NAN), "a number that is none"),
        (leaf(4, Op.neq, durationVal=NAN), "a number that is none"),
        (leaf(2, Op.isIn, floatList=[1.0, NAN]), "a number that is none"),
        (leaf(2, Op.isIn, floatList=[]), "an empty list"),
        (leaf(1, Op.notIn, stringList=[]), "an empty list"),
        (leaf(2, Op.isNull, floatVal=1.0), "asked without a value"),
        (leaf(2, Op.like, floatVal=1.0), "`like` is for text"),
        (leaf(1, Op.like, stringList=["a"]), "not compared with stringList"),
        (leaf(1, Op.like, stringVal="a\\"), "ends with"),
        (leaf(1, Op.like, stringVal="\udcff"), "not UTF-8"),
        (Node(kind=Kind.leaf), "has no leaf"),
        (Node(kind=Kind.notOp, arity=1), "ends before"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(node: Any, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        compiled(node)


def test_an_empty_condition_is_refused() -> None:
    for predicate in (Predicate(), Predicate(nodes=[])):
        with pytest.raises(FilterError, match="without nodes"):
            compile_filter(Filter(predicate=predicate), TYPE)


def test_a_condition_of_all_the_nodes_there_may_be_works() -> None:
    count = FILTER_NODE_COUNT_MAX - 1
    head = Node(kind=Kind.orOp, arity=count)
    last = leaf(1, Op.eq, stringVal="Maria")
    most = [leaf(2, Op.eq, floatVal=float(n)) for n in range(count - 1)]
    assert compiled(head, *most, last).matches(MARIA.encode())


def test_lists_up_to_their_limit_are_accepted() -> None:
    most = list(range(FILTER_LIST_COUNT_MAX))
    assert compiled(leaf(5, Op.isIn, uintList=most)).matches(MARIA.encode())
    with pytest.raises(FilterError, match=f"the limit is {FILTER_LIST_COUNT_MAX}"):
        compiled(leaf(5, Op.isIn, uintList=[*most, 1]))


def test_text_is_compared_by_its_bytes_also_where_it_is_not_utf8() -> None:
    odd = Vessel(mmsi=1, name="\udcff").encode()
    assert compiled(leaf(1, Op.eq, stringVal="\udcff")).matches(odd)
    assert compiled(leaf(1, Op.gt, stringVal="\U0010ffff")).matches(odd)


def test_uuids_are_ordered_like_their_text() -> None:
    payload = Vessel(mmsi=1, id=UUID(int=2**64)).encode()
    assert compiled(leaf(11, Op.gt, uuidVal=UUID(int=2**64 - 1))).matches(payload)
    assert compiled(leaf(11, Op.isIn, uuidList=[UUID(int=2**64)])).matches(payload)


# -- projections


def test_without_a_choice_of_fields_everything_passes_untouched() -> None:
    whole = query("lat > 1")
    payload = MARIA.encode()
    assert whole.mask == ALL_FIELDS
    projected, attributes = whole.project(payload, 0xFFFFFFFF)
    assert projected is payload
    assert attributes == 0xFFFFFFFF


def test_a_choice_of_fields_cuts_payload_and_property_set() -> None:
    chosen = query(fields=["lat", "name", "place"])
    assert chosen.mask == 1 << 5 | 1 << 2 | 1 << 1 | 1 << 8
    payload, attributes = chosen.project(MARIA.encode(), int(MARIA.attributes))
    assert payload == Vessel(mmsi=7, name="Maria", lat=52.1).encode()
    assert attributes == 1 << 5 | 1 << 2 | 1 << 1


def test_a_cleared_field_stays_in_the_property_set() -> None:
    update = Vessel(mmsi=7, deck=1)
    payload, attributes = query(fields=["lat"]).project(update.encode(), 1 << 5 | 1 << 2 | 1 << 7)
    assert payload == Vessel(mmsi=7).encode()
    assert attributes == 1 << 5 | 1 << 2


def test_the_key_is_always_wanted_and_fields_that_the_type_may_get_can_be() -> None:
    assert compile_filter(Filter(propertyMask=0), TYPE).mask == 1 << 5
    assert compile_filter(Filter(propertyMask=2**31 | 4), TYPE).mask == 2**31 | 1 << 5 | 1 << 2
    payload = MARIA.encode()
    assert compile_filter(Filter(propertyMask=2**32 - 1), TYPE).project(payload, 4)[0] is payload


def test_fields_come_out_in_declaration_order() -> None:
    # lat before the key, which the type declares first.
    data = bytes.fromhex("a3 02 fb404a0ccccccccccd 01 614d 05 07")
    payload, _ = query(fields=["lat"]).project(data, 0xFF)
    assert payload == Vessel(mmsi=7, lat=52.1).encode()


def test_a_query_cares_for_what_it_reads_and_what_it_gives() -> None:
    mmsi, name, lat, deck = (1 << TYPE.field(f).tag for f in ("mmsi", "name", "lat", "deck"))
    chosen = query("lat > 1", ["name"])
    assert chosen.cares(mmsi | lat)
    assert chosen.cares(mmsi | name)
    assert not chosen.cares(mmsi | deck)
    assert not chosen.cares(mmsi)
    assert query().cares(mmsi | deck)
    assert not query().cares(mmsi)
