"""Conditions on encoded objects: each step alone, links between steps, and how little is read."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

import skerry
from skerry.engine.delivery import predicate
from skerry.engine.delivery.predicate import (
    ACCEPT,
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    IS_IN,
    IS_NULL,
    LESS,
    LESS_EQUAL,
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
from skerry.engine.delivery.query import compile_filter
from skerry.errors import DecodeError
from skerry.limits import FILTER_BYTES_MAX
from skerry.objects.base import codec_of
from skerry.objects.internal import internal_class
from skerry.protocol.access.where.filter_tree import LIKE
from skerry.protocol.access.where.filters import make_filter
from skerry.protocol.access.where.like_pattern import LikePattern

types = skerry.define_types(
    """
enum Color { 1: red, 300: green }
struct Inner { 1: string text; }
struct Thing {
    1: [key] uint32 id;
    2: string name;
    3: float64 size;
    4: bool active;
    5: Color color;
    6: uuid serial;
    7: int64 depth;
    8: Inner inner;
    9: vector<string> words;
    30: timepoint seen;
    31: float32 narrow;
}
"""
)
Thing = types.Thing
PLAN = codec_of(Thing).plan


def field(name: str) -> Any:
    return next(item for item in PLAN.fields if item.name == name)


def alone(step: Step) -> Predicate:
    step.if_true, step.if_false = ACCEPT, REJECT
    return Predicate(PLAN, step, [step])


def compared(name: str, op: int, bound: Any) -> Comparison:
    return Comparison(PLAN, field(name), op, bound)


def test_the_numbers_of_comparisons_are_those_that_travel() -> None:
    ours = {
        "eq": EQUAL,
        "neq": UNEQUAL,
        "lt": LESS,
        "le": LESS_EQUAL,
        "gt": GREATER,
        "ge": GREATER_EQUAL,
        "isIn": IS_IN,
        "notIn": NOT_IN,
        "isNull": IS_NULL,
        "notNull": NOT_NULL,
        "like": LIKE,
    }
    assert ours == {member.label: member.tag for member in internal_class("DotsCompareOp")}


@pytest.mark.parametrize(
    ("op", "below", "equal", "above"),
    [
        (EQUAL, False, True, False),
        (UNEQUAL, True, False, True),
        (LESS, True, False, False),
        (LESS_EQUAL, True, True, False),
        (GREATER, False, False, True),
        (GREATER_EQUAL, False, True, True),
    ],
)
def test_each_comparison_with_what_is_below_equal_and_above(
    op: int, below: bool, equal: bool, above: bool
) -> None:
    predicate = alone(compared("size", op, 2.0))
    found = [predicate.holds(Thing(id=1, size=size).encode()) for size in (1.0, 2.0, 3.0)]
    assert found == [below, equal, above]
    assert not predicate.holds(Thing(id=1).encode())


@pytest.mark.parametrize(
    ("name", "value", "bound"),
    [
        ("id", 2**32 - 1, 2**32 - 1),
        ("depth", -(2**63), -(2**63)),
        ("name", "é", "é".encode()),
        ("name", "", b""),
        ("name", "\udcff", b"\xff"),
        ("active", True, True),
        ("color", types.Color.green, 300),
        ("serial", UUID(int=5), UUID(int=5).bytes),
        ("seen", 1.5, 1.5),
        ("narrow", 0.5, 0.5),
        ("id", 2, 2.0),
        ("size", 2.0, 2),
    ],
)
def test_each_kind_is_read_as_what_it_is_compared_with(name: str, value: Any, bound: Any) -> None:
    obj = Thing(id=1, inner=types.Inner(text="x" * 30), words=["a"] * 30)
    setattr(obj, name, value)
    assert alone(compared(name, EQUAL, bound)).holds(obj.encode())
    assert not alone(compared(name, UNEQUAL, bound)).holds(obj.encode())
    among = InList(PLAN, field(name), frozenset([bound]), True)
    assert alone(among).holds(obj.encode())


def test_numbers_are_compared_as_in_mathematics_not_as_floats() -> None:
    large = 2**53 + 1
    assert not alone(compared("size", EQUAL, large)).holds(Thing(size=2.0**53).encode())
    assert alone(compared("size", LESS, large)).holds(Thing(size=2.0**53).encode())
    assert alone(compared("depth", GREATER, 2.0**53)).holds(Thing(depth=large).encode())


def test_whether_a_field_is_set_can_be_asked_of_any_kind() -> None:
    for name in ("inner", "words", "name"):
        is_set = alone(IsSet(PLAN, field(name), True))
        is_unset = alone(IsSet(PLAN, field(name), False))
        full = Thing(inner=types.Inner(), words=[], name="").encode()
        assert (is_set.holds(full), is_unset.holds(full)) == (True, False)
        assert (is_set.holds(b"\xa0"), is_unset.holds(b"\xa0")) == (False, True)


def test_a_field_is_among_values_or_is_not_and_unset_is_neither() -> None:
    wanted = alone(InList(PLAN, field("id"), frozenset([1, 2]), True))
    unwanted = alone(InList(PLAN, field("id"), frozenset([1, 2]), False))
    for obj, is_in, is_not_in in [
        (Thing(id=1), True, False),
        (Thing(id=3), False, True),
        (Thing(), False, False),
    ]:
        assert (wanted.holds(obj.encode()), unwanted.holds(obj.encode())) == (is_in, is_not_in)


def test_text_fits_a_pattern() -> None:
    predicate = alone(Fit(PLAN, field("name"), LikePattern("M%")))
    assert predicate.holds(Thing(name="Maria").encode())
    assert not predicate.holds(Thing(name="maria").encode())
    assert not predicate.holds(Thing().encode())


def test_text_is_compared_to_its_last_byte() -> None:
    payload = Thing(name="x" * 1000 + "a", size=1.0).encode()
    assert alone(compared("name", EQUAL, b"x" * 1000 + b"a")).holds(payload)
    assert alone(compared("name", UNEQUAL, b"x" * 1000 + b"b")).holds(payload)
    assert alone(compared("name", GREATER, b"x" * 1000)).holds(payload)
    assert alone(compared("name", LESS, b"x" * 1000 + b"b")).holds(payload)


def test_of_a_long_text_only_what_decides_is_read() -> None:
    longest = b"a" * FILTER_BYTES_MAX
    longer = Thing(name="a" * FILTER_BYTES_MAX + "b" * 1000).encode()
    assert alone(compared("name", GREATER, longest)).holds(longer)
    assert not alone(compared("name", EQUAL, longest)).holds(longer)
    assert alone(compared("name", EQUAL, longest)).holds(Thing(name=longest.decode()).encode())


def test_steps_follow_each_other_by_their_answers() -> None:
    size, name = compared("size", GREATER, 1.0), compared("name", EQUAL, b"a")
    size.if_true, size.if_false = name, REJECT
    name.if_true, name.if_false = ACCEPT, REJECT
    both = Predicate(PLAN, size, [size, name])
    assert both.mask == 1 << 3 | 1 << 2
    assert both.holds(Thing(size=2.0, name="a").encode())
    assert not both.holds(Thing(size=2.0, name="b").encode())
    assert not both.holds(Thing(size=1.0, name="a").encode())


def test_fields_are_found_in_any_order_among_unknown_ones() -> None:
    # {40: [1, "x"], 31: 0.5, 3: 2.5, 2: "a"}: the wire may have more, and in another order.
    data = bytes.fromhex("a4 1828 82 01 6178 181f fa3f000000 03 fb4004000000000000 02 6161")
    assert alone(compared("name", EQUAL, b"a")).holds(data)
    assert alone(compared("narrow", EQUAL, 0.5)).holds(data)
    assert alone(compared("size", EQUAL, 2.5)).holds(data)
    assert not alone(IsSet(PLAN, field("id"), True)).holds(data)


@pytest.mark.parametrize(
    "data", ["", "01", "a1", "a102", "a2 01 01", "a1 02 62 61", "a1 02 05", "b820", "a2 01 19 00"]
)
def test_bytes_that_are_not_an_object_raise_an_error(data: str) -> None:
    predicate = alone(compared("name", EQUAL, b"a"))
    with pytest.raises(DecodeError):
        predicate.holds(bytes.fromhex(data))


def test_an_end_of_a_condition_has_no_result() -> None:
    with pytest.raises(AssertionError, match="an end of a condition"):
        ACCEPT.holds(b"", 0)
    assert REJECT.is_end


def test_a_long_text_is_read_once_for_all_conditions() -> None:
    cls = skerry.define_types("struct Page { 1: [key] uint32 id; 2: string a; 3: string b; }").Page
    texts = ["a = 'x'", "a like 'y%'", "a > 'yx'", "b = 'z'", "a in ('x', 'y')", "b like 'z%'"]
    queries = [compile_filter(make_filter(cls.descriptor, text), cls.descriptor) for text in texts]
    before = predicate._last_text.read_count
    data = cls(id=1, a="y" * 3000, b="z").encode()
    for _ in range(3):
        found = [query.matches(data) for query in queries]
        assert found == [False, True, True, True, False, True]
    assert predicate._last_text.read_count == before + 1
    other = cls(id=1, a="x" * 3000, b="z" * 3000).encode()
    assert [query.matches(other) for query in queries] == [False] * 5 + [True]
    assert [query.matches(data) for query in queries] == found


def test_a_large_object_is_searched_once_for_all_conditions() -> None:
    large = skerry.define_types(
        "struct Large { 1: [key] uint32 id; 2: vector<uint32> values; 3: int32 last; 4: bool no; }"
    ).Large
    data = large(id=1, values=[1] * 10_000, last=5).encode()
    conditions = [
        "last = 5",
        "last > 7",
        "id = 1",
        "no is null",
        "no = true",
        "id = 2",
    ]
    queries = [
        compile_filter(make_filter(large.descriptor, text), large.descriptor) for text in conditions
    ]
    before = predicate._last_large.search_count
    expected = [True, False, True, True, False, False]
    for _ in range(3):
        assert [query.matches(data) for query in queries] == expected
    assert predicate._last_large.search_count == before + 1
    other = large(id=2, values=[2] * 10_000, last=9, no=True).encode()
    assert [query.matches(other) for query in queries] == [False, True, False, False, True, True]
    assert [query.matches(data) for query in queries] == expected
