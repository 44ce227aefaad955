"""Transition tables: the states of a machine as data.

A machine with states looks up its next state in a table of (state, event, next state). An input
that the peer must not send is checked and answered before the table is consulted, so a transition
that is not in the table is a bug of this program and fails an assertion. `tools/draw_machines.py`
draws the diagrams of the documentation from the same tables.
"""

from __future__ import annotations

import enum
from typing import Generic, TypeVar

State = TypeVar("State", bound=enum.Enum)
Event = TypeVar("Event", bound=enum.Enum)


class TransitionTable(Generic[State, Event]):
    """The transitions of one machine. The values of both enums describe their members."""

    def __init__(
        self, *, title: str, start: State, transitions: tuple[tuple[State, Event, State], ...]
    ) -> None:
        """`start` is the state of a new machine, and `title` the heading of the diagram."""
        self.title = title
        self.start = start
        self.transitions = transitions
        self._next_states = {(state, event): after for state, event, after in transitions}
        assert len(self._next_states) == len(transitions), f"{title}: a transition is listed twice"

    def next_state(self, state: State, event: Event) -> State:
        """Return the state after `event`; AssertionError if the table has no such transition."""
        after = self._next_states.get((state, event))
        assert after is not None, f"{self.title}: {event.name} is not possible in {state.name}"
        return after
