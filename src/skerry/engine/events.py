"""What a node tells whoever runs it: for logs, not for other programs."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.protocol.machine import MachineEvent

__all__ = [
    "ClientConnected",
    "ClientDisconnected",
    "ClientRefused",
    "ConnectionTurnedAway",
    "DefinitionRefused",
    "TypeChanged",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConnected(MachineEvent):
    """A client was let in."""

    client_id: int
    name: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientDisconnected(MachineEvent):
    """A client is gone."""

    client_id: int
    name: str
    reason: str
    """One of a few words: what kind of end it was."""
    detail: str = ""
    host: str = ""
    """The address of the client; empty where it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTurnedAway(MachineEvent):
    """A connection was closed before its handshake, because there are too many."""

    host: str
    """The address of the other end; empty where it has none."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRefused(MachineEvent):
    """A client asked for something that it was not given."""

    client_id: int
    name: str
    what: str
    detail: str
    host: str = ""
    """The address of the client; empty where it has none."""


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
    """The name of the client."""
    added: tuple[str, ...]
    """Fields that the definition did not have before."""
