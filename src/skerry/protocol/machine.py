"""The contract every machine keeps: bytes and time go in, events and bytes come out.

A machine is driven, it never drives. Whoever holds it (a runner on real sockets, or the simulator)
follows one rhythm: give it one input, then take its transmits, then its events, then ask for its
next deadline. A machine never blocks, logs, sleeps or keeps a callback, and the order of its inputs
together with the `Random` it was handed decides everything it puts out.

Datagrams need nothing but `Machine`. A machine carried by streams is a `StreamMachine`: it asks for
a connection by a `Connect` among its transmits and ends one by a `Disconnect`, and it is told when
a stream opened or closed. Both stand in line with the data, so a farewell that is sent before
a `Disconnect` still arrives.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

__all__ = [
    "Address",
    "CloseReason",
    "Connect",
    "Disconnect",
    "Durable",
    "Event",
    "Machine",
    "MachineEvent",
    "Paced",
    "Statistics",
    "StreamMachine",
    "Transmit",
    "WallClocked",
]


class Address(NamedTuple):
    """Where bytes come from or go to: a peer, a multicast group, or the far end of a stream."""

    # A named tuple and not a dataclass: an address is looked up for every datagram, and only the
    # tuple is hashed and compared without running Python code.
    host: str
    port: int = 0
    is_stream: bool = False

    def __str__(self) -> str:
        return f"{'stream' if self.is_stream else 'datagram'}:{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transmit:
    """Bytes for one destination: a datagram, or more of the stream that is open to it."""

    destination: Address
    data: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect(Transmit):
    """Open a stream to `destination`; `stream_opened` or `stream_closed` tells how it went."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnect(Transmit):
    """End the stream to `destination` once all that was sent before is out.

    For the machine it is over at once: nothing more is received and `stream_closed` is not called.
    """

    is_abrupt: bool = False
    """Do not wait until it is out: the peer does not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineEvent:
    """Something the layer above should know."""


Event = MachineEvent
"""The name under which the guide to the simulator and `skerry.distributor` document it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Counters of a machine at one instant."""


class Machine(Protocol):
    """Anything that decides. `now_ns` is monotonic and never goes back."""

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Take a datagram, or the next piece of a stream, cut anywhere."""

    def advance(self, now_ns: int) -> None:
        """Do what is due. Called too early it does nothing; it may be called late."""

    def take_events(self) -> Sequence[MachineEvent]:
        """The events since the last call, oldest first."""

    def take_transmits(self) -> Sequence[Transmit]:
        """What is to be sent since the last call, in order."""

    def deadline_ns(self) -> int | None:
        """When `advance` has to be called, or None while there is nothing to wait for."""

    def statistics(self) -> Statistics:
        """An immutable snapshot of the counters."""


class CloseReason(enum.Enum):
    """Why a stream is gone."""

    ENDED = "ended"
    """The peer ended it; everything it sent before was received."""
    LOST = "lost"
    """It broke; what was under way in both directions may be gone."""
    REFUSED = "refused"
    """The peer was reached and did not accept it."""
    TIMED_OUT = "timed-out"
    """The peer was not reached."""


@runtime_checkable
class StreamMachine(Machine, Protocol):
    """A machine carried by streams; a machine has at most one stream to an address."""

    def stream_opened(self, peer: Address, now_ns: int) -> None:
        """A stream is open, asked for by `Connect` or by the peer. `peer` names it from now on."""

    def stream_closed(self, peer: Address, reason: CloseReason, now_ns: int) -> None:
        """The stream is gone, or never came to be."""


@runtime_checkable
class Paced(Protocol):
    """A machine on streams that keeps to itself what a stream has no room for.

    One that is not is taken at its word: all that it transmits waits at the stream.
    """

    def pause(self, peer: Address) -> None:
        """The stream has more than it likes. Called while transmits are carried out."""

    def resume(self, peer: Address, now_ns: int) -> None:
        """The stream has room again."""


@runtime_checkable
class Durable(Protocol):
    """A machine that wants something back after a restart."""

    def durable(self) -> bytes:
        """What the next life of this machine is to be given."""


@runtime_checkable
class WallClocked(Protocol):
    """A machine that stamps wall time, and so must know when somebody set the wall clock."""

    def set_wall_offset(self, wall_offset_ns: int, now_ns: int) -> None:
        """Wall time is `now_ns + wall_offset_ns` from now on."""
