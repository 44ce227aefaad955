"""The hold: no client publishes before all required ones have made their subscriptions.

The table is that of a manager. A hold that was released is never set again: a required client that
ends later, or a client that starts later, does not stop the others.
"""

from __future__ import annotations

import enum
from typing import Final

from skerry.protocol.transitions import TransitionTable


class HoldState(enum.Enum):
    """Whether clients may publish."""

    HELD = "Required clients are missing; clients keep their publications."
    RELEASED = "All required clients were ready once; clients publish."


class HoldEvent(enum.Enum):
    CLIENT_READY = "a required client is ready, others are missing"
    ALL_READY = "the last required client is ready"


_S = HoldState
_E = HoldEvent

HOLD_TRANSITIONS: Final[TransitionTable[HoldState, HoldEvent]] = TransitionTable(
    title="Hold of a portal",
    start=_S.HELD,
    transitions=(
        (_S.HELD, _E.CLIENT_READY, _S.HELD),
        (_S.HELD, _E.ALL_READY, _S.RELEASED),
    ),
)


class Hold:
    """The hold of one portal."""

    def __init__(self, required: frozenset[str]) -> None:
        """`required` are the names of the clients that must be ready; without any, none is held."""
        self.required = required
        self.missing = set(required)
        """The required clients that were not ready yet."""
        self.state = HOLD_TRANSITIONS.start
        if not required:
            self._change(HoldEvent.ALL_READY)

    @property
    def is_held(self) -> bool:
        return self.state is HoldState.HELD

    def client_ready(self, name: str) -> bool:
        """Note that a client is ready. Returns whether this released the hold."""
        if name not in self.missing:
            return False
        self.missing.discard(name)
        self._change(HoldEvent.CLIENT_READY if self.missing else HoldEvent.ALL_READY)
        return not self.missing

    def _change(self, event: HoldEvent) -> None:
        self.state = HOLD_TRANSITIONS.next_state(self.state, event)
