"""The connection states of a space, and its events for the program besides objects."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from skerry.protocol.machine import MachineEvent


class SpaceState(enum.StrEnum):
    """The state of the connection between a space and its node."""

    CONNECTING = "connecting"
    """The first connection is not complete yet."""
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    """The connection is lost; the space retries."""
    CLOSED = "closed"
    """The space is closed and does not connect again."""


_NEXT = {
    SpaceState.CONNECTING: (SpaceState.CONNECTED, SpaceState.CLOSED),
    SpaceState.CONNECTED: (SpaceState.DISCONNECTED, SpaceState.CLOSED),
    SpaceState.DISCONNECTED: (SpaceState.CONNECTED, SpaceState.CLOSED),
    SpaceState.CLOSED: (),
}


def next_states(state: SpaceState) -> tuple[SpaceState, ...]:
    return _NEXT[state]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged(MachineEvent):
    state: SpaceState
    reason: str = ""
    """Why, unless the program itself caused it."""
    unconfirmed_count: int = 0
    """Publishes that were sent and not confirmed when the connection was lost; they may be lost."""

    def __str__(self) -> str:
        return f"{self.state}: {self.reason}" if self.reason else str(self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(MachineEvent):
    """The node refused something that this space did."""

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
    """The states of claims changed with the connection."""

    callbacks: tuple[Callable[[], object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSkipped(MachineEvent):
    """The node sent an object above `receive_bytes_max`, which was dropped."""

    name: str
    """The name of its type; empty if it is unknown."""
    size: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeConflict(MachineEvent):
    """The node serves a definition of a type that is incompatible with the program's."""

    name: str
    difference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable(MachineEvent):
    """An object of a type with conflicting definitions does not decode, and is dropped.

    The first such object of a type on each connection is reported.
    """

    name: str
    detail: str
