"""Imports, packages, keys and documentation."""

from __future__ import annotations

import pytest

from skerry.errors import SchemaCheckError
from skerry.schema.check import check, define
from skerry.schema.language.parser import parse


def messages(text: str) -> list[str]:
    return [problem.message for problem in define(text).warnings]


def test_imports_find_types_of_any_file_and_known_types() -> None:
    user = parse("import Kind\nstruct Vessel { 1: Kind kind; }", "Vessel.dots")
    kind = parse("enum Kind { 1: cargo }", "Kind.dots")
    assert len(check([user, kind]).types) == 2
    known = {type_.name: type_ for type_ in check([kind]).types}
    assert len(check([user], known).types) == 1
    with pytest.raises(SchemaCheckError, match="there is no type `Kind` to import"):
        check([user])


@pytest.mark.parametrize(
    "type_", ["bool", "int8", "uint64", "string", "uuid", "bytes", "property_set", "instance_ref"]
)
def test_keys_of_stable_types_cause_no_warning(type_: str) -> None:
    assert messages(f"struct A {{ 1: [key] {type_} a; }}") == []


def test_keys_that_are_enums_cause_no_warning() -> None:
    assert messages("enum E { 1: e } struct A { 1: [key] E e; }") == []


def test_each_file_may_name_a_package() -> None:
    files = [parse("package a.b\nenum A { 1: a }", "A.dots"), parse("enum B { 1: b }", "B.dots")]
    assert check(files).packages == {"A.dots": "a.b"}


def test_documentation_of_an_item_causes_no_warning() -> None:
    assert (
        messages("/// a\nstruct A {\n/// b\n1: bool b; //< c\n}\n/// e\nenum E { 1: e //< f\n}")
        == []
    )


def test_long_documentation_before_its_field_causes_no_warning() -> None:
    assert messages("struct A {\n1: bool a; //< one\n/// two\n2: bool b;\n}") == []
    assert messages("struct A {\n1: bool a; //< one\n\n//< two\n2: bool b;\n}") == []
    assert messages("enum A {\n1: a, //< one\n//< two\n2: b\n}") == ["this documents `b`, not `a`"]


def test_internal_types_may_have_internal_names() -> None:
    assert messages("struct DotsOwn [internal] { 1: bool a; }") == []
    assert messages("struct DotsOwn [internal=false] { 1: bool a; }") == [
        "`DotsOwn` is a name for internal types"
    ]
    assert messages("struct Dot { 1: bool a; } struct MyDots { 1: bool a; }") == []
