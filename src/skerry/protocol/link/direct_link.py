"""Reliable messages between programs that are not members of one system.

Without a picture, no node decides which programs take part. A program is included at first contact:
when the first message is sent to it, or arrives from it. The streams, windows and datagrams are
those of `link`. There are no keep-alives, so a connection without messages costs nothing.

A connection that has been idle is forgotten. Its next message continues it: the receiver kept the
place of the stream, or takes the first number that the sender still keeps, which each heartbeat
states. What a program does not acknowledge is given up after a time or after a number of tries,
whichever is first, and reported. The next message begins a new stream, with a new index. A higher
index also tells the receiver that the earlier stream has ended, so no message closes it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

from skerry.protocol.deadlines import earliest
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import LinkStatistics, Stalled, StallReason
from skerry.protocol.link.link import Link
from skerry.protocol.link.output import Burst
from skerry.protocol.machine import Address, MachineEvent, Transmit
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.rtps.datagram_reader import Datagram
from skerry.protocol.rtps.entities import Channel, stream_of
from skerry.protocol.rtps.submessages import Data, DataFragment
from skerry.tracing import NO_TRACE, DropReason, Tracer

__all__ = ["DirectClosed", "DirectConfig", "DirectEnd", "DirectLink"]

_MS: Final = 1_000_000
_CHECKS_PER_LIMIT: Final = 8
"""How often a connection is examined within the shortest of its time limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectConfig:
    """How programs exchange messages without membership."""

    link: LinkConfig = field(default=LinkConfig())
    """The same at all of them."""
    window_packet_count: int = 64
    """Packets in flight to one program."""
    window_bytes: int = 262_144
    """Bytes in flight to one program. One packet is always allowed."""
    retry_timeouts_ms: tuple[int, ...] = (50, 100, 200, 500)
    """Wait before each retransmission; the last one repeats."""
    try_count_max: int = 120
    """Retransmissions of one packet without an answer before all is given up."""
    close_ms: int = 60_000
    """Time without progress before all is given up."""
    idle_ms: int = 60_000
    """Time without messages in both directions before a connection is forgotten."""
    peer_count_max: int = 1000
    """Connections at a time; each costs a few kilobytes and what waits for it."""
    contact_count_max: int = 10_000
    """Programs whose address is known; those used first are dropped."""

    def __post_init__(self) -> None:
        for value, key, low, high in (
            (self.try_count_max, "try_count_max", 1, 1_000_000),
            (self.close_ms, "close_ms", 100, 3_600_000),
            (self.idle_ms, "idle_ms", 100, 86_400_000),
            (self.peer_count_max, "peer_count_max", 1, 30_000),
            (self.contact_count_max, "contact_count_max", self.peer_count_max, 1_000_000),
        ):
            if not low <= value <= high:
                raise ValueError(f"{key} = {value} is not between {low} and {high}")

    @property
    def node_type(self) -> NodeType:
        """The windows and timeouts as those of a node type."""
        return NodeType(
            name="direct",
            window_packet_count=self.window_packet_count,
            window_bytes=self.window_bytes,
            ack_request_threshold=1,
            retry_timeouts_ms=self.retry_timeouts_ms,
            lag_limit_ms=self.close_ms,
        )


class DirectEnd(enum.Enum):
    """Why messages were given up."""

    UNANSWERED = "unanswered"
    """The program has not acknowledged them in time."""
    SILENT = "silent"
    """A part of a message has arrived, or one behind a gap, and nothing since."""
    STREAM = "stream"
    """The program has sent something malformed."""
    CLOSED = "closed"
    """The connection was closed here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectClosed(MachineEvent):
    """Messages of a connection were given up. Further messages begin a new stream."""

    node: int
    reason: DirectEnd
    unacknowledged_count: int
    """Messages to the program that it may not have received."""
    undelivered_bytes: int
    """Bytes from the program that could not be delivered."""


class DirectLink:
    """The machine of one program; its messages are `RecordsReceived` events."""

    def __init__(
        self,
        *,
        node: int,
        now_ns: int,
        config: DirectConfig | None = None,
        channel: Channel = Channel.DATA,
        wall_offset_ns: int = 0,
        tracer: Tracer = NO_TRACE,
    ) -> None:
        """`node` identifies this program; it is random, and new at each start."""
        self.config = config or DirectConfig()
        self._type = self.config.node_type
        self._link = Link(
            channel=channel,
            node=node,
            node_types=NodeTypes([self._type]),
            own_type=self._type,
            now_ns=now_ns,
            config=self.config.link,
            wall_offset_ns=wall_offset_ns,
            tracer=tracer,
            is_direct=True,
        )
        self._contacts: dict[int, Address] = {}
        """The addresses of programs, those used last at the end."""
        self._used_ns: dict[int, int] = {}
        """When the last message was sent to each connected program."""
        self._check_ns_step = (
            min(
                self.config.close_ms,
                self.config.idle_ms,
                self.config.try_count_max * self.config.retry_timeouts_ms[-1],
            )
            * _MS
            // _CHECKS_PER_LIMIT
        )
        self._check_ns: int | None = None
        self._events: list[MachineEvent] = []

    # -- for the host

    def contact(self, node: int, address: Address) -> None:
        """Note the address of a program, before the first message to it."""
        self._contacts.pop(node, None)
        self._contacts[node] = address
        if len(self._contacts) > self.config.contact_count_max:
            del self._contacts[next(iter(self._contacts))]

    def send_to(
        self, node: int, data_type: int, data: bytes, now_ns: int, *, is_reliable: bool = True
    ) -> bool:
        """Send a message to a program; False if there is no room for it, as `Link.send_to`.

        False also if its address is not known, or if there are too many connections. Raises
        LimitExceeded if the message is too large.
        """
        if node not in self._used_ns:
            address = self._contacts.get(node)
            if address is None or not self._open(node, address, now_ns):
                return False
        self._used_ns[node] = now_ns
        return self._link.send_to(node, data_type, data, now_ns, is_reliable=is_reliable)

    def close(self, node: int, now_ns: int) -> None:
        """End a connection. What is not acknowledged is given up."""
        if node in self._used_ns:
            self._give_up(node, DirectEnd.CLOSED)
            self._forget(node, now_ns)

    def pause(self) -> None:
        """Deliver and acknowledge nothing until `resume`. Unacknowledged messages are dropped."""
        self._link.pause()

    def resume(self, now_ns: int) -> None:
        """Deliver again."""
        self._link.resume(now_ns)
        self._settle(now_ns)

    def release(self, node: int, now_ns: int) -> bool:
        """Forget a connection as if it had been idle. False if something waits for an
        acknowledgement or to be delivered."""
        if not self._link.is_settled(node) or self._link.waiting_bytes(node):
            return False
        self._forget(node, now_ns)
        return True

    @property
    def connected(self) -> list[int]:
        """The programs to which there is a connection."""
        return list(self._used_ns)

    # -- the contract

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Process a datagram."""
        link = self._link
        unknown = link.receive(data, source, now_ns)
        if unknown is not None:
            is_first = unknown.node not in link.peers and _is_message(unknown)
            if not is_first or not self._open(unknown.node, source, now_ns):
                link.drop(DropReason.STRANGER, source)
                return
            self.contact(unknown.node, source)
            link.receive(data, source, now_ns)
        self._settle(now_ns)

    def advance(self, now_ns: int) -> None:
        """Do what is due."""
        self._link.advance(now_ns)
        self._settle(now_ns)
        if self._check_ns is not None and now_ns >= self._check_ns:
            for node in list(self._used_ns):
                self._examine(node, now_ns)
            self._check_ns = now_ns + self._check_ns_step if self._used_ns else None

    def deadline_ns(self) -> int | None:
        """When to call `advance`."""
        return earliest(self._link.deadline_ns(), self._check_ns)

    def take_bursts(self) -> list[Burst]:
        """Return what is to be sent since the last call."""
        return self._link.take_bursts()

    def take_transmits(self) -> list[Transmit]:
        """Return the same as transmits."""
        return self._link.take_transmits()

    def take_events(self) -> list[MachineEvent]:
        """Return the events since the last call, oldest first."""
        events, self._events = self._events + self._link.take_events(), []
        return events

    def set_wall_offset(self, wall_offset_ns: int, now_ns: int) -> None:
        """Set the offset of wall time, after the wall clock was changed."""
        self._link.set_wall_offset(wall_offset_ns, now_ns)

    def statistics(self) -> LinkStatistics:
        """All counters, with one row for each connection."""
        return self._link.statistics()

    # -- inside

    def _open(self, node: int, address: Address, now_ns: int) -> bool:
        """Include a program; False if there are too many connections."""
        if len(self._used_ns) >= self.config.peer_count_max:
            return False
        self._link.meet(node, self._type, address)
        self._link.include(node, now_ns)
        self._used_ns[node] = now_ns
        if self._check_ns is None:
            self._check_ns = now_ns + self._check_ns_step
        return True

    def _forget(self, node: int, now_ns: int) -> None:
        self._link.exclude(node, now_ns)
        del self._used_ns[node]

    def _settle(self, now_ns: int) -> None:
        """Process what the link has reported about its streams."""
        for event in self._link.take_events():
            if not isinstance(event, Stalled):
                self._events.append(event)
            elif event.reason is StallReason.LAG:
                self._give_up(event.node, DirectEnd.UNANSWERED)
            else:
                self._give_up(event.node, DirectEnd.STREAM)
                self._forget(event.node, now_ns)

    def _examine(self, node: int, now_ns: int) -> None:
        """Give up messages without an answer, and forget a connection that is idle."""
        link, config = self._link, self.config
        row = link.peer_statistics(node)
        if row.unanswered_count >= config.try_count_max:
            self._give_up(node, DirectEnd.UNANSWERED)
        idle_ms = now_ns - max(self._used_ns[node], row.received_ns or 0)
        idle_ms = idle_ms // _MS
        if idle_ms < config.idle_ms or not link.is_settled(node):
            return
        if link.waiting_bytes(node):
            # The program may be cut off, and continue until it gives up.
            if idle_ms < 2 * config.close_ms:
                return
            self._give_up(node, DirectEnd.SILENT)
        self._forget(node, now_ns)

    def _give_up(self, node: int, reason: DirectEnd) -> None:
        unacknowledged_count = self._link.renew(node)
        is_incoming_lost = reason is not DirectEnd.UNANSWERED
        undelivered_bytes = self._link.waiting_bytes(node) if is_incoming_lost else 0
        if unacknowledged_count or undelivered_bytes or reason is DirectEnd.STREAM:
            self._events.append(
                DirectClosed(
                    node=node,
                    reason=reason,
                    unacknowledged_count=unacknowledged_count,
                    undelivered_bytes=undelivered_bytes,
                )
            )


def _is_message(datagram: Datagram) -> bool:
    """Return whether a datagram has a part of a message to this program alone."""
    for submessage in datagram.submessages:
        found = stream_of(submessage.writer)
        if found is None or found[0].is_shared:
            return False
        if isinstance(submessage, (Data, DataFragment)):
            return True
    return False
