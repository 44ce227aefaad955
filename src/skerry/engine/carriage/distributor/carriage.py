"""The carrier: brings messages of the site from a node to the group of its system, and back.

It sits between two machines. To the node it is a client inside the program, which hears all
messages whose type says that they go to the site. To the group it is a publisher of these, and
a subscriber of all there is. What it brought in is never sent out again, nor the other way round.

Whoever drives it opens a stream to the node when `opens_ns` says so, carries the node's bytes to
`node_said`, and treats it as any machine towards the network. What it has to tell the node it tells
the core at once; what the core then has to say to others is up to whoever drives that.
"""

from __future__ import annotations

from typing import Final

from skerry.engine.carriage.distributor.events import CARRIAGE_DROPS, CarriageStatistics
from skerry.engine.carriage.distributor.incoming import GroupIncoming
from skerry.engine.carriage.distributor.node_client import NodeClient
from skerry.engine.carriage.distributor.outgoing import GroupOutgoing
from skerry.engine.carriage.distributor.types import CarriedTypes
from skerry.engine.node import NodeCore
from skerry.ids import hash64
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import (
    Delivered,
    SenderFound,
    SenderInfo,
    SenderRemoved,
    StartUnknown,
    UpdatesLost,
)
from skerry.protocol.machine import Address, MachineEvent, Transmit
from skerry.tracing import DropReason

__all__ = ["SYSTEM_PORT", "GroupCarriage", "system_group"]

SYSTEM_PORT: Final = 4711
_MS: Final = 1_000_000
_OF_SENDERS: Final = (Delivered, SenderFound, SenderRemoved, StartUnknown, UpdatesLost)
_LINKS_NS: Final = 10_000_000_000
"""How often it is told how well the datagrams of others arrive."""
_REOPEN_NS: Final = 1_000_000_000
"""After the node cut the carrier. Its reason, a limit most likely, will hold for a while."""


def system_group(system: str) -> Address:
    """The group of a system's nodes, so that two systems on one network do not meet."""
    low = hash64(system) & 0xFFFF
    return Address(f"239.193.{low >> 8}.{low & 0xFF}", SYSTEM_PORT)


class GroupCarriage:
    """Between `core` and `connection`, which from now on belongs to the carrier."""

    def __init__(
        self,
        core: NodeCore,
        connection: GroupConnection,
        *,
        config: DistributorConfig,
        now_ns: int,
        name: str = "carrier",
    ) -> None:
        """`config` is that of the connection, `name` how the carrier is called among clients."""
        interval_ns = config.configuration_interval_ms * _MS
        self._core = core
        self._connection = connection
        self._dialect = config.dialect
        self._types = CarriedTypes(core.registry)
        self._door = NodeClient(core, name=name)
        self._outgoing = GroupOutgoing(
            connection, interval_ns=interval_ns, update_bytes_max=config.update_bytes_max
        )
        self._incoming = GroupIncoming(
            core.registry, self._types, self._door, interval_ns=interval_ns
        )
        self._events: list[MachineEvent] = []
        self._is_paused = False
        self._cut_count = 0
        self._links_ns = now_ns + _LINKS_NS
        self.opens_ns: int | None = now_ns
        """When a stream to the node is to be opened; None while there is one."""
        connection.subscribe("/...", None, now_ns)
        connection.open_publisher(now_ns)

    # -- towards the node

    @property
    def address(self) -> Address | None:
        """By which the node knows the carrier; None while there is no stream."""
        return self._door.address

    def node_opened(self, address: Address) -> None:
        """There is a stream to the node."""
        self.opens_ns = None
        self._door.opened(address)
        self._incoming.node_opened()

    def node_said(self, data: bytes, now_ns: int) -> None:
        """Bytes from the node."""
        if self._door.address is None:
            return
        own_id = self._door.client_id
        for header, body, at in self._door.hear(data, now_ns):
            # What was brought in comes back, as to everybody who listens.
            if header.sender == own_id:
                continue
            carried = self._types.get(header.type_name)
            assert carried is not None, f"the node sent {header.type_name} and does not know it"
            self._outgoing.send(carried, header, body, at, now_ns)
        self._outgoing.flush(now_ns)
        self._pace(now_ns)

    def node_closed(self, now_ns: int) -> None:
        """The node ended the stream, or it broke."""
        self._cut_count += 1
        self._is_paused = False
        self._door.closed()
        self.opens_ns = now_ns + _REOPEN_NS

    # -- towards the group

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Take a datagram of the group; `settle` then acts on what it brought."""
        self._connection.receive(data, source, now_ns)

    def settle(self, now_ns: int) -> None:
        """Hand the node what came with all that was received since the last time."""
        for event in self._connection.take_events():
            # A connection hears itself, too.
            if isinstance(event, _OF_SENDERS) and self._is_own(event.sender):
                continue
            if isinstance(event, Delivered):
                for subject, data in event.updates:
                    self._incoming.take(event.sender, subject, data, now_ns)
                continue
            if isinstance(event, UpdatesLost):
                # It is told after what came before it.
                self._door.flush(now_ns)
                self._core.tell_loss(event, now_ns)
            self._events.append(event)
        self._door.flush(now_ns)
        self._events += self._incoming.events
        self._incoming.events.clear()

    def advance(self, now_ns: int) -> None:
        """Do what is due."""
        self._connection.advance(now_ns)
        self._outgoing.advance(now_ns)
        self._incoming.advance(now_ns)
        self._pace(now_ns)
        self.settle(now_ns)
        if now_ns >= self._links_ns:
            self._tell_links(now_ns)

    def close(self, now_ns: int) -> None:
        """Say goodbye to the group. The connection tells when it has served the last requests."""
        self._tell_links(now_ns)
        self._outgoing.flush(now_ns)
        self._connection.close(now_ns)

    def take_events(self) -> list[MachineEvent]:
        """The events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def take_transmits(self) -> list[Transmit]:
        """What is to be sent to the group since the last call, in order."""
        return list(self._connection.take_transmits())

    def take_datagrams(self) -> list[bytes]:
        """The same without its destination."""
        return self._connection.take_datagrams()

    def deadline_ns(self) -> int | None:
        """When to `advance`, or to open a stream to the node."""
        due = (
            self._connection.deadline_ns(),
            self._outgoing.deadline_ns(),
            self._incoming.deadline_ns(),
            self.opens_ns,
        )
        return min((ns for ns in due if ns is not None), default=None)

    def statistics(self) -> CarriageStatistics:
        """Counters, and what is held now."""
        incoming, outgoing = self._incoming, self._outgoing
        dropped = incoming.dropped + outgoing.dropped
        dropped[DropReason.REFUSED] += self._door.refusal_count
        return CarriageStatistics(
            sent_count=outgoing.sent_count,
            brought_count=incoming.brought_count,
            described_count=outgoing.described_count,
            dropped={reason.value: dropped[reason] for reason in CARRIAGE_DROPS},
            conflict_count=incoming.conflict_count,
            cut_count=self._cut_count,
            used_type_count=outgoing.used_type_count,
            waiting_count=incoming.waiting_count + outgoing.pending_count,
            is_connected=self._door.is_open,
            group=self._connection.statistics(),
        )

    # -- inside

    def _tell_links(self, now_ns: int) -> None:
        # Nobody is woken for it: the heartbeats of the group are more often.
        self._links_ns = now_ns + _LINKS_NS
        mine = self._connection.identity
        receiver = f"{self._connection.own_host}:{mine.sender_id}"
        for link in self._connection.take_links():
            if not self._is_own(link.sender):
                self._core.tell_link(link, receiver, now_ns)

    def _pace(self, now_ns: int) -> None:
        """Let the node keep what the group has no bandwidth for: there it is bounded."""
        address = self._door.address
        is_full = self._outgoing.pending_count > 0
        if address is None or is_full == self._is_paused:
            return
        self._is_paused = is_full
        if is_full:
            self._core.pause(address)
        else:
            self._core.resume(address, now_ns)

    def _is_own(self, sender: SenderInfo) -> bool:
        mine = self._connection.identity
        return (sender.sender_id, sender.start & 0xFFFFFFFF, sender.application_id) == (
            mine.sender_id,
            mine.start(self._dialect),
            mine.application_id,
        )
