"""Which types have default subjects that a pattern selects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import skerry
from skerry.engine.dispatch.pattern_reach import WILD_CARDS, PartialPatterns, PatternReach

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour


TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Car { 1: [key] uint32 id; 2: string name; }
    struct Spot { 1: [key] string name; 2: [key] uint32 id; }
    struct Weather { 1: float64 wind; }
    struct Shout [cached=false] { 1: string text; }
    """
)
Boat, Car, Spot, Weather, Shout = TYPES.Boat, TYPES.Car, TYPES.Spot, TYPES.Weather, TYPES.Shout


@pytest.fixture
def maker(harbour: Harbour) -> Guest:
    return harbour.guest("maker")


def test_removing_a_pattern_restores_the_routes(harbour: Harbour, maker: Guest) -> None:
    maker.publish(Boat(id=1))
    first, second = harbour.guest("first"), harbour.guest("second")

    def needs_subject(name: str) -> bool:
        return harbour.node._dispatcher.topics[name].needs_subject

    first.join("/Boat/1")
    second.join("/Boat/1")
    assert needs_subject("Boat")
    maker.publish(Car(id=1))
    assert not needs_subject("Car")
    first.leave("/Boat/1")
    assert needs_subject("Boat")
    second.vanish()
    assert not needs_subject("Boat")
    first.join("/Boat/*")
    assert not needs_subject("Boat"), "it is all of them"


@pytest.mark.parametrize(
    ("pattern", "selects", "is_whole"),
    [
        ("/...", True, True),
        ("/*/*", True, True),
        ("/Boat/*", True, True),
        ("/Boat/1", True, False),
        ("/Boat", False, True),
        ("/Boat/*/*", False, True),
        ("/Car/*", False, True),
    ],
)
def test_a_pattern_selects_types_by_their_name_and_number_of_keys(
    pattern: str, selects: bool, is_whole: bool, harbour: Harbour, maker: Guest
) -> None:
    maker.publish(Boat(id=1))
    topic = harbour.node._dispatcher.topics["Boat"]
    reach = PatternReach(pattern)
    assert (reach.has(topic), reach.is_whole) == (selects, is_whole)


def test_a_pattern_counts_as_partial_until_it_is_removed(harbour: Harbour, maker: Guest) -> None:
    maker.publish(Boat(id=1))
    topic = harbour.node._dispatcher.topics["Boat"]
    patterns, reach = PartialPatterns(), PatternReach("/Boat/1")
    patterns.change(reach, 1)
    patterns.change(reach, 1)
    patterns.change(reach, -1)
    assert patterns.select_part_of(topic)
    patterns.change(reach, -1)
    assert not patterns.select_part_of(topic)
    assert WILD_CARDS[:2] == ("*", "...")
