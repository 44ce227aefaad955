"""The dispatcher: checks each update, caches it, and queues it for each subscriber.

This is the node's hot path, so it is compiled and holds only what every update needs. Which client
receives which update is decided when a client joins a group (`engine.dispatch.routing`) and kept as
a route. A subscriber that needs more than a frame in its queue (a condition, a cache replay in
progress, a slow client) is an `UpdateListener` of that route. Most updates do not even come here:
`engine.dispatch.frame_forwarding` forwards them by the template of their header.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from skerry.codec.pieces import LARGE_BYTES, Pieces, canonical_key, cut, split
from skerry.codec.subjects import short_subject
from skerry.engine.dispatch.cache import Cache, Entry
from skerry.engine.dispatch.client_queue import TIME_S_MAX, ClientQueue, Source
from skerry.engine.dispatch.topics import (
    ObjectKeeper,
    Route,
    RouteResolver,
    Topic,
    UpdateInTransit,
)
from skerry.errors import Refused
from skerry.ids import NODE_CLIENT
from skerry.limits import CACHE_BYTES_MAX, CACHE_OBJECT_COUNT_MAX, DELIVERIES_PER_WORK_UNIT
from skerry.objects.times import ns_of_seconds
from skerry.protocol.access.header import ABSENT, NEVER, Header, copy_header

BYTES_PER_DELIVERY: Final = 64
"""Bytes of a large object that are checked or copied in the time of a delivery."""


class Dispatcher:
    """Accepts all updates of a node, in one order."""

    def __init__(self, cache: Cache, router: RouteResolver, *, node: int) -> None:
        self.cache: Cache = cache
        self.router: RouteResolver = router
        self.object_keeper: ObjectKeeper | None = None
        self.topics: dict[str, Topic] = {}
        """Topics that have the current definition of their type, by name."""
        self.outdated: dict[str, Topic] = {}
        """Topics whose type has a newer definition; they are updated on their next use."""
        self.position: i64 = 0
        """The number of accepted updates, and so the position of the last one."""
        self.listed: list[ClientQueue] = []
        """Queues with frames or slots that were added since the node sent last."""
        self.work: i64 = 0
        """Work done for subscribers: 1 for each delivery, more for a condition.
        `DELIVERIES_PER_WORK_UNIT` of it are one work unit."""
        self.node: i64 = node

    def outdate(self, name: str) -> None:
        """Mark a topic as outdated since its type changed; `engine.types.type_table` updates it."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            topic.gate.shut()
            self.outdated[name] = topic

    def all_topics(self) -> list[Topic]:
        """All topics, outdated ones included."""
        return [*self.topics.values(), *self.outdated.values()]

    def take(
        self,
        source: Source,
        topic: Topic,
        header: Header,
        payload: bytes,
        now_s: float,
        wall_ns: i64,
    ) -> str | None:
        """Process an object of a source; returns what is wrong with it, or None.

        Raises Refused if the object is too large or belongs to another client. In both cases
        nothing has changed, so a second call has the same result.
        """
        plan = topic.plan
        if len(payload) > source.update_bytes_max:
            size, limit = len(payload), int(source.update_bytes_max)
            raise Refused(
                f"{topic.name}: an object of {size} bytes, the limit is {limit}"
                " (node.admission.limits.update_bytes_max)"
            )
        pieces = split(plan, payload, 0)
        if len(payload) > LARGE_BYTES:
            self.work += len(payload) // BYTES_PER_DELIVERY
        if pieces.stop != len(payload):
            return "bytes follow the object"
        if plan.key_mask & ~pieces.present:
            return "the key is not complete"
        # Compared this way, since the time may also be NaN.
        if header.sent_time != NEVER and not (-TIME_S_MAX <= header.sent_time <= TIME_S_MAX):
            return "sentTime is not a valid time"
        if header.remove_obj == 1 and not topic.is_cached:
            return "it is not cached: nothing to remove"
        owners = topic.owners
        if owners is not None:
            key = canonical_key(plan, pieces)
            if not owners.allow(key, source.client_id):
                subject = short_subject(plan, pieces)
                raise Refused(f"{subject:.200}: it is owned by client {owners.of(key)}")
        named = header.attributes | plan.key_mask
        if pieces.present & ~named or not pieces.is_canonical:
            # Only fields that the header names are forwarded, in canonical form.
            pieces = split(plan, cut(plan, pieces, named), 0)
        subject = header.subject if source.has_subjects else ""
        header.sender = source.client_id
        header.server_sent_time = now_s
        if header.sent_time == NEVER:
            header.sent_time = now_s
        # Header fields that only a node may set are not accepted from a client.
        header.from_cache = ABSENT
        header.is_from_myself = 0
        header.subscription_id = ABSENT
        self.accept(source, topic, header, pieces, subject, wall_ns)
        return None

    def accept(
        self,
        source: Source | None,
        topic: Topic,
        header: Header,
        pieces: Pieces,
        subject: str,
        wall_ns: i64,
    ) -> None:
        """Cache a valid object and deliver it; `source` is its publisher, None for the node.

        Raises LocalProtocolError if the subject is invalid, and LimitExceeded if the cache or the
        journal has no room; nothing has changed then.
        """
        update = UpdateInTransit(topic, header, pieces.data, subject)
        update.pieces = pieces
        old_subject: str | None = None
        if topic.is_cached:
            if topic.bulk_removal is not None:
                topic.bulk_removal.settle(update.key())
            known = topic.type_cache.objects.get(update.key())
            if known is not None and known.subject != subject:
                if update.is_remove:
                    # The object is removed from its subject, whatever the remove's subject is.
                    subject = update.subject = known.subject
                else:
                    old_subject = known.subject
        # Before anything is changed, since the subject may be invalid.
        route = self.route(topic, subject, pieces)
        if topic.is_cached:
            self._cache(source, topic, update, pieces, wall_ns)
        self.position += 1
        topic.accepted += 1
        header.position = self.position
        header.node = self.node
        if source is not None:
            source.sequence += 1
            header.sequence = source.sequence
            if topic.name not in source.published:
                source.note_published(topic.name)
        if old_subject is None:
            self._deliver(topic, update, route)
        else:
            self._deliver_moved(topic, update, old_subject, route)

    def remove(self, topic: Topic, entry: Entry, now_s: float, wall_ns: i64) -> None:
        """Remove a cached object, as the node itself."""
        plan = topic.plan
        header = Header(topic.name)
        header.sent_time = now_s
        header.server_sent_time = now_s
        header.sender = NODE_CLIENT
        header.is_from_myself = 1
        header.remove_obj = 1
        header.attributes = plan.key_mask
        pieces = split(plan, cut(plan, split(plan, entry.payload, 0), plan.key_mask), 0)
        self.accept(None, topic, header, pieces, entry.subject, wall_ns)

    def route(self, topic: Topic, subject: str, pieces: Pieces) -> Route:
        """The route of an object; an empty subject is the default one."""
        if not subject:
            if not topic.needs_subject:
                route = topic.route
                return self.router.resolve(topic, "") if route is None else route
            subject = short_subject(topic.plan, pieces)
        known = topic.routes.get(subject)
        return self.router.resolve(topic, subject) if known is None else known

    def _cache(
        self,
        source: Source | None,
        topic: Topic,
        update: UpdateInTransit,
        pieces: Pieces,
        wall_ns: i64,
    ) -> None:
        key = update.key()
        header = update.header
        object_keeper = self.object_keeper if topic.is_persistent else None
        if object_keeper is not None and source is not None:
            object_keeper.check()
        if update.is_remove:
            gone = self.cache.drop(topic.type_cache, key)
            if gone is None:
                return
            update.gone = gone
            update.before = gone.payload
        else:
            known = topic.type_cache.objects.get(key)
            if known is not None:
                update.before = known.payload
            if pieces.unknown:
                topic.type_cache.unknown_keys.add(key)
            update.entry = self.cache.put(
                topic.type_cache,
                topic.plan,
                key,
                pieces.data,
                pieces.present,
                header.attributes,
                update.subject,
                header.sender,
                ns_of_seconds(header.sent_time),
                wall_ns,
                self.position + 1,
                CACHE_OBJECT_COUNT_MAX if source is None else source.object_count_max,
                CACHE_BYTES_MAX if source is None else source.object_bytes_max,
            )
            if len(update.entry.payload) > LARGE_BYTES:
                self.work += len(update.entry.payload) // BYTES_PER_DELIVERY
        if object_keeper is not None:
            number = object_keeper.keep(topic, key, update.entry)
            if source is not None:
                source.stored_number = number

    def _deliver(self, topic: Topic, update: UpdateInTransit, route: Route) -> None:
        tally = topic.tally
        tally.due += len(route.queues)
        self.work += len(route.queues) + len(route.listeners) * DELIVERIES_PER_WORK_UNIT
        for queue in route.queues:
            queue.tally.due += 1
            queue.deliver(update.frame(queue), tally)
        for listener in route.listeners:
            listener.receive(update)

    def _deliver_moved(
        self, topic: Topic, update: UpdateInTransit, old_subject: str, route: Route
    ) -> None:
        """Deliver the update of an object that has another subject now.

        Subscribers of the new subject alone receive the whole object, as for a create. Subscribers
        of the old subject alone receive a remove.
        """
        assert update.pieces is not None
        assert update.entry is not None
        old_route = self.route(topic, old_subject, update.pieces)
        old_clients, clients = _clients_on(old_route), _clients_on(route)
        whole = self._whole(topic, update, update.entry)
        topic.tally.due += len(route.queues)
        for queue in route.queues:
            queue.tally.due += 1
            delivered = update if int(queue.client_id) in old_clients else whole
            queue.deliver(delivered.frame(queue), topic.tally)
        for listener in route.listeners:
            is_new = listener.client_id != 0 and int(listener.client_id) not in old_clients
            listener.receive(whole if is_new else update)
        header = copy_header(update.header)
        header.remove_obj = 1
        header.attributes = topic.plan.key_mask
        payload = cut(topic.plan, update.pieces, topic.plan.key_mask)
        removal = UpdateInTransit(topic, header, payload, old_subject)
        for queue in old_route.queues:
            if int(queue.client_id) not in clients:
                topic.tally.due += 1
                queue.tally.due += 1
                queue.deliver(removal.frame(queue), topic.tally)
        for listener in old_route.listeners:
            if listener.client_id and int(listener.client_id) not in clients:
                listener.object_left(removal)

    def _whole(self, topic: Topic, update: UpdateInTransit, entry: Entry) -> UpdateInTransit:
        """The same update, as if all fields of its object had been published with it."""
        header = copy_header(update.header)
        header.attributes = entry.present
        whole = UpdateInTransit(topic, header, entry.payload, update.subject)
        whole.before = update.before
        whole.entry = entry
        return whole


def _clients_on(route: Route) -> set[int]:
    """The ids of the clients that subscribed to the subject of a route."""
    found: set[int] = set()
    for queue in route.queues:
        found.add(int(queue.client_id))
    for listener in route.listeners:
        found.add(int(listener.client_id))
    return found
