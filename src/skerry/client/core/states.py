"""How a space stands with its node, and what it tells the program besides objects."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from skerry.protocol.machine import MachineEvent

__all__ = [
    "CallbackFailed",
    "ClaimsChanged",
    "ObjectSkipped",
    "Refusal",
    "SpaceState",
    "StateChanged",
    "TypeConflict",
    "Unreadable",
    "next_states",
]


class SpaceState(enum.StrEnum):
    """How a space stands with its node."""

    CONNECTING = "connecting"
    """For the first time."""
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    """The connection was lost; the space tries to get it back."""
    CLOSED = "closed"
    """For good."""


_NEXT = {
    SpaceState.CONNECTING: (SpaceState.CONNECTED, SpaceState.CLOSED),
    SpaceState.CONNECTED: (SpaceState.DISCONNECTED, SpaceState.CLOSED),
    SpaceState.DISCONNECTED: (SpaceState.CONNECTED, SpaceState.CLOSED),
    SpaceState.CLOSED: (),
}


def next_states(state: SpaceState) -> tuple[SpaceState, ...]:
    """What may follow a state."""
    return _NEXT[state]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged(MachineEvent):
    """A space stands otherwise with its node than before."""

    state: SpaceState
    reason: str = ""
    """Why, where it is not the program's own wish."""
    unconfirmed_count: int = 0
    """Publishes that were under way when the connection was lost, and may be lost with it."""

    def __str__(self) -> str:
        return f"{self.state}: {self.reason}" if self.reason else str(self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(MachineEvent):
    """The node does not permit what this space did."""

    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackFailed(MachineEvent):
    """A callback of the program raised an error."""

    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsChanged(MachineEvent):
    """Claims stand otherwise, because the connection does."""

    told: tuple[Callable[[], object], ...]
    """Those who are to be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSkipped(MachineEvent):
    """The node sent an object above `receive_bytes_max`, which was dropped."""

    name: str
    """The name of its type; empty if it is unknown."""
    size: int
    """Bytes of the object with its header."""
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeConflict(MachineEvent):
    """The node serves a definition of a type that is incompatible with the program's."""

    name: str
    difference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable(MachineEvent):
    """Objects of a type with two definitions cannot be read by this program's, and are left out.

    Told of the first one on a connection.
    """

    name: str
    detail: str
