"""The model of types: immutable values that are equal if all their facts are."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from skerry.schema.model import (
    SCALAR_KINDS,
    EnumElement,
    EnumType,
    Field,
    Flags,
    Kind,
    RefType,
    RemovedField,
    ScalarType,
    Scope,
    StructType,
    VectorType,
    content_of,
    dependencies,
)
from skerry.schema.rules.options import STRUCT_OPTIONS

BOOL = ScalarType(Kind.BOOL)
COLOR = EnumType(name="Color", elements=(EnumElement(tag=1, name="red", value=0),))
INNER = StructType(name="Inner", fields=(Field(tag=1, name="x", type=BOOL),))
OUTER = StructType(
    name="Outer",
    fields=(
        Field(tag=7, name="id", type=ScalarType(Kind.UINT32), is_key=True),
        Field(tag=31, name="inners", type=VectorType(INNER)),
        Field(tag=2, name="color", type=COLOR, is_key=True),
        Field(tag=4, name="inner", type=INNER),
    ),
)


def test_a_struct_knows_its_fields() -> None:
    assert OUTER.field("color").type is COLOR
    assert OUTER.has_field("color")
    assert not OUTER.has_field("colour")
    with pytest.raises(KeyError):
        OUTER.field("colour")
    assert [field.tag for field in OUTER.key_fields] == [2, 7], "in tag order"
    assert OUTER.mask == 1 << 7 | 1 << 31 | 1 << 2 | 1 << 4
    assert OUTER.key_mask == 1 << 7 | 1 << 2
    assert INNER.key_fields == ()


def test_names_are_those_of_the_language() -> None:
    assert [t.name for t in (BOOL, RefType(), RefType("T"), VectorType(BOOL))] == [
        *("bool", "instance_ref", "instance_ref<T>", "vector<bool>")
    ]
    assert VectorType(INNER).name == "vector<Inner>"
    assert [t.kind for t in (BOOL, RefType(), VectorType(BOOL), COLOR, INNER)] == [
        *(Kind.BOOL, Kind.REF, Kind.VECTOR, Kind.ENUM, Kind.STRUCT)
    ]
    assert len(SCALAR_KINDS) == 20
    assert SCALAR_KINDS["any"] is Kind.ANY


@pytest.mark.parametrize(
    ("facts", "scope"),
    [
        ({}, Scope.SITE),
        ({"flags": Flags(internal=True)}, Scope.SERVER),
        ({"flags": Flags(local=True)}, Scope.SERVER),
        ({"scope": Scope.GLOBAL, "flags": Flags(local=True)}, Scope.GLOBAL),
        ({"scope": Scope.PROGRAM}, Scope.PROGRAM),
    ],
)
def test_a_scope_that_is_not_written_follows_from_the_flags(
    facts: dict[str, Any], scope: Scope
) -> None:
    assert StructType(name="T", fields=(), **facts).effective_scope is scope


DIFFERENT: list[dict[str, Any]] = [
    {"name": "T"},
    {"fields": OUTER.fields[:3]},
    {"fields": OUTER.fields[::-1]},
    {"fields": (replace(OUTER.fields[0], tag=8), *OUTER.fields[1:])},
    {"fields": (replace(OUTER.fields[0], name="di"), *OUTER.fields[1:])},
    {"fields": (replace(OUTER.fields[0], type=BOOL), *OUTER.fields[1:])},
    {"fields": (replace(OUTER.fields[0], is_key=False), *OUTER.fields[1:])},
    {"fields": (replace(OUTER.fields[0], is_ctor=True), *OUTER.fields[1:])},
    {"fields": (replace(OUTER.fields[0], is_deprecated=True), *OUTER.fields[1:])},
    {"fields": (replace(OUTER.fields[0], default="1"), *OUTER.fields[1:])},
    {"fields": (replace(OUTER.fields[0], documentation="x"), *OUTER.fields[1:])},
    {"fields": (replace(OUTER.fields[0], options=(("a", True),)), *OUTER.fields[1:])},
    {"fields": (*OUTER.fields[:3], replace(OUTER.fields[3], type=VectorType(INNER)))},
    {"fields": (*OUTER.fields[:3], replace(OUTER.fields[3], type=replace(INNER, name="I")))},
    {"flags": Flags(cleanup=True)},
    {"scope": Scope.SITE},
    {"is_deprecated": True},
    {"removed": (RemovedField(tag=9, name="r", type_name="bool"),)},
    {"documentation": "x"},
    {"options": (("a", "b"),)},
]


@pytest.mark.parametrize("change", DIFFERENT)
def test_structs_differ_in_any_fact(change: dict[str, Any]) -> None:
    assert replace(OUTER, **change) != OUTER
    assert replace(OUTER, **change) == replace(OUTER, **change)


def test_equal_structs_have_equal_hashes() -> None:
    twin = replace(OUTER)
    assert twin is not OUTER
    assert twin == OUTER
    assert hash(twin) == hash(OUTER)
    assert {OUTER: 1}[twin] == 1
    assert OUTER != "Outer"
    assert EnumType(name="Outer", elements=()) != OUTER


def test_texts_of_fields_are_not_confused() -> None:
    """Types are compared by a hash of all facts, so different facts must give different text."""
    first = StructType(name="T", fields=(), documentation="a", options=(("b", "c"),))
    second = StructType(name="T", fields=(), documentation="a', (('b', 'c'),)")
    assert first != second
    odd = StructType(name="\udcff", fields=())
    assert odd == StructType(name="\udcff", fields=())
    assert odd != StructType(name="\\udcff", fields=())


def test_types_are_copied_and_pickled() -> None:
    for again in (copy.copy(OUTER), copy.deepcopy(OUTER), pickle.loads(pickle.dumps(OUTER))):
        assert again == OUTER
        assert hash(again) == hash(OUTER)
        assert again.field("id") == OUTER.field("id")
        assert again.depth == OUTER.depth


def test_content_is_what_a_vector_holds_and_any_other_type_itself() -> None:
    assert content_of(VectorType(INNER)) is INNER
    for type_ in (INNER, COLOR, BOOL, RefType("T")):
        assert content_of(type_) is type_


def test_flags_that_are_not_default_are_in_the_order_of_writing() -> None:
    assert list(Flags().not_default()) == []
    assert list(Flags(internal=True, cleanup=True).not_default()) == [
        ("cleanup", True),
        ("internal", True),
    ]
    others = Flags(
        cached=False, cleanup=True, persistent=True, internal=True, local=True, substruct_only=True
    )
    assert [name for name, _ in others.not_default()] == [*STRUCT_OPTIONS[:6]]
    assert dict(others.not_default())["cached"] is False


def test_types_are_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        OUTER.name = "T"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        COLOR.name = "T"  # type: ignore[misc]


def test_each_dependency_follows_those_it_uses_and_occurs_once() -> None:
    assert list(dependencies(OUTER)) == [INNER, COLOR]
    top = StructType(
        name="Top",
        fields=(Field(tag=1, name="a", type=OUTER), Field(tag=2, name="b", type=VectorType(COLOR))),
    )
    assert list(dependencies(top)) == [INNER, COLOR, OUTER]
    assert list(dependencies(COLOR)) == []


def test_depth_counts_structs_inside_each_other() -> None:
    assert StructType(name="T", fields=()).depth == 1
    assert INNER.depth == 1
    assert OUTER.depth == 2
    wide = OUTER
    for level in range(14):
        fields = tuple(Field(tag=tag, name=f"f{tag}", type=wide) for tag in range(1, 32))
        wide = StructType(name=f"L{level}", fields=fields)
    assert wide.depth == 16
