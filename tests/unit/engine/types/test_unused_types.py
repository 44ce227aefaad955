"""Unused types make room for new ones, within the limits of the node and of each address."""

from __future__ import annotations

import pytest

from skerry.engine.types.served_types import ServedTypes
from skerry.engine.types.unused_types import UnusedTypes
from skerry.errors import LimitExceeded
from skerry.schema.check import define
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType


class Room:
    def __init__(self) -> None:
        self.needed: set[str] = set()
        self.removed: list[str] = []
        self.types = ServedTypes(lambda _: None)
        self.unused = UnusedTypes(
            self.types, is_needed=self.needed.__contains__, removed=self.removed.append
        )

    def add(self, name: str, address: str = "", *, is_used: bool = False) -> None:
        type_ = self.unused.add(name, address)
        if not is_used:
            self.unused.note_unused(type_)

    def make_room(self, *names: str, address: str = "", count_max: int = 3) -> None:
        parts: list[NamedType] = [
            type_ for name in names for type_ in define(f"struct {name} {{ 1: bool a; }}").types
        ]
        limit = len(internal_types()) + count_max
        self.unused.make_room(parts, address, count_max=limit, address_count_max=2)


def test_types_that_were_unused_longest_are_removed_first() -> None:
    room = Room()
    for name in "ABC":
        room.add(name)
    room.unused.note_used(room.types["A"])
    room.make_room("D")
    assert room.removed == ["B"]
    assert list(room.types) == ["A", "C"]
    room.make_room("D")
    assert room.removed == ["B"], "there is room already"


def test_types_in_use_stay_and_the_limit_is_reported() -> None:
    room = Room()
    room.add("A", is_used=True)
    room.add("B")
    room.add("C")
    room.needed.add("B")
    with pytest.raises(LimitExceeded, match="count of types"):
        room.make_room("D", "E")
    assert room.removed == ["C"]
    room.make_room("D", "A")
    assert room.removed == ["C"], "A is known"


def test_an_address_replaces_its_own_unused_types() -> None:
    room = Room()
    room.add("A", "10.0.0.1")
    room.add("B", "10.0.0.1", is_used=True)
    room.add("C", "10.0.0.2")
    room.make_room("D", address="10.0.0.1", count_max=9)
    assert room.removed == ["A"]
    room.add("D", "10.0.0.1", is_used=True)
    with pytest.raises(LimitExceeded, match="count of types of one address"):
        room.make_room("E", address="10.0.0.1", count_max=9)
