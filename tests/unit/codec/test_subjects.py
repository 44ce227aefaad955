"""Default subjects: the type, and one level for each key field in tag order."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from skerry.codec.subjects import (
    NO_KEY,
    default_pattern,
    default_subject,
    key_parts,
    short_subject,
)
from skerry.codec.values import PropertySet, Ref
from skerry.limits import SUBJECT_CHAR_COUNT_MAX
from skerry.objects.base import key_of
from skerry.objects.classes import class_of
from skerry.objects.typeset import TypeSet, define_types
from skerry.protocol.patterns import check_pattern, check_subject, covers
from skerry.schema.model import Field, Kind, ScalarType, StructType


def subject(obj: Any) -> str:
    return subject_of(type(obj), obj.encode())


def subject_of(cls: Any, data: bytes) -> str:
    codec = cls._codec
    return default_subject(codec.plan, codec.split(data))


def test_levels_are_in_tag_order(types: TypeSet) -> None:
    assert subject(types.Keyed(second="b", first=1, text="t")) == "/Keyed/1/b"


def test_long_levels_are_cut_where_only_patterns_are_compared(types: TypeSet) -> None:
    def short(text: str) -> str:
        codec: Any = types.Keyed._codec
        return short_subject(codec.plan, codec.split(types.Keyed(first=1, second=text).encode()))

    assert short("b/c") == "/Keyed/1/b%2Fc"
    text = "/" * SUBJECT_CHAR_COUNT_MAX
    assert short(text[:1000]) == subject(types.Keyed(first=1, second=text[:1000]))
    cut = short(text * 1000)
    assert SUBJECT_CHAR_COUNT_MAX < len(cut) < 3 * SUBJECT_CHAR_COUNT_MAX
    assert covers("/Keyed/1/*", cut)
    assert covers("/Keyed/...", cut)


def test_a_type_without_a_key_is_one_level(types: TypeSet) -> None:
    assert subject(types.Singleton(text="x")) == "/Singleton"


@pytest.mark.parametrize(
    ("kind", "value", "level"),
    [
        ("uint64", 2**64 - 1, "18446744073709551615"),
        ("int8", -128, "-128"),
        ("bool", True, "true"),
        ("bool", False, "false"),
        ("uuid", UUID(int=0xABC), "00000000-0000-0000-0000-000000000abc"),
        ("string", "plain-Text_1.x", "plain-Text_1.x"),
        ("string", "", ""),
        ("string", "a b/c", "a%20b%2Fc"),
        ("string", "*", "%2A"),
        ("string", "...", "%2E%2E%2E"),
        ("string", "..", ".."),
        ("string", "....", "...."),
        ("string", "~f6", "%7Ef6"),
        ("string", "100%", "100%25"),
        ("string", "ü", "%C3%BC"),
        ("string", "\udcff", "%FF"),
        ("string", "…", "%E2%80%A6"),
        ("float64", 1.5, "~fb3ff8000000000000"),
        ("float32", 1.5, "~fa3fc00000"),
        ("timepoint", 0.0, "~fb0000000000000000"),
        ("bytes", b"\x00", "~4100"),
        ("property_set", PropertySet(6), "~06"),
        ("vector<uint8>", [1, 255], "~820118ff"),
        ("instance_ref", Ref("T", b"\x81\x05"), "~8261548105"),
    ],
)
def test_a_level_of_every_kind(kind: str, value: Any, level: str) -> None:
    cls = define_types(f"struct T {{ 1: [key] {kind} k; }}").T
    assert subject(cls(k=value)) == f"/T/{level}"


def test_the_level_of_an_element_is_its_name() -> None:
    types = define_types("enum E { 1: None, 2: other = 5 } struct T { 1: [key] E e; }")
    assert subject(types.T(e=types.E.None_)) == "/T/None"
    assert subject(types.T(e=types.E.other)) == "/T/other"


def test_a_struct_as_key_is_hex(types: TypeSet) -> None:
    cls = define_types("struct N { 1: uint8 x; } struct T { 1: [key] N n; }")
    assert subject(cls.T(n=cls.N(x=5))) == "/T/~a10105"


def test_the_form_on_the_wire_makes_no_difference() -> None:
    cls = define_types("struct T { 1: [key] float64 k; 2: [key] uint32 n; }").T
    exact = cls(k=1.5, n=1)
    other = bytes.fromhex("a202180101f93e00")
    assert cls.decode(other) == exact
    assert subject_of(cls, other) == subject(exact) == "/T/~fb3ff8000000000000/1"


def test_the_level_of_a_missing_key_is_unique() -> None:
    cls = define_types("struct T { 1: [key] string k; }").T
    assert subject(cls()) == "/T/~f6"
    assert subject(cls(k="~f6")) != subject(cls())


@pytest.mark.parametrize(
    ("name", "level"),
    [("*", "%2A"), ("...", "%2E%2E%2E"), ("a/b", "a%2Fb"), ("ns::T", "ns%3A%3AT")],
)
def test_a_stranger_s_type_name_is_one_level_and_no_wild_card(name: str, level: str) -> None:
    type_ = StructType(
        name=name, fields=(Field(tag=1, name="k", type=ScalarType(Kind.UINT8), is_key=True),)
    )
    assert subject(class_of(type_)(k=5)) == f"/{level}/5"


def test_the_default_pattern_has_a_wild_card_for_each_key_field(types: TypeSet) -> None:
    assert default_pattern(types.Keyed._codec.plan) == "/Keyed/*/*"
    assert default_pattern(types.Singleton._codec.plan) == "/Singleton"


@pytest.mark.parametrize("name", ["a/b", "*", "...", "~x", "\u00e4"])
def test_the_default_pattern_matches_exactly_the_default_subjects(name: str) -> None:
    key = Field(tag=1, name="id", type=ScalarType(Kind.STRING), is_key=True)
    cls: Any = class_of(StructType(name=name, fields=(key,)))
    pattern = default_pattern(cls._codec.plan)
    assert check_pattern(pattern) == pattern
    for value in ("x", "", "*", "...", "a/b", "\u2026"):
        assert covers(pattern, check_subject(subject(cls(id=value))))


# -- and back


@pytest.mark.parametrize(
    ("kind", "values", "strange"),
    [
        ("uint8", [0, 7, 200], ["-1", "256", "07", "+7", "x", ""]),
        ("int64", [-(2**63), -1, 0, 300], ["1_0", "\u0667", "7.0"]),
        ("bool", [True, False], ["True", "1", ""]),
        ("string", ["", "a b", "...", "~f6", "\udcff", "\u00e9", "%41"], ["a b", "%61", "~"]),
        ("uuid", [UUID(int=0xABC)], ["abc", "00000000000000000000000000000abc"]),
        ("float64", [0.5, -0.0], ["0.5", "~zz"]),
    ],
)
def test_keys_contain_the_parts_of_their_subject_levels(
    kind: str, values: list[Any], strange: list[str]
) -> None:
    cls = define_types(f"struct T {{ 1: [key] {kind} a; 2: [key] uint32 b; }}").T
    objs = [cls(a=value, b=number) for value in values for number in (1, 300)]
    for obj in objs:
        levels = subject(obj).split("/")[2:]
        plan = cls._codec.plan
        (start,) = key_parts(plan, levels[:1])
        assert [o.a for o in objs if key_of(o).startswith(start)] == [obj.a] * 2
        assert key_parts(plan, levels) == [key_of(obj)]
        assert key_parts(plan, [*levels, "more"]) == [key_of(obj)]
        start, last = key_parts(plan, [None, levels[1]])
        assert key_of(obj).startswith(start)
        assert key_of(obj).endswith(last)
    for level in strange:
        (start,) = key_parts(cls._codec.plan, [level])
        assert not any(key_of(obj).startswith(start) for obj in objs)
    assert not any(key_of(obj).startswith(NO_KEY) for obj in objs)


def test_keys_are_found_by_the_names_of_elements() -> None:
    types = define_types("enum Kind { 3: cargo, 5: tanker } struct T { 1: [key] Kind kind; }")
    plan = types.T._codec.plan
    assert key_parts(plan, ["tanker"]) == [key_of(types.T(kind=types.Kind.tanker))]
    assert key_parts(plan, [None]) == [b"\x81"]
    assert key_parts(plan, ["ferry"]) == [NO_KEY]
