"""Sets of types: classes as attributes and by name, and their text again."""

from __future__ import annotations

import copy

import pytest

from skerry.errors import SchemaCheckError, SchemaSyntaxError, Severity
from skerry.objects.typeset import TypeSet, define_types, to_dots


def test_classes_are_attributes_and_entries(types: TypeSet) -> None:
    assert types.Vessel is types["Vessel"]
    assert list(types) == ["Kind", "Position", "Vessel", "Lock", "Values"]
    assert len(types) == 5
    assert "Vessel" in types
    assert "Kind" in dir(types)
    assert repr(types) == "TypeSet(Kind, Position, Vessel, Lock, Values)"


def test_unknown_type_raises_an_error_with_the_known_names(types: TypeSet) -> None:
    with pytest.raises(AttributeError, match="there is no type Ship; there are Kind, Position"):
        _ = types.Ship
    with pytest.raises(KeyError, match="Ship"):
        types["Ship"]
    with pytest.raises(AttributeError, match="there are none"):
        _ = define_types("").Ship


def test_reserved_name_gets_an_underscore() -> None:
    types = define_types(
        "struct keys { 1: bool b; } struct keys_ { 1: bool b; } struct class { 1: bool b; }"
        "struct warnings_ { 1: bool b; }"
    )
    assert types.keys_.descriptor.name == "keys_"
    assert types.keys__.descriptor.name == "keys"
    assert types.class_.descriptor.name == "class"
    assert types.warnings__.descriptor.name == "warnings_"
    assert list(types.keys()) == ["keys", "keys_", "class", "warnings_"]


def test_text_loaded_twice_defines_the_same_classes(types: TypeSet) -> None:
    text = to_dots(*types.values())
    again = define_types(text)
    assert all(again[name] is types[name] for name in types)


def test_text_includes_dependencies(types: TypeSet) -> None:
    text = to_dots(types.Vessel)
    assert list(define_types(text)) == ["Kind", "Position", "Vessel"]
    assert to_dots(types.Vessel.descriptor) == text


def test_warnings_are_kept() -> None:
    types = define_types("struct T { 1: [key] float64 x; }")
    (warning,) = types.warnings_
    assert warning.severity is Severity.WARNING
    assert "key" in warning.message


def test_errors_are_reported() -> None:
    with pytest.raises(SchemaSyntaxError):
        define_types("struct {")
    with pytest.raises(SchemaCheckError):
        define_types("struct T { 1: Nothing x; }")


def test_a_set_is_copied(types: TypeSet) -> None:
    assert copy.copy(types).Vessel is types.Vessel
