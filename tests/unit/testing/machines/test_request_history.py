"""What is known of all that was asked."""

from __future__ import annotations

import pytest

from skerry.testing.machines.request_history import HANDLERS, MANNERS, TASKS, Asked, Tasks


def asked(number: int) -> Asked:
    return Asked(
        number=number,
        asker=("one", 1),
        type_name="Task",
        handler="",
        manner="now",
        timeout_ns=1,
        patience_ns=0,
        asked_ns=0,
        is_sure=False,
    )


def test_handlers_differ_by_type_and_by_name() -> None:
    names = [name for name, _ in HANDLERS]
    assert len(set(HANDLERS)) == len(HANDLERS) > len(set(names)) > 1
    for name in names:
        assert not TASKS[name].descriptor.flags.cached
        fields = [item.name for item in TASKS[name].descriptor.fields]
        assert fields == ["number", "manner", "delayMs", "note"]


def test_most_requests_are_to_be_answered() -> None:
    assert MANNERS["now"] + MANNERS["late"] > sum(MANNERS.values()) / 2
    assert min(MANNERS.values()) > 0


def test_requests_are_numbered_and_open_until_they_end() -> None:
    tasks = Tasks()
    for number in (1, 2):
        assert tasks.next_number == number
        tasks.announce(asked(number))
    assert list(tasks.asked) == list(tasks.open) == [1, 2]
    del tasks.open[1]
    assert tasks.next_number == 3
    with pytest.raises(AssertionError):
        tasks.announce(asked(7))
