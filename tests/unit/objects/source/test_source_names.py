"""SourceNames: names that a field hides are used by another name."""

from __future__ import annotations

import skerry
from skerry.objects.source.source_names import SourceNames


def spelling(text: str) -> SourceNames:
    return SourceNames([cls.descriptor for cls in skerry.define_types(text).values()])


def test_names_that_nothing_hides_stay() -> None:
    names = spelling("struct A { 1: uuid id; }")
    assert (names.outer("list"), names.outer("UUID"), names.outer("A")) == ("list", "UUID", "A")
    assert names.imports() == ["from uuid import UUID", "", "import skerry"]
    assert names.built_in_aliases() == []


def test_hidden_names_get_another_one() -> None:
    names = spelling("struct A { 1: bool bool; 2: bool skerry; 3: uuid UUID; 4: bool A; }")
    assert names.outer("bool") == "bool_"
    assert names.outer("UUID") == "UUID_"
    assert names.outer("A") == "A_"
    assert names.imports() == [
        "from uuid import UUID as UUID_",
        "",
        "import skerry",
        "import skerry as skerry_",
    ]
    assert names.built_in_aliases() == ["bool_ = bool"]
    assert names.alias("A") == ["A_ = A"]


def test_another_name_is_not_one_that_is_hidden_or_in_use() -> None:
    names = spelling("struct A { 1: bool list; 2: bool list_; } struct list__ { 1: bool x; }")
    assert names.outer("list") == "list___"


def test_unused_hidden_names_get_no_alias() -> None:
    names = spelling("struct A { 1: bool list; 2: bool A; }")
    assert names.built_in_aliases() == []
    assert names.alias("A") == []


def test_classes_do_not_take_names_that_the_source_uses() -> None:
    names = spelling("struct list { 1: bool x; } enum UUID { 1: x } struct None { 1: bool x; }")
    assert names.classes == {"list": "list_", "UUID": "UUID_", "None": "None_"}


def test_names_of_elements_hide_too() -> None:
    assert spelling("enum A { 1: skerry }").outer("skerry") == "skerry_"
