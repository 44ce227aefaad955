"""Which publishes a flush confirms."""

from __future__ import annotations

import pytest

from skerry.client.core.flushes import REFUSAL_COUNT_MAX, Flushes
from skerry.client.core.states import Refusal
from skerry.errors import Disconnected, Refused


def test_answered_flush_is_done() -> None:
    flushes = Flushes()
    flush = flushes.begin(3)
    flushes.answered(99)
    assert flushes.waiting() == [flush]
    flushes.answered(flush.number)
    assert flush.is_done
    assert flush.error is None
    assert flushes.lost(3, "it broke") == 0, "all three were vouched for"


def test_lost_publishes_fail_the_flush_that_covers_them() -> None:
    flushes = Flushes()
    covered = flushes.begin(2)
    assert flushes.lost(5, "it broke") == 5
    assert isinstance(covered.error, Disconnected)
    assert "2 publishes" in str(covered.error)
    with pytest.raises(Disconnected, match="3 publishes"):
        flushes.begin(5)
    assert flushes.begin(5).error is None


def test_flush_without_unconfirmed_publishes_keeps_waiting() -> None:
    flushes = Flushes()
    first = flushes.begin(2)
    flushes.answered(first.number)
    second = flushes.begin(2)
    assert flushes.lost(2, "it broke") == 0
    third = flushes.begin(7)
    assert flushes.lost(2, "it broke") == 0, "the five are still here"
    assert flushes.waiting() == [second, third]
    flushes.end(Disconnected("over"))
    assert str(third.error) == "over"
    assert len(flushes) == 0


def test_forgotten_flush_is_not_sent_again() -> None:
    flushes = Flushes()
    flush = flushes.begin(0)
    flushes.forget(flush)
    flushes.forget(flush)
    assert flushes.waiting() == []


def test_refusals_are_reported_once_and_limited() -> None:
    flushes = Flushes()
    for number in range(REFUSAL_COUNT_MAX + 10):
        flushes.refused(Refusal(what=f"publish {number}", reason="no"))
    flush = flushes.begin(0)
    flushes.answered(flush.number)
    assert isinstance(flush.error, Refused)
    assert str(flush.error) == (f"the node refused publish 0: no, and {REFUSAL_COUNT_MAX - 1} more")
    again = flushes.begin(0)
    flushes.answered(again.number)
    assert again.error is None


def test_error_of_lost_publishes_names_the_reason_and_the_last_refusal() -> None:
    flushes = Flushes()
    flushes.refused(Refusal(what="describe", reason="two definitions of T"))
    flush = flushes.begin(1)
    assert flushes.lost(1, "T.x: expected text") == 1
    assert str(flush.error) == (
        "1 publish was sent when the connection was lost, and may not have arrived:"
        " T.x: expected text; the node refused describe: two definitions of T"
    )
