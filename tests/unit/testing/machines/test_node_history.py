"""What is known of all that was published."""

from __future__ import annotations

import pytest

from skerry.testing.machines.program import (
    CLEANUP,
    FIELDS,
    MESSAGE,
    PERSISTENT,
    PLAIN,
    TYPES,
    History,
    matches,
    subject_of,
)


def test_the_types_are_of_the_four_kinds_that_a_node_treats_differently() -> None:
    flags = {name: TYPES[name].descriptor.flags for name in TYPES}
    assert [name for name in TYPES if not flags[name].cached] == [MESSAGE]
    assert [name for name in TYPES if flags[name].cleanup] == [CLEANUP]
    assert [name for name in TYPES if flags[name].persistent] == [PERSISTENT]
    assert PLAIN in TYPES
    for name in TYPES:
        assert [item.name for item in TYPES[name].descriptor.fields] == ["id", *FIELDS]


def test_publishes_are_numbered_and_counted_by_publisher_and_type() -> None:
    history = History()
    one, two = ("one", 1), ("two", 1)
    first = history.add(one, PLAIN, "b1", is_remove=False, connection=1)
    history.add(two, PLAIN, "b1", is_remove=False, connection=1)
    history.add(one, PLAIN, "b1", is_remove=True, connection=1)
    last = history.add(one, PLAIN, "b2", is_remove=False, connection=1)
    assert (first.number, first.index) == (1, 0)
    assert (last.number, last.index) == (4, 1), "a removal is not counted"
    assert history.publishes[4] is last


def test_values_are_known_once_they_are_announced() -> None:
    history = History()
    history.announce(PLAIN, "b1", {"level": 3})
    assert 3 in history.values[PLAIN, "b1", "level"]
    assert 3 not in history.values[PLAIN, "b2", "level"]


@pytest.mark.parametrize(
    ("pattern", "key", "is_match"),
    [
        ("/Boat/*", "b1", True),
        ("/Boat/*", "s1", False),
        ("/fleet/...", "s1", True),
        ("/...", "s1", True),
        ("/Boat/b2", "b1", False),
    ],
)
def test_some_objects_have_a_subject_of_their_own(pattern: str, key: str, is_match: bool) -> None:
    subject = subject_of(PLAIN, key)
    assert matches(pattern, PLAIN, key, subject) is is_match
    assert bool(subject) is key.startswith("s")
