"""Names of types."""

from __future__ import annotations

import pytest

from skerry.errors import SchemaCheckError
from skerry.schema.check import define
from skerry.schema.model import (
    SCALAR_KINDS,
    FieldType,
    Kind,
    NamedType,
    RefType,
    ScalarType,
    StructType,
    VectorType,
)
from skerry.schema.rules.typenames import BUILT_IN_NAMES


def only_type(text: str, known: dict[str, NamedType] | None = None) -> FieldType:
    found = define(f"struct Only {{ 1: {text} a; }}", known=known or {}).types[0]
    assert isinstance(found, StructType)
    return found.fields[0].type


@pytest.mark.parametrize("name", sorted(SCALAR_KINDS))
def test_every_built_in_name_is_a_type(name: str) -> None:
    assert only_type(name) == ScalarType(SCALAR_KINDS[name])
    assert only_type(f"vector<{name}>") == VectorType(ScalarType(SCALAR_KINDS[name]))


@pytest.mark.parametrize("name", sorted(BUILT_IN_NAMES))
def test_no_definition_has_a_built_in_name(name: str) -> None:
    with pytest.raises(SchemaCheckError, match=f"`{name}` is the name of a built-in type"):
        define(f"struct {name} {{ 1: bool a; }}")


def test_the_old_name_of_a_time_is_an_alias() -> None:
    assert only_type("time_point") == ScalarType(Kind.TIMEPOINT)


def test_references_keep_the_name_of_their_target() -> None:
    assert only_type("instance_ref") == RefType()
    assert only_type("instance_ref<Only>") == RefType("Only")


def test_types_of_the_files_take_precedence_over_known_ones() -> None:
    known = {type_.name: type_ for type_ in define("enum A { 1: a } enum B { 1: b }").types}
    assert only_type("A", known) is known["A"]
    checked = define("enum A { 9: mine } struct C { 1: A a; 2: B b; }", known=known)
    struct = checked.types[1]
    assert isinstance(struct, StructType)
    assert struct.field("a").type is checked.types[0]
    assert struct.field("b").type is known["B"]


def test_known_targets_of_references_are_checked_too() -> None:
    known = {type_.name: type_ for type_ in define("enum E { 1: e }").types}
    with pytest.raises(SchemaCheckError, match="a reference cannot refer to `E`: it is an enum"):
        only_type("instance_ref<E>", known)
