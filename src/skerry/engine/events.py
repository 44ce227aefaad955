"""Events of a node, which the program that runs it logs."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.protocol.machine import MachineEvent


class NodeEvents:
    """The events of a node until the driver takes them."""

    def __init__(self) -> None:
        self._events: list[MachineEvent] = []

    def report(self, event: MachineEvent) -> None:
        self._events.append(event)

    def take(self) -> list[MachineEvent]:
        """Return the events since the last call, oldest first."""
        events, self._events = self._events, []
        return events


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConnected(MachineEvent):
    """A client was accepted."""

    client_id: int
    name: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientDisconnected(MachineEvent):
    """The connection of a client ended."""

    client_id: int
    name: str
    reason: str
    """The kind of end, one of a few words: goodbye, lost, fault, slow, ..."""
    detail: str = ""
    host: str = ""
    """The address of the client; empty if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRejected(MachineEvent):
    """A connection was rejected before its handshake, because there are too many."""

    host: str
    """The address of the other end; empty if it has none."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRefused(MachineEvent):
    client_id: int
    name: str
    what: str
    """The verb of the request, such as publish or subscribe."""
    detail: str
    host: str = ""
    """The address of the client; empty if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionRefused(MachineEvent):
    """A client sent a definition that is incompatible with those in use."""

    type_name: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeChanged(MachineEvent):
    """The served definition of a type changed, because a client sent another one."""

    type_name: str
    client_id: int
    name: str
    added: tuple[str, ...]
    """Fields that the definition did not have before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesForgotten(MachineEvent):
    """A client wants dead nodes of the system to be forgotten."""

    nodes: tuple[int, ...]
    client_name: str
