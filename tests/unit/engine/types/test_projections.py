"""How objects are projected for clients with another definition."""

from __future__ import annotations

from typing import Any

import skerry
from skerry.engine.types.projections import reading


def boat(fields: str) -> Any:
    return skerry.define_types(f"struct Boat {{ 1: [key] uint32 id; {fields} }}").Boat


OLD = boat("2: string name;")
GROWN = boat("2: string name; 3: float64 length;")


def test_a_program_that_skips_unknown_tags_gets_objects_as_they_are() -> None:
    assert reading(OLD.descriptor, GROWN.descriptor, can_skip=True) is None
    assert reading(GROWN.descriptor, OLD.descriptor, can_skip=True) is None


def test_a_program_that_does_not_skip_gets_the_tags_that_it_has() -> None:
    found = reading(OLD.descriptor, GROWN.descriptor, can_skip=False)
    assert found is not None
    assert found.project(GROWN(id=1, name="Mary", length=2.0).encode()) == (
        OLD(id=1, name="Mary").encode()
    )
    assert reading(GROWN.descriptor, OLD.descriptor, can_skip=False) is None


def test_values_that_a_program_cannot_read_are_left_out() -> None:
    narrow, wide = boat("2: uint8 crew;"), boat("2: uint32 crew;")
    found = reading(narrow.descriptor, wide.descriptor, can_skip=True)
    assert found is not None
    assert found.project(wide(id=1, crew=300).encode()) == narrow(id=1).encode()
    assert found.project(wide(id=1, crew=3).encode()) == narrow(id=1, crew=3).encode()


def test_an_object_whose_key_a_program_cannot_read_is_not_sent() -> None:
    narrow = skerry.define_types("struct Boat { 1: [key] uint8 id; }").Boat
    found = reading(narrow.descriptor, OLD.descriptor, can_skip=True)
    assert found is not None
    assert found.project(OLD(id=300).encode()) is None


def test_with_other_keys_nothing_is_read() -> None:
    other = skerry.define_types("struct Boat { 1: [key] string id; 2: string name; }").Boat
    found = reading(other.descriptor, OLD.descriptor, can_skip=True)
    assert found is not None
    assert not found.is_possible
    assert found.project(OLD(id=1).encode()) is None
    enum = skerry.define_types("enum Boat { 1: sloop }").Boat
    found = reading(enum.descriptor, OLD.descriptor, can_skip=True)
    assert found is not None
    assert not found.is_possible


def test_a_message_without_a_key_is_read_also_if_no_field_is() -> None:
    text = "struct Tick [cached=false] {{ 1: {} n; }}"
    old, new = (skerry.define_types(text.format(kind)).Tick for kind in ("string", "uint32"))
    found = reading(old.descriptor, new.descriptor, can_skip=True)
    assert found is not None
    assert found.is_possible
    assert found.project(new(n=1).encode()) == old().encode()
