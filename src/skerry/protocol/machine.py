"""The contract of machines: bytes and time are the input, events and bytes the output.

A machine is driven. Its driver, on real sockets or in the simulator, repeats one cycle: it passes
one input, then takes the transmits, then the events, then reads the next deadline. A machine never
blocks, logs, sleeps or keeps a callback. The order of its inputs and the `Random` that it was given
determine its output.

For datagrams, `Machine` is enough; one with several sockets is a `PortMachine`. A machine that
uses streams is a `StreamMachine`: it opens a connection with a `Connect` among its transmits,
closes it with a `Disconnect`, and is notified when a stream opened or closed. Both are in order
with the data, so data that is sent before a `Disconnect` still arrives.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable


class Address(NamedTuple):
    """The source or destination of bytes: a peer, a multicast group, or the end of a stream."""

    # A named tuple, because an address is looked up for every datagram, and only a tuple is hashed
    # and compared without running Python code.
    host: str
    port: int = 0
    is_stream: bool = False

    @property
    def text(self) -> str:
        """`HOST:PORT` as people write it: an IPv6 address is in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'stream' if self.is_stream else 'datagram'}:{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transmit:
    """Bytes for one destination: a datagram, or the next piece of an open stream."""

    destination: Address
    data: bytes = b""
    port: int = 0
    """The local port from which a machine with several sockets sends the datagram."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect(Transmit):
    """Open a stream to `destination`; `stream_opened` or `stream_closed` is called afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnect(Transmit):
    """Close the stream to `destination` once all data before it is sent.

    For the machine it is closed at once: nothing more is received, and `stream_closed` is not
    called.
    """

    is_abrupt: bool = False
    """Do not wait until the data is sent, because the peer does not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineEvent:
    """Base of the events for the layer above."""


Event = MachineEvent
"""The name under which the guide to the simulator and `skerry.distributor` document it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Counters of a machine at one instant."""


class Machine(Protocol):
    """The interface of all machines. `now_ns` is monotonic."""

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Process a datagram, or the next piece of a stream, of any length."""

    def advance(self, now_ns: int) -> None:
        """Do what is due. An early call does nothing; a late one is allowed."""

    def take_events(self) -> Sequence[MachineEvent]:
        """Return the events since the last call, oldest first."""

    def take_transmits(self) -> Sequence[Transmit]:
        """Return what is to be sent since the last call, in order."""

    def deadline_ns(self) -> int | None:
        """Return when `advance` has to be called; None if there is no deadline."""

    def statistics(self) -> Statistics:
        """Return an immutable snapshot of the counters."""


@runtime_checkable
class PortMachine(Machine, Protocol):
    """A machine with several sockets, which it distinguishes by their local addresses."""

    def receive_at(self, data: bytes, source: Address, destination: Address, now_ns: int) -> None:
        """Process a datagram to `destination`: a socket of the machine, or a multicast group."""


class CloseReason(enum.Enum):
    """Why a stream was closed."""

    ENDED = "ended"
    """The peer closed it; everything that it sent before was received."""
    LOST = "lost"
    """It broke; data in transit in both directions may be lost."""
    REFUSED = "refused"
    """The peer was reached and did not accept it."""
    TIMED_OUT = "timed-out"
    """The peer was not reached."""


@runtime_checkable
class StreamMachine(Machine, Protocol):
    """A machine that uses streams; it has at most one stream to an address."""

    def stream_opened(self, peer: Address, now_ns: int) -> None:
        """A stream was opened, by `Connect` or by the peer. `peer` identifies it from now on."""

    def stream_closed(self, peer: Address, reason: CloseReason, now_ns: int) -> None:
        """The stream was closed, or could not be opened."""


@runtime_checkable
class Paced(Protocol):
    """A machine that holds back the data for which a stream has no room.

    The transmits of other machines are queued at the stream without a bound.
    """

    def pause(self, peer: Address) -> None:
        """The queue of the stream is full. Called while transmits are processed."""

    def resume(self, peer: Address, now_ns: int) -> None:
        """The stream has room again."""


@runtime_checkable
class Durable(Protocol):
    """A machine with state that survives a restart."""

    def durable(self) -> bytes:
        """Return the state for the machine after the restart."""


@runtime_checkable
class WallClocked(Protocol):
    """A machine that uses wall time, and so must be notified when the wall clock is set."""

    def set_wall_offset(self, wall_offset_ns: int, now_ns: int) -> None:
        """Wall time is `now_ns + wall_offset_ns` from now on."""
