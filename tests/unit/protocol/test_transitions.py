"""Transition tables: the next state, and the transitions that do not exist."""

from __future__ import annotations

import enum

import pytest

from skerry.protocol.transitions import TransitionTable


class Light(enum.Enum):
    RED = "Wait."
    GREEN = "Go."


class Timer(enum.Enum):
    SHORT = "short"
    LONG = "long"


LIGHTS = TransitionTable(
    title="Lights",
    start=Light.RED,
    transitions=((Light.RED, Timer.LONG, Light.GREEN), (Light.GREEN, Timer.SHORT, Light.RED)),
)


def test_a_table_gives_the_next_state() -> None:
    assert LIGHTS.next_state(Light.RED, Timer.LONG) is Light.GREEN
    assert LIGHTS.next_state(Light.GREEN, Timer.SHORT) is Light.RED


def test_a_transition_that_is_not_in_the_table_fails() -> None:
    with pytest.raises(AssertionError, match="Lights: SHORT is not possible in RED"):
        LIGHTS.next_state(Light.RED, Timer.SHORT)


def test_a_state_and_event_have_one_next_state() -> None:
    twice = ((Light.RED, Timer.LONG, Light.GREEN), (Light.RED, Timer.LONG, Light.RED))
    with pytest.raises(AssertionError, match="listed twice"):
        TransitionTable(title="Lights", start=Light.RED, transitions=twice)
