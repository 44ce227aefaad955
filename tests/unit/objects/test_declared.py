"""Declared types, held to the rules of the language."""

from __future__ import annotations

import pytest

from skerry.errors import SchemaCheckError
from skerry.objects.declared import checked
from skerry.schema.model import EnumElement, EnumType, Field, Kind, ScalarType, StructType


def struct(*fields: Field) -> StructType:
    return StructType(name="Thing", fields=fields)


def test_type_that_keeps_the_rules_is_the_type_of_a_file() -> None:
    declared = struct(Field(tag=1, name="id", type=ScalarType(Kind.UINT32), is_key=True))
    assert checked(declared, qualname="Thing", known={}) == declared


def test_broken_rule_names_the_class() -> None:
    declared = struct(Field(tag=32, name="id", type=ScalarType(Kind.UINT32)))
    with pytest.raises(SchemaCheckError, match=r"<class Outer.Thing>.*tag 32"):
        checked(declared, qualname="Outer.Thing", known={})


def test_type_with_warnings_is_accepted() -> None:
    declared = struct(Field(tag=1, name="at", type=ScalarType(Kind.FLOAT64), is_key=True))
    assert checked(declared, qualname="Thing", known={}) == declared


def test_enum_is_checked_too() -> None:
    declared = EnumType(name="E", elements=(EnumElement(tag=0, name="a", value=0),))
    with pytest.raises(SchemaCheckError, match="tag 0"):
        checked(declared, qualname="E", known={})
