"""What a node tells whoever runs it: for logs, not for other programs."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.protocol.machine import Event

__all__ = ["ClientCame", "ClientRefused", "ClientWent", "TypeAdopted", "TypeConflict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCame(Event):
    """A client was let in."""

    client_id: int
    name: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWent(Event):
    """A client is gone."""

    client_id: int
    name: str
    reason: str
    """One of a few words: what kind of end it was."""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRefused(Event):
    """A client asked for something that it was not given."""

    client_id: int
    name: str
    what: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeConflict(Event):
    """Somebody brought another definition of a known type; the known one stays in use."""

    type_name: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeAdopted(Event):
    """Stored objects were taken over into a new definition of their type."""

    type_name: str
    object_count: int
    losses: tuple[str, ...] = ()
    """What old values are missed or misread by it, in words."""
