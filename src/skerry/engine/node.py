"""The node: receives what its clients publish, caches current objects, and notifies subscribers.

`NodeCore` is a pure machine over streams. It creates the parts of a node and connects them:

- connections of clients, from handshake to disconnection: `engine.connections`
- updates, from the publisher to the queues of subscribers: `engine.dispatch`, `engine.delivery`
- messages of clients to the node itself: `engine.services`

When the transport of a client is full, its queue is paused and grows until the client reads again,
its updates are conflated, or it is disconnected. Work that takes long, such as the replay of a
large cache, is done in slices each time the node is advanced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mypy_extensions import mypyc_attr

from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.origins import INSIDE, Origin
from skerry.engine.admission.permission_review import AdmissionRenewal, PermissionReviews
from skerry.engine.admission.shared_quotas import SharedQuotas
from skerry.engine.connections.client_table import ClientTable
from skerry.engine.connections.connections import Connections
from skerry.engine.connections.input_clock import InputClock
from skerry.engine.connections.service_host import ServiceHost
from skerry.engine.delivery.bulk_removal import BulkRemovals
from skerry.engine.dispatch.cache import Cache
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.ledger import NodeStatistics
from skerry.engine.dispatch.node_publisher import NodePublisher
from skerry.engine.dispatch.routing import Routing
from skerry.engine.events import NodeEvents
from skerry.engine.node_statistics import StatisticsCollector
from skerry.engine.persistence import Journal, StoredObject, StoredType
from skerry.engine.services.client_cleanup import ClientCleanup
from skerry.engine.services.node_services import NodeServices
from skerry.engine.services.picture import PublishedPicture, lone_picture
from skerry.engine.services.status_objects import StatusObjects
from skerry.engine.types.type_table import TypeTable
from skerry.ids import NODE_CLIENT
from skerry.limits import PAYLOAD_BYTES_MAX
from skerry.objects.base import Struct
from skerry.protocol.access.wire import Wire
from skerry.protocol.deadlines import earliest
from skerry.protocol.distributor.events import UpdatesLost
from skerry.protocol.distributor.receiving.link_quality import LinkReport
from skerry.protocol.machine import Address, CloseReason, MachineEvent, Transmit


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeCore:
    """One node. `wall_offset_ns` is added to monotonic time to get wall time.

    Without `extensions` it is a plain DOTS host, which sends nothing that the real ones do not.
    Updates for a client that receives a stream of them are delayed by up to `batch_delay_ns`
    (`engine.connections.output_batches`). With `has_peers` it is one of several nodes, and its
    program reports the picture of them; else it is a system of its own.
    """

    def __init__(
        self,
        *,
        name: str = "skerry",
        system: str = "local",
        wall_offset_ns: int = 0,
        node_id: int = 0,
        admission: Admission | None = None,
        journal: Journal | None = None,
        cache: Cache | None = None,
        extensions: bool = True,
        batch_delay_ns: int = 0,
        has_peers: bool = False,
    ) -> None:
        self.name = name
        self.system = system
        self._has_peers = has_peers
        self._picture: PublishedPicture | None = None
        self._endpoints: tuple[str, ...] = ()
        self.journal = journal
        self.cache = cache or Cache()
        self.cache.quotas.exempt_client = NODE_CLIENT
        self._extensions = extensions
        self.admission = admission or Admission()
        self._shares = SharedQuotas(self.admission.limits)
        self._clock = InputClock(wall_offset_ns)
        self._events = NodeEvents()
        self._table = ClientTable()
        self._routing = Routing(self._shares)
        self._dispatcher = Dispatcher(self.cache, self._routing, node=node_id)
        self._routing.attach(self._dispatcher)
        self._types = TypeTable(self._dispatcher, self._routing, journal, self._table.has_published)
        self._bulk_removals = BulkRemovals(self._dispatcher)
        parts = (self._dispatcher, self._routing, self._types)
        self._publisher = NodePublisher(self._clock, *parts, has_extensions=extensions)
        self._status_objects = StatusObjects(
            self.cache, self._publisher.publish, name=name, is_plain=not extensions
        )
        self.host = ServiceHost(
            clock=self._clock,
            table=self._table,
            cache=self.cache,
            journal=journal,
            admission=self.admission,
            shares=self._shares,
            events=self._events,
            publisher=self._publisher,
            status_objects=self._status_objects,
            bulk_removals=self._bulk_removals,
        )
        self._services = NodeServices(self.host, *parts, self.admission, has_peers=has_peers)
        self._cleanup = ClientCleanup(self.host, self._routing, self._services, self._types)
        self._reviews = PermissionReviews(self.host, self._routing, self._services)
        self._connections = Connections(
            node_name=name,
            batch_delay_ns=batch_delay_ns,
            clock=self._clock,
            table=self._table,
            events=self._events,
            admission=self.admission,
            shares=self._shares,
            dispatcher=self._dispatcher,
            types=self._types,
            services=self._services,
            status_objects=self._status_objects,
            cleanup=self._cleanup,
            bulk_removals=self._bulk_removals,
        )
        self.host.attach(self._connections)
        self._renewal = AdmissionRenewal(
            self.admission, self._shares, self._dispatcher, self._connections, self._reviews
        )
        self._renewal.apply_limits()
        self._statistics = StatisticsCollector(
            self._dispatcher, self._routing, self._types, self._services, self._connections, journal
        )

    @property
    def registry(self) -> Any:
        """The types that the node knows."""
        return self._types.registry

    def wall_s(self, now_ns: int) -> float:
        """Wall time in seconds."""
        return self._clock.wall_s(now_ns)

    # -- streams of clients

    def stream_opened(self, peer: Address, now_ns: int) -> None:
        """Open a connection with the current framing."""
        self.open(peer, Wire(), now_ns)

    def open(
        self,
        peer: Address,
        wire: Wire,
        now_ns: int,
        *,
        origin: Origin = INSIDE,
        extensions: bool = True,
    ) -> None:
        """Open a connection with the framing of its listener."""
        has_extensions = self._extensions and extensions and wire.version != 1
        self._connections.open(peer, wire, origin, now_ns, has_extensions=has_extensions)

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Process bytes from a client as far as its turn allows; the rest is queued."""
        self._connections.receive(data, source, now_ns)

    def receive_later(self, data: bytes, source: Address) -> None:
        """Queue bytes from a client; they are processed when the node is advanced."""
        self._connections.receive_later(data, source)

    def is_held(self, peer: Address) -> bool:
        """Whether the caller must not read more from a client.

        Its input is queued, or backpressure holds it. `take_released` returns it when that is over.
        """
        return self._connections.is_held(peer)

    def take_released(self) -> list[Address]:
        """Return the clients from which the caller should read again."""
        return self._connections.take_released()

    def stream_closed(self, peer: Address, _reason: CloseReason, now_ns: int) -> None:
        """Remove a client whose stream closed, after its queued input is processed."""
        self._connections.closed(peer, now_ns)

    def note_unfinished(self, peer: Address, size: int, now_ns: int) -> None:
        """Count the bytes of an incomplete message that the client's listener buffers."""
        self._connections.note_unfinished(peer, size, now_ns)

    def refuse_large(self, peer: Address, size: int, now_ns: int) -> None:
        """Refuse a message above the client's limit, which its listener skips."""
        self._connections.refuse_large(peer, size, now_ns)

    def pause(self, peer: Address) -> None:
        """Stop sending to a client whose transport is full; what follows is queued."""
        self._connections.pause(peer)

    def resume(self, peer: Address, now_ns: int) -> None:
        """Resume sending to a client whose transport accepts data again."""
        self._connections.resume(peer, now_ns)

    # -- time and output

    def advance(self, now_ns: int) -> None:
        """Do what is due: a slice of each unfinished work, answers, timeouts, status objects."""
        self._clock.set(now_ns)
        connections = self._connections
        due_ns = connections.batches.due_ns
        if due_ns is not None and due_ns <= now_ns:
            connections.batches.end_delays()
        connections.backpressure.advance(now_ns)
        self._cleanup.advance()
        self._reviews.advance()
        self._bulk_removals.advance(self._clock.wall_ns(now_ns))
        connections.turns.run_round(now_ns)
        self._services.advance(now_ns)
        connections.advance(now_ns)
        clients, statistics = self._table.by_id.values(), self._statistics
        self._status_objects.advance(now_ns, clients, statistics.status, statistics.ledger_objects)

    def deadline_ns(self) -> int | None:
        """When to call `advance`: at once while any work is unfinished."""
        return earliest(self.task_deadline_ns(), self._connections.batches.due_ns)

    def task_deadline_ns(self) -> int | None:
        """The same without delayed updates, for a driver that also asks for `batch_due_ns`."""
        has_turns = bool(self._connections.turn_queue)
        if has_turns or self._bulk_removals or self._cleanup or self._reviews:
            return self._clock.now_ns
        due_ns = earliest(self._status_objects.deadline_ns(), self._services.deadline_ns())
        return earliest(due_ns, self._connections.deadline_ns())

    def take_transmits(self) -> list[Transmit]:
        """Return what is to be sent: the queues that have something new, and closed streams."""
        return self._connections.take_transmits()

    def take_events(self) -> list[MachineEvent]:
        """Return the events since the last call, oldest first."""
        return self._events.take()

    def batch_due_ns(self) -> int | None:
        """When `end_delays` has to be called, so that delayed updates are sent."""
        return self._connections.batches.due_ns

    def end_delays(self, now_ns: int) -> None:
        """Send all delayed updates with the next output."""
        self._clock.set(now_ns)
        self._connections.batches.end_delays()

    def statistics(self) -> NodeStatistics:
        """All counters, and the ledger."""
        return self._statistics.collect()

    # -- for the program that runs the node

    def restored(self, stored: StoredType | StoredObject) -> None:
        """Load a type or an object from the storage, before the first client connects."""
        assert self._table.is_unused
        self._types.restore(stored)

    def restored_meta(self, meta: Mapping[str, int]) -> None:
        """Continue the position and the client ids of the stored state."""
        self._dispatcher.position = max(int(self._dispatcher.position), meta.get("position", 0))
        self._table.next_id = max(self._table.next_id, meta.get("client", 0) + 1)

    def set_usage(self, usage: Mapping[str, float]) -> None:
        """Set what the node uses of its computer: fields of DotsResourceUsage."""
        self._status_objects.usage = usage

    def set_endpoints(self, endpoints: Sequence[str], now_ns: int) -> None:
        """Publish the endpoints of this node as part of the picture."""
        self._endpoints = tuple(endpoints)
        self._publish_picture(now_ns)

    def set_picture(self, seen: PublishedPicture, now_ns: int) -> None:
        """Publish a changed picture; an excluded node joins again with another id."""
        self._picture = seen
        self._dispatcher.node = seen.node
        self._publish_picture(now_ns)

    def wants(self, type_name: str) -> bool:
        """Whether any client subscribed to an internal type of which the program makes objects."""
        return self._publisher.is_wanted(type_name)

    def publish(self, objects: Iterable[Struct], now_ns: int) -> None:
        """Publish objects of internal types as the node."""
        self._clock.set(now_ns)
        for obj in objects:
            self._publisher.publish(obj, now_ns)

    def publish_loss(self, lost: UpdatesLost, now_ns: int) -> None:
        """Publish that messages of another node were lost and cannot be delivered here."""
        self._publisher.publish_loss(lost, now_ns)

    def publish_link(self, link: LinkReport, receiver: str, now_ns: int) -> None:
        """Publish how well the datagrams of a sender arrive here, if any client subscribed."""
        self._publisher.publish_link(link, receiver, now_ns)

    def set_wall_offset(self, wall_offset_ns: int, _now_ns: int) -> None:
        """Set the offset of wall time, after the wall clock was changed."""
        self._clock.wall_offset_ns = wall_offset_ns

    def renew_admission(self, config: AdmissionConfig, now_ns: int) -> None:
        """Replace the rules for authentication, permissions and limits."""
        self._clock.set(now_ns)
        self._renewal.renew(config)

    def farewell(self, now_ns: int) -> None:
        """End all connections in order, and finish all removals, before the node stops."""
        self._connections.end_all(now_ns)
        self._cleanup.complete()
        # The stored state must not have objects that are removed with their clients.
        self._bulk_removals.complete(self._clock.wall_ns(now_ns))

    def carry(self, peer: Address) -> None:
        """Let an accepted client exchange messages with other nodes (a carriage).

        It receives all messages to the site, also of types that are described later. The messages
        that it publishes were measured at the node of their publisher, so its own quota for
        publishing does not apply.
        """
        client = self._table.by_address[peer]
        client.meter = None
        client.input.can_wait = False
        client.queue.source.update_bytes_max = PAYLOAD_BYTES_MAX
        client.limit_frames()
        self._routing.carry(client)

    def _publish_picture(self, now_ns: int) -> None:
        self._clock.set(now_ns)
        if self._picture is None and not self._has_peers:
            self._picture = lone_picture(node=int(self._dispatcher.node), name=self.name)
        if self._picture is not None:
            self._publisher.publish_picture(
                self._picture, now_ns, system=self.system, endpoints=self._endpoints
            )
