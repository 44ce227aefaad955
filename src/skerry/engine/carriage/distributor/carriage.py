"""The carriage by distributor: forwards messages between a node and the group of its system.

It connects two machines. For the node it is a client inside the program that receives all messages
whose type has the scope of the site. For the group it is a publisher of these messages, and a
subscriber of all subjects. A message from the group is never sent to the group again, nor one of
the node to the node.

Its driver opens a stream to the node at `opens_ns`, passes the bytes from the node to `node_said`,
and drives it like any machine towards the network. The carriage calls the node directly; the driver
of the node transmits what the node then has to send to its clients.
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

SYSTEM_PORT: Final = 4711
_MS: Final = 1_000_000
_SENDER_EVENTS: Final = (Delivered, SenderFound, SenderRemoved, StartUnknown, UpdatesLost)
_LINKS_INTERVAL_NS: Final = 10_000_000_000
"""How often the quality of the links from other senders is published."""
_REOPEN_DELAY_NS: Final = 1_000_000_000
"""Delay before a new stream after the node closed one. The reason is most likely a limit, which
persists for a while."""


def system_group(system: str) -> Address:
    """The multicast group of a system. Systems on one network have different groups."""
    low = hash64(system) & 0xFFFF
    return Address(f"239.193.{low >> 8}.{low & 0xFF}", SYSTEM_PORT)


class GroupCarriage:
    """Forwards messages between `core` and `connection`, which belongs to the carriage."""

    def __init__(
        self,
        core: NodeCore,
        connection: GroupConnection,
        *,
        config: DistributorConfig,
        now_ns: int,
        name: str = "carrier",
    ) -> None:
        """`config` is that of the connection, `name` the client name of the carriage."""
        interval_ns = config.configuration_interval_ms * _MS
        self._core = core
        self._connection = connection
        self._dialect = config.dialect
        self._types = CarriedTypes(core.registry)
        self._node_client = NodeClient(core, name=name)
        self._outgoing = GroupOutgoing(
            connection, interval_ns=interval_ns, update_bytes_max=config.update_bytes_max
        )
        self._incoming = GroupIncoming(
            core.registry, self._types, self._node_client, interval_ns=interval_ns
        )
        self._events: list[MachineEvent] = []
        self._is_paused = False
        self._cut_count = 0
        self._links_due_ns = now_ns + _LINKS_INTERVAL_NS
        self.opens_ns: int | None = now_ns
        """When the driver must open a stream to the node; None while one is open."""
        connection.subscribe("/...", None, now_ns)
        connection.open_publisher(now_ns)

    # -- towards the node

    @property
    def address(self) -> Address | None:
        """The address of the stream at the node; None while there is no stream."""
        return self._node_client.address

    def node_opened(self, address: Address) -> None:
        """The driver opened a stream to the node."""
        self.opens_ns = None
        self._node_client.opened(address)
        self._incoming.node_opened()

    def node_said(self, data: bytes, now_ns: int) -> None:
        """Process bytes from the node."""
        if self._node_client.address is None:
            return
        own_id = self._node_client.client_id
        for header, body, at in self._node_client.read(data, now_ns):
            # The node also delivers the messages that the carriage itself published.
            if header.sender == own_id:
                continue
            carried = self._types.get(header.type_name)
            assert carried is not None, f"the node sent {header.type_name} and does not know it"
            self._outgoing.send(carried, header, body, at, now_ns)
        self._outgoing.flush(now_ns)
        self._pace(now_ns)

    def node_closed(self, now_ns: int) -> None:
        """The node closed the stream, or it broke."""
        self._cut_count += 1
        self._is_paused = False
        self._node_client.closed()
        self.opens_ns = now_ns + _REOPEN_DELAY_NS

    # -- towards the group

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Process a datagram of the group; call `settle` after one or more of them."""
        self._connection.receive(data, source, now_ns)

    def settle(self, now_ns: int) -> None:
        """Pass the node all messages that were received since the last call."""
        for event in self._connection.take_events():
            # A connection also receives its own datagrams.
            if isinstance(event, _SENDER_EVENTS) and self._is_own(event.sender):
                continue
            if isinstance(event, Delivered):
                for subject, data in event.updates:
                    self._incoming.take(event.sender, subject, data, now_ns)
                continue
            if isinstance(event, UpdatesLost):
                # The loss is reported after the messages before it.
                self._node_client.flush(now_ns)
                self._core.publish_loss(event, now_ns)
            self._events.append(event)
        self._node_client.flush(now_ns)
        self._events += self._incoming.events
        self._incoming.events.clear()

    def advance(self, now_ns: int) -> None:
        """Process what is due."""
        self._connection.advance(now_ns)
        self._outgoing.advance(now_ns)
        self._incoming.advance(now_ns)
        self._pace(now_ns)
        self.settle(now_ns)
        if now_ns >= self._links_due_ns:
            self._publish_links(now_ns)

    def close(self, now_ns: int) -> None:
        """Leave the group. An event reports when the last repair requests are answered."""
        self._publish_links(now_ns)
        self._outgoing.flush(now_ns)
        self._connection.close(now_ns)

    def take_events(self) -> list[MachineEvent]:
        """The events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def take_transmits(self) -> list[Transmit]:
        """The datagrams to be sent to the group since the last call, in order."""
        return list(self._connection.take_transmits())

    def take_datagrams(self) -> list[bytes]:
        """The same without their destination."""
        return self._connection.take_datagrams()

    def deadline_ns(self) -> int | None:
        """When to call `advance`, or to open a stream to the node."""
        due = (
            self._connection.deadline_ns(),
            self._outgoing.deadline_ns(),
            self._incoming.deadline_ns(),
            self.opens_ns,
        )
        return min((ns for ns in due if ns is not None), default=None)

    def statistics(self) -> CarriageStatistics:
        """An immutable snapshot of the counters."""
        incoming, outgoing = self._incoming, self._outgoing
        dropped = incoming.dropped + outgoing.dropped
        dropped[DropReason.REFUSED] += self._node_client.refusal_count
        return CarriageStatistics(
            sent_count=outgoing.sent_count,
            brought_count=incoming.brought_count,
            described_count=outgoing.described_count,
            dropped={reason.value: dropped[reason] for reason in CARRIAGE_DROPS},
            conflict_count=incoming.conflict_count,
            cut_count=self._cut_count,
            used_type_count=outgoing.used_type_count,
            waiting_count=incoming.waiting_count + outgoing.pending_count,
            is_connected=self._node_client.is_open,
            group=self._connection.statistics(),
        )

    def _publish_links(self, now_ns: int) -> None:
        # It has no deadline of its own: heartbeats of the group call `advance` more often.
        self._links_due_ns = now_ns + _LINKS_INTERVAL_NS
        mine = self._connection.identity
        receiver = f"{self._connection.own_host}:{mine.sender_id}"
        for link in self._connection.take_links():
            if not self._is_own(link.sender):
                self._core.publish_link(link, receiver, now_ns)

    def _pace(self, now_ns: int) -> None:
        """Pause the node while the group has no bandwidth: the queue of the node is bounded."""
        address = self._node_client.address
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
