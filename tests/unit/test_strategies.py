"""The strategies draw what they promise, and all of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from skerry.objects.base import Struct
from skerry.schema.model import (
    EnumType,
    Kind,
    NamedType,
    RefType,
    ScalarType,
    StructType,
    VectorType,
    dependencies,
)
from tests import strategies

pytestmark = pytest.mark.slow


@given(strategies.names())
def test_names_are_names(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)


@given(strategies.documentation())
def test_documentation_has_no_loose_ends(text: str) -> None:
    assert text == text.strip("\n")
    assert all(line == line.rstrip() for line in text.split("\n"))


@settings(max_examples=30)
@given(strategies.enum_types(), strategies.struct_types(), strategies.type_sets(count_max=3))
def test_types_have_unique_tags_and_names(
    enum: EnumType, struct: StructType, types: tuple[NamedType, ...]
) -> None:
    for type_ in (enum, struct, *types):
        parts = type_.fields if isinstance(type_, StructType) else type_.elements
        removed = type_.removed if isinstance(type_, StructType) else ()
        tags = [part.tag for part in (*parts, *removed)]
        assert len(set(tags)) == len(tags)
        assert len({part.name for part in parts}) == len(parts)
    names = [type_.name for type_ in types]
    for index, type_ in enumerate(types):
        assert {used.name for used in dependencies(type_)} <= set(names[:index])


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.ENUM, Kind.STRUCT}))
def test_every_kind_of_field_is_drawn(kind: Kind) -> None:
    assert find(strategies.field_types(), lambda type_: type_.kind == kind).kind == kind


def test_known_types_are_drawn_as_fields_elements_and_targets() -> None:
    struct = find(strategies.struct_types("Vessel"), lambda t: not t.flags.substruct_only)
    drawn = strategies.field_types([struct])
    assert find(drawn, lambda type_: type_ is struct) is struct
    assert find(drawn, lambda type_: type_ == VectorType(struct)) == VectorType(struct)
    assert find(drawn, lambda type_: type_ == RefType("Vessel")) == RefType("Vessel")


@given(st.data())
def test_scalars_are_built_in(data: st.DataObject) -> None:
    assert isinstance(data.draw(strategies.scalar_types()), ScalarType)


@settings(max_examples=50)
@given(strategies.struct_types().flatmap(strategies.objects_of))
def test_objects_are_of_their_type_and_can_be_encoded(obj: Struct) -> None:
    assert type(obj).decode(obj.encode()).attributes == obj.attributes


@pytest.mark.parametrize(
    ("kind", "is_wanted"),
    [
        (Kind.UINT64, lambda value: value == 2**64 - 1),
        (Kind.INT8, lambda value: value == -128),
        (Kind.FLOAT32, lambda value: value != value),
        (Kind.STRING, lambda value: len(value) >= 24),
        (Kind.STRING, lambda value: any("\udc80" <= letter <= "\udcff" for letter in value)),
        (Kind.BYTES, lambda value: len(value) == 256),
        (Kind.PROPERTY_SET, lambda value: 31 in value),
    ],
)
def test_values_at_the_edges_are_drawn(kind: Kind, is_wanted: Callable[[Any], bool]) -> None:
    assert is_wanted(find(strategies.values_of(ScalarType(kind)), is_wanted))


def test_vectors_are_drawn_with_short_and_long_heads() -> None:
    vectors = strategies.values_of(VectorType(ScalarType(Kind.BOOL)))
    assert find(vectors, lambda value: len(value) == 24)
    assert find(vectors, lambda value: not value) == []
