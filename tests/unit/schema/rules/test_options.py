"""Options: flags, texts, unknown ones, and those without an effect."""

from __future__ import annotations

import pytest

from skerry.errors import SchemaCheckError
from skerry.schema.check import define
from skerry.schema.model import EnumType, Flags, Scope, StructType
from skerry.schema.rules.options import ENUM_OPTIONS, FIELD_OPTIONS, STRUCT_OPTIONS


def struct(options: str, field_options: str = "") -> StructType:
    found = define(f"struct A [{options}] {{ 1: [{field_options}] uint32 a; }}").types[0]
    assert isinstance(found, StructType)
    return found


def test_defaults_are_those_of_the_model() -> None:
    assert struct("").flags == Flags()
    assert struct("").scope is None
    assert not struct("").is_deprecated


@pytest.mark.parametrize("name", ["cleanup", "persistent", "internal", "local", "substruct_only"])
def test_flags_are_switched_on_and_off(name: str) -> None:
    assert struct(name).flags == Flags(**{name: True})
    assert struct(f"{name}=true").flags == Flags(**{name: True})
    assert struct(f"{name}=false").flags == Flags()


def test_cached_is_on_unless_it_is_switched_off() -> None:
    assert struct("cached").flags.cached
    assert not struct("cached=False").flags.cached


@pytest.mark.parametrize("scope", list(Scope))
def test_scope_is_a_text(scope: Scope) -> None:
    assert struct(f'scope="{scope.name.lower()}"').scope is scope


def test_scope_is_written_in_small_letters() -> None:
    with pytest.raises(SchemaCheckError) as caught:
        struct('scope="Site"')
    assert caught.value.hint == 'did you mean `scope="site"`?'


def test_unknown_options_are_kept_without_a_warning() -> None:
    checked = define(
        'struct A [unit="m", x, y=false] { 1: [range="1..5"] uint8 a; }\nenum E [z] { 1: e }'
    )
    first, second = checked.types
    assert isinstance(first, StructType)
    assert isinstance(second, EnumType)
    assert first.options == (("unit", "m"), ("x", True), ("y", False))
    assert first.fields[0].options == (("range", "1..5"),)
    assert second.options == (("z", True),)
    assert checked.warnings == ()


def test_deprecation_of_an_enum_is_kept_as_an_option() -> None:
    found = define("enum E [deprecated] { 1: e }")
    assert isinstance(found.types[0], EnumType)
    assert found.types[0].options == (("deprecated", True),)
    assert found.warnings == ()
    assert ENUM_OPTIONS == ("deprecated",)


def test_field_flags_are_read() -> None:
    field = struct("", "key, ctor, deprecated").fields[0]
    assert (field.is_key, field.is_ctor, field.is_deprecated) == (True, True, True)
    field = struct("", "key=false, removed=false").fields[0]
    assert not field.is_key


def test_an_option_that_is_off_causes_no_warning() -> None:
    assert define("struct A [cached=false, cleanup=false] { 1: bool a; }").warnings == ()


def test_options_of_structs_are_not_options_of_fields() -> None:
    assert set(STRUCT_OPTIONS) & set(FIELD_OPTIONS) == {"deprecated"}
