"""The union of compatible definitions of one type."""

from __future__ import annotations

from itertools import pairwise

import pytest

from skerry.limits import TYPE_DEPTH_MAX
from skerry.schema.changes import Change, What
from skerry.schema.check import define
from skerry.schema.model import EnumType, NamedType, StructType
from skerry.schema.union import covers, obstacle, reads_all, unite, unite_deep


def types(text: str) -> dict[str, NamedType]:
    return {type_.name: type_ for type_ in define(text).types}


def boat(fields: str, options: str = "") -> StructType:
    found = types(f"struct Boat {options} {{ 1: [key] uint32 id; {fields} }}")["Boat"]
    assert isinstance(found, StructType)
    return found


OLD = boat("2: string name;")
GROWN = boat("2: string name; 3: float64 length;")
TAGGED = boat("2: string name; 4: bool is_new;")


def test_a_union_has_the_fields_of_both() -> None:
    for one, other in ((OLD, GROWN), (GROWN, OLD)):
        assert obstacle(one, other) is None
        assert unite(one, other) == GROWN
    united = unite(GROWN, TAGGED)
    assert isinstance(united, StructType)
    assert [field.tag for field in united.fields] == [1, 2, 3, 4]
    assert covers(united, GROWN)
    assert covers(united, TAGGED)
    assert not covers(GROWN, TAGGED)


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (boat("2: int32 name;"), What.TYPE_CHANGED),
        (boat("5: string name;"), What.FIELD_RETAGGED),
        (boat("2: string name; 3: [key] uint32 part;"), What.KEY_ADDED),
        (types("enum Boat { 1: sloop }")["Boat"], What.TYPE_REPLACED),
    ],
)
def test_a_difference_that_breaks_readers_is_an_obstacle(other: NamedType, what: What) -> None:
    found = obstacle(OLD, other)
    assert found is not None
    assert found.what is what
    assert not covers(OLD, other)


def test_a_union_has_the_wider_type() -> None:
    narrow, wide = boat("2: uint8 crew;"), boat("2: uint32 crew;")
    assert unite(narrow, wide) == unite(wide, narrow) == wide
    assert covers(wide, narrow)
    assert not covers(narrow, wide)


def test_a_union_has_all_elements_of_an_enum() -> None:
    one, other = (types(f"enum Rig {{ {text} }}")["Rig"] for text in ("1: sloop", "2: ketch"))
    united = unite(one, other)
    assert isinstance(united, EnumType)
    assert [element.name for element in united.elements] == ["sloop", "ketch"]


def test_objects_are_kept_if_either_definition_keeps_them() -> None:
    kept, swept = boat("", "[persistent]"), boat("", "[cleanup]")
    for united in (unite(kept, swept), unite(swept, kept)):
        assert isinstance(united, StructType)
        assert united.flags.persistent
        assert not united.flags.cleanup


def test_parts_that_contain_each_other_in_both_orders_cannot_be_united() -> None:
    one = types("struct C { 1: bool c; } struct B { 1: C c; } struct A { 1: B b; }")["A"]
    other = types("struct B { 2: bool b; } struct C { 2: B b; } struct A { 2: C c; }")["A"]
    assert isinstance(one, StructType)
    assert isinstance(other, StructType)
    for left, right in ((one, other), (other, one)):
        found = unite_deep(left, right)
        assert isinstance(found, Change)
        assert "contain itself" in str(found)


def test_parts_that_together_nest_too_deep_cannot_be_united() -> None:
    def chain(names: list[str], tag: int) -> StructType:
        text = f"struct {names[0]} {{ 1: bool a; }}" + "".join(
            f" struct {name} {{ 1: bool a; {tag}: {inner} b{tag}; }}"
            for inner, name in pairwise(names)
        )
        found = types(text)[names[-1]]
        assert isinstance(found, StructType)
        return found

    half = TYPE_DEPTH_MAX // 2
    lower = chain([f"L{n}" for n in range(half)] + ["M", "T"], 2)
    upper = chain(["M"] + [f"U{n}" for n in range(half)] + ["T"], 3)
    found = unite_deep(lower, upper)
    assert isinstance(found, Change)
    assert f"over {TYPE_DEPTH_MAX} deep" in str(found)


def test_a_union_has_the_fewest_restrictions() -> None:
    free, bound = boat("2: bool a;"), boat("3: bool b;", "[substruct_only, local]")
    for one, other in ((free, bound), (bound, free)):
        assert obstacle(one, other) is None
        united = unite(one, other)
        assert isinstance(united, StructType)
        assert not united.flags.substruct_only
        assert not united.flags.local


def test_a_union_does_not_cover_a_definition_of_wider_scope() -> None:
    near, far = boat("2: bool a;"), boat("2: bool a;", '[scope="global"]')
    assert covers(far, near)
    assert not covers(near, far)


def test_parts_are_united_with_the_types_that_use_them() -> None:
    text = "struct Place {{ {} }} struct Boat {{ 1: [key] uint32 id; 3: Place place; {} }}"
    one = types(text.format("1: float64 lat;", "4: bool a;"))["Boat"]
    other = types(text.format("2: float64 lon;", "5: bool b;"))["Boat"]
    assert isinstance(one, StructType)
    assert isinstance(other, StructType)
    united = unite_deep(one, other)
    assert isinstance(united, StructType)
    assert [field.tag for field in united.fields] == [1, 3, 4, 5]
    place = united.field("place").type
    assert isinstance(place, StructType)
    assert [field.name for field in place.fields] == ["lat", "lon"]
    assert reads_all(united, one)
    assert reads_all(one, united)
    broken = types(text.format("1: string lat;", ""))["Boat"]
    assert isinstance(broken, StructType)
    assert isinstance(unite_deep(one, broken), Change)
    assert not reads_all(one, broken)
