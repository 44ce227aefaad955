"""The node: takes what its clients publish, keeps what is current, and tells those who asked.

A pure machine carried by streams. Each client has a connection (`protocol.access.server`), which
keeps the rules of the talk, and a lane, on which waits what it is to hear. Objects go through the
hub; here is everything that is not an object on its way: who comes and goes, and what clients ask
of the node itself (`engine.services.node_services`).

A client whose transport is full is paused, and its lane fills until it is conflated or cut. A
replay of many objects goes on piece by piece each time the node is advanced.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mypy_extensions import mypyc_attr

from skerry.codec.pieces import split
from skerry.engine.admission.admission import (
    INSIDE,
    Admission,
    AdmissionConfig,
    ClientLimits,
    Origin,
    Rights,
)
from skerry.engine.admission.pending_connections import PendingConnections
from skerry.engine.admission.permission_review import PermissionReviews
from skerry.engine.admission.secret_delays import SecretDelays
from skerry.engine.admission.shared_quotas import Excess, Holder, Resource, SharedQuotas
from skerry.engine.clients import Client, Input
from skerry.engine.delivery.backpressure import Backpressure
from skerry.engine.delivery.bulk_removal import BulkRemovals
from skerry.engine.dispatch.cache import Cache
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.frame_intake import FrameIntake
from skerry.engine.dispatch.ledger import NodeStatistics, client_row, ledger_object, type_rows
from skerry.engine.dispatch.routing import Routing
from skerry.engine.dispatch.topics import Topic
from skerry.engine.events import (
    ClientConnected,
    ClientDisconnected,
    ClientRefused,
    ConnectionTurnedAway,
)
from skerry.engine.persistence import Journal, StoredObject, StoredType
from skerry.engine.services.client_cleanup import ClientCleanup
from skerry.engine.services.node_services import NodeServices
from skerry.engine.services.picture import lone_picture
from skerry.engine.services.status_objects import StatusObjects
from skerry.engine.types.node_types import NodeTypes
from skerry.errors import SchemaMismatchError
from skerry.ids import NODE_CLIENT
from skerry.limits import (
    FRESH_LOOK_COUNT,
    JSON_STEP_BYTES,
    PAYLOAD_BYTES_MAX,
    REPLAY_SLICE_BYTES,
    ROUND_LOOK_COUNT,
)
from skerry.objects.base import Struct, codec_of
from skerry.objects.internal import internal_class
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.header import Header
from skerry.protocol.access.json.writing import JsonNodeWire
from skerry.protocol.access.server import ConnectAsked, ServerConnection
from skerry.protocol.access.wire import Wire
from skerry.protocol.deadlines import earliest
from skerry.protocol.distributor.events import UpdatesLost
from skerry.protocol.distributor.receiving.link_quality import Link
from skerry.protocol.machine import Address, CloseReason, Disconnect, MachineEvent, Transmit
from skerry.protocol.outbox import Outbox
from skerry.schema.internal import LINK_TYPE

__all__ = ["NodeCore"]

_FIRST_CLIENT = 2
_BYTES_PER_LOOK = 64
"""Bytes of a replay that take as long as one look."""
_SUBJECTS = 1
_ORIGIN = 2


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeCore(Outbox):
    """One node. `wall_offset_ns` is what to add to monotonic time to get wall time.

    Without `extensions` it is a plain DOTS host, which sends nothing that the real ones do not.
    Updates for a client that receives a stream of them are delayed by up to `batch_delay_ns`, so
    that updates of several publishers are sent together (`ClientQueue.is_delayed`).
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
    ) -> None:
        super().__init__()
        self.name = name
        self.system = system
        self.journal = journal
        self.cache = cache or Cache()
        self.cache.spare(NODE_CLIENT)
        self._admission = admission or Admission()
        self._shares = SharedQuotas(self._admission.limits)
        self._routing = Routing(self._shares)
        self._hub = Dispatcher(self.cache, self._routing, node=node_id)
        self._routing.attach(self._hub)
        self._types = NodeTypes(self._hub, self._routing, journal, self._has_published)
        self._bound_addresses()
        self._extensions = extensions
        self._wall_offset_ns = wall_offset_ns
        self._backpressure = Backpressure(self._admission.limits.backpressure_s_max)
        self._sweeps = BulkRemovals(self._hub)
        self._now_ns = 0
        self._started_ns: int | None = None
        self._clients: dict[Address, Client] = {}
        self._by_id: dict[int, Client] = {}
        self._waiting: dict[int, Client] = {}
        """Those who have not introduced themselves, in the order in which they came."""
        self._silent: PendingConnections[Client] = PendingConnections()
        """Those of them that may be closed to make room for others."""
        self._busy: OrderedDict[int, Client] = OrderedDict()
        """Clients with queued input or tasks on their agenda, in the order of their turns."""
        self._fresh: OrderedDict[int, Client] = OrderedDict()
        """Clients whose input arrived when the time of the loop's turn was used up; they have their
        turn before the others."""
        self._released: list[Address] = []
        """Clients that have no queued input any more."""
        self._attempts = SecretDelays()
        self._next_client = _FIRST_CLIENT
        self._roster = StatusObjects(self.cache, self.say, name=name, is_plain=not extensions)
        self._services = NodeServices(self, self._hub, self._routing, self._types, self._admission)
        self._departures = ClientCleanup(
            self, self._routing, self._services, self._types, self._sweeps
        )
        self._reviews = PermissionReviews(self, self._services)
        self._arrivals = FrameIntake(self, self._hub, self._types, self._services)
        self._received_bytes = 0
        self._sent = [0, 0]
        self._refusals: Counter[str] = Counter()
        self._ends: Counter[str] = Counter()
        self._picture_count = 0
        self._batch_delay_ns = batch_delay_ns
        self._batch_due_ns: int | None = None

    @property
    def now_ns(self) -> int:
        """The time of what happens now."""
        return self._now_ns

    @property
    def limits(self) -> ClientLimits:
        """The quotas of one client and of one address."""
        return self._admission.limits

    @property
    def shares(self) -> SharedQuotas:
        """What all clients use together."""
        return self._shares

    @property
    def registry(self) -> Any:
        """The types that the node knows."""
        return self._types.registry

    # -- the machine's contract

    def stream_opened(self, peer: Address, now_ns: int) -> None:
        """A client connects, by the current framing."""
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
        """A client connects through a door with its own framing."""
        self._note_time(now_ns)
        has_extensions = self._extensions and extensions and wire.version != 1
        why = self._admission.arriving(origin)
        if why is not None and self._turn_out_silent(origin):
            why = self._admission.arriving(origin)
        if why is not None:
            self._turn_away(peer, wire, origin, why, has_extensions=has_extensions)
            return
        lane = ClientQueue(self._next_client, wire, self._hub.listed)
        self._next_client += 1
        connection = ServerConnection(wire, client_id=int(lane.client_id), outgoing=lane)
        limits = self._admission.limits
        lane.object_count_max = limits.object_count_max
        lane.object_bytes_max = limits.object_bytes_max
        lane.update_bytes_max = limits.update_bytes_max
        client = Client(peer, connection, lane, origin=origin, limits=limits, opened_ns=now_ns)
        client.limit_frames()
        client.nonce = self._admission.challenge(origin)
        client.household = self._admission.household(origin)
        client.holder = Holder(origin.share, is_trusted=origin.is_trusted)
        if client.household is not None:
            self.cache.locate(client.client_id, client.household.address)
        if not origin.is_trusted:
            self._silent.enter(client, origin.share)
        self._clients[peer] = client
        self._by_id[client.client_id] = client
        self._waiting[client.client_id] = client
        self._roster.tell_state(client, now_ns)
        self._roster.note_activity(now_ns)
        client.has_extensions = has_extensions
        connection.greet(
            self.name,
            self.wall_s(now_ns),
            challenge=client.nonce,
            extensions=client.has_extensions,
        )

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Bytes from a client."""
        client = self._clients.get(source)
        if client is None:
            return
        self._note_time(now_ns)
        self._roster.note_activity(now_ns)
        client.received_bytes += len(data)
        self._received_bytes += len(data)
        if client.connection.is_over:
            return
        client.lane.begin_turn()
        self._sweeps.begin_turn()
        self._departures.begin_turn()
        if self._backpressure.is_active:
            self._backpressure.begin()
            self._arrivals.take(client, data, now_ns)
            self._backpressure.end(client)
        else:
            self._arrivals.take(client, data, now_ns)
        self._look_at_unfinished(client)
        if client.input.is_held:
            self._list(client)

    def receive_later(self, data: bytes, source: Address) -> None:
        """Queue bytes from a client; they are processed when the node is advanced."""
        client = self._clients.get(source)
        if client is None or client.connection.is_over:
            return
        client.received_bytes += len(data)
        self._received_bytes += len(data)
        client.input.data.append(data)
        if not client.input.is_held:
            client.input.is_held = True
            self._fresh[client.client_id] = client

    def is_held(self, peer: Address) -> bool:
        """Whether the caller must not read more from a client.

        Its input is queued, or backpressure holds it. `take_released` returns it when that is over.
        """
        client = self._clients.get(peer)
        if client is None:
            return False
        return client.input.is_held or self._backpressure.is_held(client)

    def take_released(self) -> list[Address]:
        """Clients from which the caller should read again."""
        released, more = self._released, self._backpressure.released
        if not released and not more:
            return []
        # A client may wait for both reasons, and may already wait again.
        found = dict.fromkeys([*released, *more])
        released.clear()
        more.clear()
        return [address for address in found if not self.is_held(address)]

    def stream_closed(self, peer: Address, _reason: CloseReason, now_ns: int) -> None:
        """A client disconnected, orderly or not; input that it sent before is still processed."""
        self._note_time(now_ns)
        client = self._clients.get(peer)
        if client is None:
            return
        if client.input.is_held:
            client.input.is_last = True
        else:
            self._forget(client, now_ns, "lost")

    def note_unfinished(self, peer: Address, size: int, now_ns: int) -> None:
        """Note the size of an incomplete message that the client's listener buffers."""
        client = self._clients.get(peer)
        if client is not None:
            self._note_time(now_ns)
            self._note_unfinished(client, size)

    def met_large(self, peer: Address, size: int, now_ns: int) -> None:
        """A client sends a message above its limit, which its listener skips."""
        client = self._clients.get(peer)
        if client is not None:
            self._note_time(now_ns)
            self.refuse_large(client, "", size, now_ns)

    def pause(self, peer: Address) -> None:
        """The transport of a client has more than it likes; what follows waits here."""
        client = self._clients.get(peer)
        if client is not None:
            client.is_full = client.lane.is_paused = True
            self._list(client)

    def resume(self, peer: Address, now_ns: int) -> None:
        """The transport has room again."""
        client = self._clients.get(peer)
        if client is None:
            return
        self._note_time(now_ns)
        client.is_full = False
        client.lane.begin_turn()
        if client.writing is not None:
            self._list(client)
        else:
            self._unpause(client)
            self._continue(client, now_ns)

    def advance(self, now_ns: int) -> None:
        """Do what is due: replays that go on, echoes that may go out, clients to be forgotten."""
        self._note_time(now_ns)
        if self._batch_due_ns is not None and self._batch_due_ns <= now_ns:
            self.end_delays(now_ns)
        self._backpressure.advance(now_ns)
        self._departures.advance()
        self._reviews.advance()
        self._sweeps.advance(self.wall_ns(now_ns))
        self._serve_round(now_ns)
        self._services.advance(now_ns)
        for client, asked in self._attempts.take_due(now_ns):
            self._decide(client, asked, now_ns)
        self._cut_silent(now_ns)
        self._roster.advance(now_ns, self._by_id.values(), self._status, self._ledger)

    def deadline_ns(self) -> int | None:
        """When to call `advance`; at once while a replay, a removal or input could go on."""
        return earliest(self.task_deadline_ns(), self._batch_due_ns)

    def task_deadline_ns(self) -> int | None:
        """The same without delayed updates, for a driver that also asks for `batch_due_ns`."""
        if self._sweeps or self._departures or self._reviews or self._busy or self._fresh:
            return self._now_ns
        due_ns = earliest(self._roster.deadline_ns(), self._services.deadline_ns())
        due_ns = earliest(due_ns, self._attempts.deadline_ns())
        due_ns = earliest(due_ns, self._backpressure.deadline_ns())
        if self._waiting:
            waiting = next(iter(self._waiting.values()))
            due_ns = earliest(due_ns, self._handshake_due_ns(waiting))
        return due_ns

    def take_transmits(self) -> list[Transmit]:
        """What is to be sent, a piece for each client that has something new to hear."""
        if self._shares.overdrawn:
            self._cut_overdrawn()
        listed = self._hub.listed
        looks = ROUND_LOOK_COUNT
        # Cutting one client gives others something to hear.
        index = 0
        delayed: list[Client] = []
        is_batch_sent = False
        while index < len(listed):
            lane = listed[index]
            index += 1
            lane.unlisted()
            client = self._by_id.get(int(lane.client_id))
            if client is None:
                lane.expire()
            elif lane.wire.unsendable:
                self._drop_unsendable(client)
            elif lane.is_paused:
                self._check_waiting(client)
            elif lane.is_delayed(self._now_ns, self._batch_delay_ns):
                delayed.append(client)
            elif lane.size:
                is_batch_sent = is_batch_sent or lane.batch_due_ns != 0
                looks -= self._hand_out(client, looks)
        listed.clear()
        self._batch_due_ns = None
        for client in delayed:
            lane = client.lane
            if is_batch_sent:
                # The updates that ended one delay came with those for the others, as a rule. To
                # wake up again for the others alone would cost more than it could gain.
                looks -= self._hand_out(client, looks)
                continue
            lane.list_again()
            due_ns = int(lane.batch_due_ns)
            if self._batch_due_ns is None or due_ns < self._batch_due_ns:
                self._batch_due_ns = due_ns
        return super().take_transmits()

    def batch_due_ns(self) -> int | None:
        """When `end_delays` has to be called, so that delayed updates are transmitted."""
        return self._batch_due_ns

    def end_delays(self, now_ns: int) -> None:
        """Transmit all delayed updates with the next output."""
        self._note_time(now_ns)
        for lane in self._hub.listed:
            lane.end_delay()

    def statistics(self) -> NodeStatistics:
        """All counters, and the ledger."""
        topics = self._hub.all_topics()
        journal = None if self.journal is None else self.journal.statistics()
        return NodeStatistics(
            started_ns=self._started_ns or 0,
            client_count=len(self._clients),
            type_count=len(self._types.registry),
            group_count=self._routing.group_count,
            object_count=int(self.cache.object_count),
            payload_bytes=int(self.cache.payload_bytes),
            received_count=self._arrivals.count,
            received_bytes=self._received_bytes,
            sent_count=self._sent[0],
            sent_bytes=self._sent[1],
            accepted_count=int(self._hub.position),
            conflict_count=self._types.registry.conflict_count,
            storage_waiting_count=0 if journal is None else journal.waiting_count,
            storage_trouble="" if journal is None else journal.trouble,
            held_count=self._services.held_count,
            backpressure_count=self._backpressure.count,
            requests=self._services.request_counts,
            refusals=dict(self._refusals),
            ends=dict(self._ends),
            clients=tuple(client_row(client) for client in self._clients.values()),
            types=type_rows(topics, self._clients.values(), self._routing.member_count),
        )

    # -- for whoever runs it

    def bound_connections(self, place_count: int) -> None:
        """Set how many connections the computer can hold."""
        self._admission.bound_connections(place_count)

    def restored(self, stored: StoredType | StoredObject) -> None:
        """Take back a type or an object that survived the last life, before the first client."""
        assert self._next_client == _FIRST_CLIENT or not self._clients
        self._types.restore(stored)

    def restored_meta(self, meta: Mapping[str, int]) -> None:
        """Go on counting where the last life stopped."""
        self._hub.position = max(int(self._hub.position), meta.get("position", 0))
        self._next_client = max(self._next_client, meta.get("client", 0) + 1)

    def tell_usage(self, usage: Mapping[str, float]) -> None:
        """What the node uses of its computer: fields of DotsResourceUsage."""
        self._roster.usage = usage

    def tell_picture(self, now_ns: int, *, endpoints: Sequence[str]) -> None:
        """Publish the picture of the system, which is this node alone, and where it listens."""
        if not self._extensions:
            return
        self._note_time(now_ns)
        self._picture_count += 1
        picture = lone_picture(
            system=self.system,
            node_id=int(self._hub.node),
            name=self.name,
            endpoints=endpoints,
            started_s=seconds_of_ns(self._started_ns or 0),
            sequence=self._picture_count,
        )
        self.say(picture, now_ns)

    def set_wall_offset(self, wall_offset_ns: int, _now_ns: int) -> None:
        """Somebody set the wall clock."""
        self._wall_offset_ns = wall_offset_ns

    def renew_admission(self, config: AdmissionConfig, now_ns: int) -> None:
        """Replace the rules for authentication, permissions and limits.

        Permissions and shares of addresses apply at once. A client that joined or claimed something
        it may no longer use is disconnected with the reason when its turn of the review comes
        (`engine.admission.permission_review`). Authentication and limits apply to new connections.
        """
        self._note_time(now_ns)
        self._admission.renew(config)
        self._backpressure.renew(config.limits.backpressure_s_max)
        self._bound_addresses()
        let_in = [client for client in self._clients.values() if client.rights is not None]
        for client in let_in:
            client.renew_rights(partial(self._rights_of, client))
        # Subscribers that may not see some subjects are part of a route.
        for topic in self._hub.all_topics():
            topic.forget_routes()
        self._reviews.begin(let_in)
        self._routing.hide()
        self._reviews.advance()

    def reviewed(self, client: Client) -> None:
        """A client may have all that it joined: replays to it go on."""
        self._list(client)

    def _rights_of(self, client: Client) -> Rights:
        return self._admission.rights(client.origin, client.connection.name)

    def farewell(self, now_ns: int) -> None:
        """The node ends: tell all clients, orderly."""
        for client in list(self._clients.values()):
            self._end(client, now_ns, code=0, text="")
        self._departures.complete()
        # What is stored has to be without what goes with them, too.
        self._sweeps.complete(self.wall_ns(now_ns))

    def carry(self, peer: Address) -> None:
        """Let a client that was let in bring messages to other nodes, and from there to here.

        It hears all messages to the site, those of types to come included. What it brings was
        measured where it was published, so it is not held to what one client may publish.
        """
        client = self._clients[peer]
        client.meter = None
        client.input.can_wait = False
        client.lane.update_bytes_max = PAYLOAD_BYTES_MAX
        client.limit_frames()
        self._routing.carry(client)

    # -- for the services

    def wall_ns(self, now_ns: int) -> int:
        """Wall time."""
        return now_ns + self._wall_offset_ns

    def wall_s(self, now_ns: int) -> float:
        """Wall time in seconds."""
        return seconds_of_ns(self.wall_ns(now_ns))

    def say(self, obj: Struct, now_ns: int, is_remove: bool = False, subject: str = "") -> None:
        """Publish something as the node itself, or remove it."""
        topic = self._types.topic(obj.descriptor.name)
        assert topic is not None
        header = Header(topic.name)
        header.sent_time = header.server_sent_time = self.wall_s(now_ns)
        header.sender = NODE_CLIENT
        header.is_from_myself = 1
        header.remove_obj = int(is_remove)
        header.attributes = topic.plan.key_mask if is_remove else int(obj.attributes)
        payload = codec_of(type(obj)).encode_only(obj, int(header.attributes))
        pieces = split(topic.plan, payload, 0)
        self._hub.accept(None, topic, header, pieces, subject, self.wall_ns(now_ns))

    def is_heard(self, type_name: str, subject: str) -> bool:
        """Whether anybody would hear of an object of a type under a subject."""
        topic = self._types.topic(type_name)
        assert topic is not None
        route = topic.routes.get(subject) or self._routing.resolve(topic, subject)
        return bool(route.lanes or route.ears)

    def clear(
        self, topic: Topic, hidden: frozenset[bytes], now_ns: int, finish: Callable[[], None]
    ) -> None:
        """Remove all objects of a topic but the hidden ones, as the node itself.

        `finish` is called after the last one.
        """
        self._sweeps.clear(topic, hidden, self.wall_ns(now_ns), finish)

    def start(self, client: Client, task: Any, now_ns: int) -> None:
        """Put something on a client's agenda, and begin with it if it is the first."""
        client.agenda.append(task)
        if len(client.agenda) == 1 and not client.lane.is_paused:
            self._continue(client, now_ns)
        else:
            self._list(client)

    def watch_ledger(self, now_ns: int) -> None:
        """Somebody joined the ledger, and is told of it from now on."""
        self._roster.watch_ledger(now_ns)

    def client(self, client_id: int) -> Client | None:
        """The client with an id, if it is connected."""
        return self._by_id.get(client_id)

    def report(self, event: MachineEvent) -> None:
        """Report an event to the program that runs the node."""
        self._events.append(event)

    def tell_conflict(self, conflict: SchemaMismatchError, now_ns: int) -> None:
        """Notify all monitors that a client has an incompatible definition of a type."""
        if self._extensions:
            told = internal_class("SkerryConflict")(
                typeName=conflict.name,
                known=conflict.known,
                offered=conflict.offered,
                difference=conflict.difference,
            )
            self.say(told, now_ns)

    def tell_loss(self, lost: UpdatesLost, now_ns: int) -> None:
        """Tell those who joined SkerryLoss of messages that the site sent and nobody here hears."""
        if self._extensions:
            sender = lost.sender
            told = internal_class("SkerryLoss")(
                sender=f"{sender.address}:{sender.sender_id}",
                application=sender.application,
                firstDatagram=lost.first_seq,
                datagramCount=(lost.stop_seq - lost.first_seq) & 0xFFFFFFFF,
                reason=lost.reason.value,
                isStopped=lost.is_stopped,
                time=self.wall_s(now_ns),
            )
            self.say(told, now_ns)

    def tell_link(self, link: Link, receiver: str, now_ns: int) -> None:
        """Tell those who joined SkerryLink how well the datagrams of a sender arrive here."""
        if self._extensions and self._routing.member_count(LINK_TYPE):
            self.say(link.message(receiver), now_ns)

    def refuse(
        self, client: Client, what: str, reason: str, now_ns: int, *, join: Any = None
    ) -> None:
        """Tell a client that it does not get what it asked for; who cannot hear that is cut.

        `join` is the DotsMember that is refused, if it is one: the client waits for its answer.
        """
        self.count_refusal(client, what, reason)
        if client.lane.has_subjects:
            refusal = internal_class("SkerryRefusal")(what=what, reason=reason)
            if join is not None:
                refusal.groupName = join.groupName
                refusal.subscriptionId = join.subscriptionId
            client.connection.send_message(refusal, self.wall_s(now_ns))
        else:
            self.drop(client, now_ns, f"{what}: {reason}", reason="refused")

    def refuse_large(self, client: Client, name: str, size: int, now_ns: int) -> None:
        """Reject a frame of a client that is above its limit and was skipped."""
        why = client.large_refusal(name, size)
        if client.rights is None:
            self.drop(client, now_ns, why, reason="too much")
        else:
            self.refuse(client, "publish", why, now_ns)

    def count_refusal(self, client: Client, what: str, reason: str) -> None:
        """Note that a client does not get what it asked for, of which it is told by an answer."""
        self._refusals[what] += 1
        client.refused_count += 1
        self._events.append(
            ClientRefused(
                client_id=client.client_id,
                name=client.name,
                what=what,
                detail=reason,
                host=client.origin.host,
            )
        )

    def drop(self, client: Client, now_ns: int, why: str, *, reason: str = "fault") -> None:
        """End a connection from here, saying why where the client listens for that."""
        self._end(client, now_ns, code=1, text=why, reason=reason)

    # -- what clients send

    def take(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> None:
        """Let an object of a client go its way."""
        wall_ns = self.wall_ns(now_ns)
        fault = self._hub.take(client.lane, topic, header, payload, seconds_of_ns(wall_ns), wall_ns)
        if fault is not None:
            self.drop(client, now_ns, f"{topic.name}: {fault}")

    # -- clients come

    def introduced(self, client: Client, asked: ConnectAsked, now_ns: int) -> None:
        """Accept or reject a client after its handshake, at once or when its secret is checked."""
        self._silent.leave(client, client.origin.share)
        if self._waiting.pop(client.client_id, None) is None:
            self.drop(client, now_ns, "DotsMsgConnect: it came twice")
        elif client.nonce is None or not self._attempts.must_wait(client.origin, now_ns):
            self._decide(client, asked, now_ns)
        elif not self._attempts.wait(client, asked):
            why = "too many clients of this address wait after wrong secrets"
            self._reject(client, asked, now_ns, why, is_told=True)

    def _decide(self, client: Client, asked: ConnectAsked, now_ns: int) -> None:
        now_s = self.wall_s(now_ns)
        if not self._admission.verdict(
            client.origin,
            name=asked.name,
            nonce=client.nonce,
            response=asked.response,
            cnonce=asked.cnonce,
        ):
            why = "by the authentication rules"
            if client.nonce is not None:
                why = self._attempts.failed(client.origin, now_ns)
            self._reject(client, asked, now_ns, why)
            return
        if not client.holder.is_trusted:
            client.holder.is_trusted = self._admission.is_proven(
                client.origin,
                name=asked.name,
                nonce=client.nonce,
                response=asked.response,
                cnonce=asked.cnonce,
            )
        if client.holder.is_trusted:
            self.cache.trust(client.client_id)
        if not self._has_place(client, asked, now_ns):
            return
        client.let_in(self._admission.rights(client.origin, asked.name))
        if client.limits.is_measured:
            client.meter = self._admission.meter(client.origin)
        if client.has_extensions:
            client.lane.has_subjects = bool(asked.extensions & _SUBJECTS)
            client.lane.has_origin = bool(asked.extensions & _ORIGIN)
        client.connection.accept(asked, now_s, has_additions=bool(client.lane.has_subjects))
        self._roster.tell_state(client, now_ns)
        self._events.append(
            ClientConnected(client_id=client.client_id, name=client.name, origin=str(client.origin))
        )

    def _has_place(self, client: Client, asked: ConnectAsked, now_ns: int) -> bool:
        """Whether there is room for a client that is about to be accepted; if not, reject it."""
        is_trusted = client.holder.is_trusted
        why = self._admission.settling(is_trusted=is_trusted)
        while why is not None and self._turn_out_silent(client.origin):
            why = self._admission.settling(is_trusted=is_trusted)
        if why is None:
            return True
        self._reject(client, asked, now_ns, why, is_told=True)
        return False

    def _turn_out_silent(self, origin: Origin) -> bool:
        """Close the oldest connection without a handshake, to make room for another one.

        It is one of the same address if that has too many, else one of the address with the most.
        """
        is_full = self._admission.is_address_full(origin)
        silent = self._silent.turn_out(origin.share if is_full else None)
        if silent is None:
            return False
        why = "closed before its handshake, to make room for another connection"
        silent.connection.turn_away(self.wall_s(self._now_ns))
        self._end(silent, self._now_ns, code=0, text="", reason="silent", detail=why)
        return True

    def _turn_away(
        self, peer: Address, wire: Wire, origin: Origin, why: str, *, has_extensions: bool
    ) -> None:
        """Reject a connection for which there is no room; no state is kept for it."""
        now_s = self.wall_s(self._now_ns)
        connection = ServerConnection(wire, client_id=0)
        connection.greet(self.name, now_s, extensions=has_extensions)
        connection.turn_away(now_s)
        data = connection.take_output()
        if isinstance(wire, JsonNodeWire):
            data = wire.text(data)
        self._ends["refused at the door"] += 1
        self._events.append(ConnectionTurnedAway(host=origin.host, reason=why))
        self._transmits.append(Transmit(destination=peer, data=data))
        self._transmits.append(Disconnect(destination=peer))

    def _reject(
        self,
        client: Client,
        asked: ConnectAsked,
        now_ns: int,
        why: str,
        *,
        is_told: bool = False,
    ) -> None:
        """End the connection of a client that is not accepted.

        The reason is logged; with `is_told` it is also sent to a client that knows our additions,
        which may then retry.
        """
        if is_told and client.has_extensions and asked.extensions & _SUBJECTS:
            client.connection.turn_away(self.wall_s(now_ns), reason=why)
        else:
            client.connection.reject(asked, self.wall_s(now_ns))
        self._end(client, now_ns, code=0, text="", reason="rejected", detail=why)

    def joined(self, client: Client) -> None:
        """All that a client wanted early is on its way."""
        # The state is told before the client is, as its own DotsClient is among what it may have
        # joined early.
        client.connection.set_connected()
        self._roster.tell_state(client, self._now_ns)
        client.connection.finish_preload(self.wall_s(self._now_ns))

    # -- and go

    def goodbye(self, client: Client, now_ns: int) -> None:
        """A client ends its connection, and hears nothing more."""
        client.connection.close()
        self._end(client, now_ns, code=0, text="", reason="goodbye")

    def _bound_addresses(self) -> None:
        limits = self._shares.limits = self._admission.limits
        self.cache.payload_bytes_max = limits.update_bytes_max
        self.cache.bound_addresses(
            count_max=limits.object_count_per_address_max,
            bytes_max=limits.object_bytes_per_address_max,
        )

    def _look_at_unfinished(self, client: Client) -> None:
        wire = client.lane.wire
        # Text messages are assembled by their listener, which reports their sizes.
        if wire.version != 0 and wire.held_bytes != client.unfinished_bytes:
            self._note_unfinished(client, wire.held_bytes)

    def _note_unfinished(self, client: Client, size: int) -> None:
        """Count bytes of an unfinished frame; past a bound, disconnect the client with the most."""
        shares = self._shares
        client.unfinished_bytes = size
        if not client.is_present:
            return
        shares.set(client.holder, Resource.UNFINISHED, size)
        self._cut_most(client.holder, Resource.UNFINISHED)

    def _cut_overdrawn(self) -> None:
        overdrawn = self._shares.overdrawn
        while overdrawn:
            (holder, resource), _ = overdrawn.popitem()
            self._cut_most(holder, resource)

    def _cut_most(self, holder: Holder, resource: Resource) -> None:
        """Disconnect clients with the most until a client's use is within the bounds again."""
        excess = self._shares.excess(holder, resource)
        while excess is not None:
            most = self._with_most(excess, resource)
            self.drop(most, self._now_ns, str(excess.error), reason="too much")
            excess = self._shares.excess(holder, resource)

    def _with_most(self, excess: Excess, resource: Resource) -> Client:
        """The client to disconnect for a bound: the one with most, of an address or of strangers.

        Of several with as much, it is the one that connected first.
        """
        there = [client for client in self._by_id.values() if client.holder.used[resource]]
        if excess.address:
            there = [client for client in there if client.holder.address == excess.address]
        else:
            there = [client for client in there if not client.holder.is_trusted] or there
        return max(there, key=lambda client: (client.holder.used[resource], -client.client_id))

    def _cut_silent(self, now_ns: int) -> None:
        for client in list(self._waiting.values()):
            if now_ns < self._handshake_due_ns(client):
                return
            self.drop(client, now_ns, "it did not introduce itself", reason="silent")

    def _handshake_due_ns(self, client: Client) -> int:
        return client.opened_ns + int(client.limits.handshake_s * 1e9)

    def _check_waiting(self, client: Client) -> None:
        """Cut a client that takes so little that what waits for it becomes a burden."""
        size = int(client.lane.size)
        # A single object may always be queued, whatever its size.
        is_over = size > client.limits.waiting_bytes_max and client.lane.waiting_count > 1
        if is_over or client.slots.is_full:
            self._cut_slow(client)
            return
        shares = self._shares
        shares.set(client.holder, Resource.WAITING, size)
        shares.set(client.holder, Resource.CONFLATED, len(client.slots))
        self._backpressure.fell_behind(client, size, self._now_ns)
        for resource in (Resource.WAITING, Resource.CONFLATED):
            excess = shares.excess(client.holder, resource)
            while excess is not None:
                slowest = self._with_most(excess, resource)
                self._cut_slow(slowest, f", and {excess.error}")
                excess = shares.excess(client.holder, resource)

    def _cut_slow(self, client: Client, more: str = "") -> None:
        detail = f"{int(client.lane.size)} bytes and {len(client.slots)} objects waited for it"
        self._forget(client, self._now_ns, "slow", detail + more)
        self._transmits.append(Disconnect(destination=client.address, is_abrupt=True))

    def _end(
        self,
        client: Client,
        now_ns: int,
        *,
        code: int,
        text: str,
        reason: str = "goodbye",
        detail: str = "",
    ) -> None:
        lane = client.lane
        is_json = isinstance(lane.wire, JsonNodeWire)
        if client.writing is not None or (is_json and lane.size > JSON_STEP_BYTES):
            # All of it would have to be written at once.
            client.writing = None
            lane.expire()
        client.connection.end(self.wall_s(now_ns), code=code, text=text)
        if lane.size:
            # Whatever it takes: there is no later turn.
            self._hand_out(client, max(int(lane.size), 1) * ROUND_LOOK_COUNT)
        self._transmits.append(Disconnect(destination=client.address))
        self._forget(client, now_ns, reason, detail or text)

    def _forget(self, client: Client, now_ns: int, reason: str, detail: str = "") -> None:
        """A client is gone: tell the others, and clean up after it."""
        self._ends[reason] += 1
        self._events.append(
            ClientDisconnected(
                client_id=client.client_id,
                name=client.name,
                reason=reason,
                detail=detail,
                host=client.origin.host,
            )
        )
        client.is_present = False
        client.input = Input()
        client.writing = None
        self._backpressure.forget(client)
        client.connection.close()
        self._roster.tell_state(client, now_ns)
        # Updates that are still delivered to it expire at once.
        client.lane.is_paused = False
        client.lane.expire()
        client.agenda.clear()
        self._silent.leave(client, client.origin.share)
        for table in (self._by_id, self._waiting, self._busy, self._fresh):
            table.pop(client.client_id, None)
        del self._clients[client.address]
        self._admission.left(client.origin)
        self._shares.release_memory(client.holder)
        self._roster.note_activity(now_ns)
        self._departures.begin(client)

    def _has_published(self, client_id: int, type_name: str) -> bool:
        client = self._by_id.get(client_id)
        return client is not None and type_name in client.lane.published

    # -- what waits

    def _continue(self, client: Client, now_ns: int) -> None:
        """Do as much of a client's agenda as is its share, and tell it what was conflated."""
        if client.is_under_review:
            self._list(client)
            return
        lane, now_s = client.lane, self.wall_s(now_ns)
        bytes_max = int(lane.size) + REPLAY_SLICE_BYTES
        if client.slots:
            client.slots.drain(bytes_max, now_s)
            self._shares.set(client.holder, Resource.CONFLATED, len(client.slots))
        while client.agenda and lane.size < bytes_max and lane.looks > 0:
            if not client.agenda[0].step(now_s):
                break
            client.agenda.popleft()
        self._list(client)

    def _list(self, client: Client) -> None:
        """Schedule a turn for a client, if it has anything to do."""
        is_blocked = client.lane.is_paused or client.is_under_review
        has_task = bool(client.agenda or client.slots) and not is_blocked
        has_task = has_task or (client.writing is not None and not client.is_full)
        if client.is_present and (has_task or client.input.is_held):
            self._busy[client.client_id] = client
        else:
            self._busy.pop(client.client_id, None)

    def _serve_round(self, now_ns: int) -> None:
        """Give turns to clients, as many as fit until the sockets have to be read again."""
        looks = ROUND_LOOK_COUNT
        for _ in range(len(self._fresh)):
            if not self._fresh or looks <= 0:
                break
            _, client = self._fresh.popitem(last=False)
            looks -= self._serve(client, now_ns, FRESH_LOOK_COUNT)
        # At least one of these, so that none starves.
        for _ in range(len(self._busy)):
            if not self._busy:
                break
            _, client = self._busy.popitem(last=False)
            looks -= self._serve(client, now_ns, int(client.lane.look_count_max))
            if looks <= 0:
                break

    def _serve(self, client: Client, now_ns: int, look_count: int) -> int:
        """Run one turn of a client; returns the looks that it took."""
        lane, count, size = client.lane, 0, int(client.lane.size)
        if client.input.is_held:
            lane.looks = look_count
            self._backpressure.begin()
            is_over = self._arrivals.go_on(client, now_ns)
            self._backpressure.end(client)
            count += look_count - int(lane.looks)
            self._look_at_unfinished(client)
            if is_over and client.is_present:
                self._released.append(client.address)
                if client.input.is_last:
                    self._forget(client, now_ns, "lost")
        if client.is_present and client.writing is not None and not client.is_full:
            count += self._write(client, look_count)
        if client.is_present and (client.agenda or client.slots) and not lane.is_paused:
            # Both have looks of their own: a long replay does not delay the client's input.
            lane.looks = look_count
            self._continue(client, now_ns)
            count += look_count - int(lane.looks)
        self._list(client)
        return max(count + (int(lane.size) - size) // _BYTES_PER_LOOK, 1)

    def _hand_out(self, client: Client, look_count: int) -> int:
        """Send what waits for a client; returns the looks that it took to write it as text."""
        lane = client.lane
        wire = lane.wire
        self._sent[0] += int(lane.frame_count)
        lane.note_batch(self._now_ns)
        if not isinstance(wire, JsonNodeWire):
            self._sent[1] += int(lane.size)
            self._transmits.append(Transmit(destination=client.address, data=lane.take()))
            return 0
        client.writing = wire.writing(lane.begin_writing())
        lane.is_paused = True
        return self._write(client, look_count)

    def _write(self, client: Client, look_count: int) -> int:
        """Write for so many looks what a client by WebSocket receives; returns how many it took.

        Until all is written, what follows waits on its lane as if its transport was full.
        """
        lane, writing = client.lane, client.writing
        assert writing is not None
        text, looks = writing.step(look_count)
        self._sent[1] += len(text)
        if text:
            self._transmits.append(Transmit(destination=client.address, data=text))
        is_last = writing.is_done and not lane.wire.unsendable
        lane.written(is_last, len(text))
        if is_last:
            client.writing = None
            if not client.is_full:
                self._unpause(client)
        if lane.wire.unsendable:
            self._drop_unsendable(client)
        else:
            self._list(client)
        return looks

    def _drop_unsendable(self, client: Client) -> None:
        """End the connection of a client to which something could not be written."""
        why, client.lane.wire.unsendable = client.lane.wire.unsendable, ""
        self.drop(client, self._now_ns, why)

    def _unpause(self, client: Client) -> None:
        """A client can be sent more."""
        client.lane.is_paused = False
        self._backpressure.caught_up(client)
        client.lane.relist()

    def _ledger(self) -> list[Struct]:
        """The ledger as objects, if anybody looks at it."""
        if not self._routing.member_count("SkerryLedger"):
            return []
        statistics = self.statistics()
        return [
            *(ledger_object(row) for row in statistics.types),
            *(ledger_object(row) for row in statistics.clients),
        ]

    def _status(self) -> Mapping[str, Any]:
        return {
            "started_s": seconds_of_ns(self._started_ns or 0),
            "received": (self._arrivals.count, self._received_bytes),
            "sent": tuple(self._sent),
        }

    def _note_time(self, now_ns: int) -> None:
        self._now_ns = now_ns
        if self._started_ns is None:
            self._started_ns = self.wall_ns(now_ns)
