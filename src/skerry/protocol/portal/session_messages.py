"""What the machine of a client asks of its driver, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.protocol.machine import MachineEvent
from skerry.protocol.portal.messages import DataSocket

# -- commands for the driver, to be carried out in order


@dataclass(frozen=True, slots=True, kw_only=True)
class AskManager:
    """Open a new socket for requests in place of the last one, and send this request."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectData:
    """Open the sockets for publications and subscriptions, and set the filters."""

    publish: DataSocket
    subscribe: DataSocket
    filters: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFilter:
    """Set a filter of the socket for subscriptions, or remove it."""

    filter: bytes
    is_set: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DropSockets:
    """Close all sockets of the client."""


SessionCommand = AskManager | ConnectData | SetFilter | DropSockets

# -- events


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalOpened(MachineEvent):
    """Publications are sent from now on: the hold is released, and the connection works."""

    is_first: bool
    """False after a connection that was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSilent(MachineEvent):
    """The manager was asked and gave no usable answer; the client asks again by itself."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalLost(MachineEvent):
    """The connection to the portal was lost; the client connects again by itself."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationsDropped(MachineEvent):
    """The buffer is full, and the oldest publications are dropped. Reported once, until it has
    been empty again."""

    waiting_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionsSettled(MachineEvent):
    """The router knows the subscriptions that were made before a call of `settle`."""

    number: int
    """What `settle` has returned, or a later one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatistics:
    """Counters of a client."""

    sent_count: int
    received_count: int
    malformed_count: int
    """Received frames that are not publications. They are dropped."""
    dropped_count: int
    """Publications that were dropped because too many waited."""
    waiting_count: int
    """Publications that wait."""
    lost_connections_count: int
