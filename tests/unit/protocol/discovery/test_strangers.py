"""When unknown nodes are asked from which datagrams arrive."""

from __future__ import annotations

from skerry.protocol.discovery.strangers import STRANGER_COUNT_MAX, Strangers
from skerry.protocol.machine import Address

SECOND = 1_000_000_000
WHERE = Address("10.1.0.7", 26660)


def test_a_stranger_that_is_heard_on_and_on_is_asked_less_and_less_often() -> None:
    strangers = Strangers()
    asked: list[int] = []
    for second in range(120):
        strangers.heard(7, WHERE, second * SECOND)
        if strangers.take_due(second * SECOND) == [(7, WHERE)]:
            asked.append(second)
    assert asked == [0, 1, 3, 7, 15, 31, 63, 95]


def test_a_stranger_is_asked_where_it_was_heard_last() -> None:
    strangers = Strangers()
    strangers.heard(7, WHERE, 0)
    moved = Address("10.1.0.8", 26660)
    strangers.heard(7, moved, 0)
    assert strangers.take_due(0) == [(7, moved)]


def test_a_silent_stranger_is_forgotten_and_one_that_is_known_at_once() -> None:
    strangers = Strangers()
    strangers.heard(7, WHERE, 0)
    strangers.heard(8, WHERE, 0)
    strangers.forget(8)
    assert strangers.take_due(0) == [(7, WHERE)]
    assert strangers.take_due(64 * SECOND) == []
    # It is asked at once again, and not after the pause that it had.
    strangers.heard(7, WHERE, 65 * SECOND)
    assert strangers.take_due(65 * SECOND) == [(7, WHERE)]


def test_no_more_strangers_than_the_bound_are_asked() -> None:
    strangers = Strangers()
    for node in range(2 * STRANGER_COUNT_MAX):
        strangers.heard(node, WHERE, 0)
    assert len(strangers.take_due(0)) == STRANGER_COUNT_MAX
