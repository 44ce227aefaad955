"""The text of the DOTS types: complete, and apart from the types of skerry."""

from __future__ import annotations

from skerry.schema.internal import DOTS_TEXT, INTERNAL_TEXT
from skerry.schema.language.parser import parse


def test_only_the_slow_option_of_a_join_is_a_type_of_skerry() -> None:
    names = [item.name.text for item in parse(DOTS_TEXT).types]
    assert [name for name in names if name.startswith("Skerry")] == ["SkerrySlow"]
    assert {"DotsHeader", "DotsMember", "StructDescriptorData"} <= set(names)


def test_the_internal_types_begin_with_those_of_dots() -> None:
    assert INTERNAL_TEXT.startswith(DOTS_TEXT)
