"""The path of an update through the node: checked, cached, and queued for each subscriber.

This is the node's hot path, so it is compiled and holds only what every update needs. Which client
receives which update is decided when a client joins a group (`engine.dispatch.routing`) and kept as
a route. A subscriber that needs more than a frame in its queue (a condition, a cache replay in
progress, a slow client) is an `Ear` on that route.
"""

from __future__ import annotations

from mypy_extensions import i64

from skerry.codec.frame import LARGE_FRAME_BYTES, FrameCutter
from skerry.codec.hot_loops import ForwardedHeader, Frames
from skerry.codec.pieces import Pieces, canonical_key, cut, split
from skerry.codec.subjects import short_subject
from skerry.engine.dispatch.cache import Cache, Entry
from skerry.engine.dispatch.client_queue import TIME_S_MAX, ClientQueue
from skerry.engine.dispatch.header_templates import HeaderTemplate, kind_of
from skerry.engine.dispatch.topics import (
    JournalWriter,
    Owners,
    Route,
    RouteResolver,
    Topic,
    UpdateInTransit,
)
from skerry.errors import Refused
from skerry.ids import NODE_CLIENT
from skerry.limits import CACHE_BYTES_MAX, CACHE_OBJECT_COUNT_MAX, DELIVERIES_PER_LOOK
from skerry.protocol.access.header import ABSENT, NEVER, Header, copy_header

__all__ = ["Dispatcher"]


class Dispatcher:
    """What all updates go through."""

    def __init__(self, cache: Cache, router: RouteResolver, *, node: int) -> None:
        self.cache: Cache = cache
        self.router: RouteResolver = router
        self.journal_writer: JournalWriter | None = None
        self.topics: dict[str, Topic] = {}
        """Topics that have the current definition of their type, by name."""
        self.outdated: dict[str, Topic] = {}
        """Topics whose type has a newer definition; they are updated on their next use."""
        self.position: i64 = 0
        """Updates that were accepted."""
        self.listed: list[ClientQueue] = []
        """Lanes that have something new."""
        self.work: i64 = 0
        """Work done for subscribers: one unit for each delivery, more for a condition."""
        self._plain: Frames = Frames()
        self._full: Frames = Frames()
        """For frames on their way out, without and with a subject."""
        self.node: i64 = node

    def outdate(self, name: str) -> None:
        """Mark a topic as outdated since its type changed; `engine.types.node_types` updates it."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            topic.gate.shut()
            self.outdated[name] = topic

    def all_topics(self) -> list[Topic]:
        """All topics, outdated ones included."""
        return [*self.topics.values(), *self.outdated.values()]

    def take_frames(
        self, queue: ClientQueue, cutter: FrameCutter, now_s: float, wall_ns: int
    ) -> bool:
        """Process frames as long as they have ordinary objects; whether those were all.

        It also stops when the looks of the client's turn are spent; frames may be left then.
        If it returns false, the cutter is at the first frame of another kind: a message for the
        node, an object of a type that no client described, or an invalid object.
        """
        relay = queue.relay
        # Frames above the limit of an update are not forwarded by the relay, nor are large ones,
        # which it would copy for each subscriber.
        bytes_max = min(cutter.frame_bytes_max, int(queue.update_bytes_max))
        bytes_max = min(bytes_max, LARGE_FRAME_BYTES)
        try:
            while queue.work_left > 0:
                form = relay.pass_on(
                    cutter.buffer,
                    int(cutter.stop),
                    bytes_max,
                    now_s,
                    int(queue.work_left * DELIVERIES_PER_LOOK),
                )
                count: i64 = relay.count
                if count > 0:
                    self.position += count
                    queue.sequence += count
                    cutter.skip(relay.stop, relay.stop, int(count))
                    queue.work_left -= i64(relay.work) // DELIVERIES_PER_LOOK
                    if relay.is_spent:
                        queue.work_left = 0
                        break
                if not cutter.step():
                    break
                work = self.work
                is_taken = form is not None and self._take_alike(
                    queue, form, cutter, now_s, wall_ns
                )
                if not is_taken and not self._take_other(queue, cutter, now_s, wall_ns):
                    return False
                queue.work_left -= 1 + (self.work - work) // DELIVERIES_PER_LOOK
            return True
        finally:
            self._settle(queue)

    def _settle(self, queue: ClientQueue) -> None:
        """Count the frames that the relay wrote to the lanes of subscribers."""
        for template, number in queue.relay.take_touched():
            assert isinstance(template, HeaderTemplate)
            topic, route = template.topic, template.route
            assert route is not None
            count: i64 = number
            topic.accepted += count
            topic.tally.due += len(route.queues) * count
            if topic.name not in queue.published:
                queue.note_published(topic.name)
            for member in route.queues:
                member.delivered(count, topic.tally)

    def _take_other(
        self, queue: ClientQueue, cutter: FrameCutter, now_s: float, wall_ns: i64
    ) -> bool:
        """Process an object by reading its header; false, without effect, if it is not ordinary."""
        header, payload = queue.wire.read_frame()
        topic = self.topics.get(header.type_name)
        if topic is None or topic.is_special or header.attributes < 0:
            return False
        doubtful = queue.doubtful_types
        if doubtful is not None and topic.name in doubtful:
            return False
        relay = queue.relay
        if relay.is_new and header.remove_obj != 1 and relay.wants():
            relay.learn(HeaderTemplate(header, relay.parts(), topic, queue).form)
        return self.take(queue, topic, header, payload, now_s, wall_ns) is None

    def _renew(self, queue: ClientQueue, template: HeaderTemplate) -> bool:
        """Resolve the route of a stencil again; false if the stencil cannot be used now."""
        topic = template.topic
        if self.topics.get(topic.name) is not topic or topic.bulk_removal is not None:
            return False
        if topic.plan is not template.plan:
            queue.relay.forget(template.form)
            return False
        route: Route | None = None
        if template.subject or not topic.needs_subject:
            route = topic.routes.get(template.subject) if template.subject else topic.route
            if route is None:
                route = self.router.resolve(topic, template.subject)
            if not route.is_common:
                return False
        template.open(route)
        return True

    def _take_alike(
        self,
        queue: ClientQueue,
        form: ForwardedHeader,
        cutter: FrameCutter,
        now_s: float,
        wall_ns: i64,
    ) -> bool:
        """Process an object with a known header; false, without effect, if it has to be read."""
        template = form.owner
        assert isinstance(template, HeaderTemplate)
        relay = queue.relay
        if not form.is_open:
            # Frames that were written by the former route are counted first.
            self._settle(queue)
            if not self._renew(queue, template):
                return False
            # The relay tries the same frame again, with all that follow it.
            cutter.back()
            return True
        if relay.is_run:
            return self._forward(queue, template, cutter, now_s)
        if not relay.is_checked:
            return False
        topic, route = template.topic, template.route
        payload, key, present, sent_s = relay.checked()
        subject = template.subject
        if route is None:
            route = self._route(topic, "", split(topic.plan, payload, 0))
            if not route.is_common:
                return False
        update: UpdateInTransit | None = None
        if route.listeners:
            update = self._make_update(template, payload, sent_s, now_s)
        if topic.is_cached:
            known = topic.type_cache.objects.get(key)
            if known is not None and known.subject != subject:
                return False
            owners = topic.owners
            if owners is not None and not _may_change(owners, key, queue):
                return False
            if update is not None:
                update.known_key = key
                update.before = None if known is None else known.payload
            entry = self._store(queue, template, key, payload, present, sent_s, wall_ns)
            if update is not None:
                update.entry = entry
        self.position += 1
        queue.sequence += 1
        self.work += len(route.queues)
        if template.route is not None:
            # Counted by `_settle`, with the frames that the relay forwarded.
            relay.deliver()
        else:
            self._deliver(queue, template, route, payload, sent_s, now_s)
        if update is not None:
            update.header.position = self.position
            update.header.sequence = queue.sequence
            self.work += len(route.listeners) * DELIVERIES_PER_LOOK
            for listener in route.listeners:
                listener.receive(update)
        return True

    def _deliver(
        self,
        queue: ClientQueue,
        template: HeaderTemplate,
        route: Route,
        payload: bytes,
        sent_s: float,
        now_s: float,
    ) -> None:
        """Deliver an object whose route depends on more than its header."""
        topic = template.topic
        topic.accepted += 1
        if topic.name not in queue.published:
            queue.note_published(topic.name)
        topic.tally.due += len(route.queues)
        frames: list[bytes] = [b"", b"", b""]
        for member in route.queues:
            kind = kind_of(member)
            if not frames[kind]:
                frames[kind] = template.form.frame(kind, sent_s, now_s, payload)
            member.tally.due += 1
            member.deliver(frames[kind], topic.tally)

    def _make_update(
        self, template: HeaderTemplate, payload: bytes, sent_s: float, now_s: float
    ) -> UpdateInTransit:
        """The update of an object with a known header, for views and other readers of objects."""
        header = copy_header(template.header)
        header.sent_time = sent_s
        header.server_sent_time = now_s
        header.node = self.node
        update = UpdateInTransit(template.topic, header, payload, template.subject)
        # The relay accepts only objects whose tags are all described.
        update.is_described = True
        return update

    def _forward(
        self, queue: ClientQueue, template: HeaderTemplate, cutter: FrameCutter, now_s: float
    ) -> bool:
        """Forward consecutive messages with the same header, writing each once for all subscribers.

        False, without effect, if the first has to be read. Else the cutter is at the last of them.
        """
        topic, route = template.topic, template.route
        assert route is not None
        plain = self._plain if route.has_plain else None
        full = self._full if route.has_full else None
        count = template.forward(cutter, now_s, plain, full)
        if count == 0:
            return False
        plain_data = b"" if plain is None else plain.take()
        full_data = b"" if full is None else full.take()
        # Frames that were written before are counted first.
        self._settle(queue)
        self.position += count
        topic.accepted += count
        queue.sequence += count
        if topic.name not in queue.published:
            queue.note_published(topic.name)
        tally = topic.tally
        tally.due += len(route.queues) * count
        self.work += len(route.queues)
        for member in route.queues:
            data = full_data if member.has_subjects else plain_data
            member.deliver_run(data, count, tally)
        return True

    def _store(
        self,
        queue: ClientQueue,
        template: HeaderTemplate,
        key: bytes,
        payload: bytes,
        present: i64,
        sent_s: float,
        wall_ns: i64,
    ) -> Entry:
        topic = template.topic
        journal_writer = self.journal_writer if topic.is_persistent else None
        if journal_writer is not None:
            journal_writer.check()
        entry = self.cache.put(
            topic.type_cache,
            topic.plan,
            key,
            payload,
            present,
            template.header.attributes,
            template.subject,
            queue.client_id,
            _ns_of_seconds(sent_s),
            wall_ns,
            self.position + 1,
            queue.object_count_max,
            queue.object_bytes_max,
        )
        if journal_writer is not None:
            queue.stored_number = journal_writer.keep(topic, key, entry)
        return entry

    def take(
        self,
        queue: ClientQueue,
        topic: Topic,
        header: Header,
        payload: bytes,
        now_s: float,
        wall_ns: i64,
    ) -> str | None:
        """Process an object from a client; returns what is wrong with it, or None.

        Raises Refused if the object is too large or belongs to another client. In both cases
        nothing has changed, so a second call has the same result.
        """
        plan = topic.plan
        if len(payload) > queue.update_bytes_max:
            size, limit = len(payload), int(queue.update_bytes_max)
            raise Refused(
                f"{topic.name}: an object of {size} bytes, the limit is {limit}"
                " (node.admission.limits.update_bytes_max)"
            )
        pieces = split(plan, payload, 0)
        if pieces.stop != len(payload):
            return "bytes follow the object"
        if plan.key_mask & ~pieces.present:
            return "the key is not complete"
        # Asked this way round, since a time may also be not a number.
        if header.sent_time != NEVER and not (-TIME_S_MAX <= header.sent_time <= TIME_S_MAX):
            return "sentTime is not a valid time"
        if header.remove_obj == 1 and not topic.is_cached:
            return "it is not cached: nothing to remove"
        owners = topic.owners
        if owners is not None:
            key = canonical_key(plan, pieces)
            if not _may_change(owners, key, queue):
                subject = short_subject(plan, pieces)
                raise Refused(f"{subject:.200}: it is owned by client {owners.of(key)}")
        named = header.attributes | plan.key_mask
        if pieces.present & ~named or not pieces.is_canonical:
            # Only what was spoken of goes on, in the one form.
            pieces = split(plan, cut(plan, pieces, named), 0)
        subject = header.subject if queue.has_subjects else ""
        header.sender = queue.client_id
        header.server_sent_time = now_s
        if header.sent_time == NEVER:
            header.sent_time = now_s
        # What only a node may say is not believed of a client.
        header.from_cache = ABSENT
        header.is_from_myself = 0
        header.subscription_id = ABSENT
        self.accept(queue, topic, header, pieces, subject, wall_ns)
        return None

    def accept(
        self,
        queue: ClientQueue | None,
        topic: Topic,
        header: Header,
        pieces: Pieces,
        subject: str,
        wall_ns: i64,
    ) -> None:
        """An object that is in order: into the cache, and on to who asked for it."""
        update = UpdateInTransit(topic, header, pieces.data, subject)
        update.pieces = pieces
        left: str | None = None
        if topic.is_cached:
            if topic.bulk_removal is not None:
                topic.bulk_removal.settle(update.key())
            known = topic.type_cache.objects.get(update.key())
            if known is not None and known.subject != subject:
                if update.is_remove:
                    # It goes from where it is, whatever the remove says of that.
                    subject = update.subject = known.subject
                else:
                    left = known.subject
        # Before anything is changed, since the subject may turn out to be none.
        route = self._route(topic, subject, pieces)
        if topic.is_cached:
            self._cache(queue, topic, update, pieces, wall_ns)
        self.position += 1
        topic.accepted += 1
        header.position = self.position
        header.node = self.node
        if queue is not None:
            queue.sequence += 1
            header.sequence = queue.sequence
            if topic.name not in queue.published:
                queue.note_published(topic.name)
        if left is None:
            self._tell(topic, update, route)
        else:
            self._tell_moved(topic, update, left, route)

    def remove(self, topic: Topic, entry: Entry, now_s: float, wall_ns: i64) -> None:
        """Remove an object of the cache, as the node itself."""
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

    def _route(self, topic: Topic, subject: str, pieces: Pieces) -> Route:
        if not subject:
            if not topic.needs_subject:
                route = topic.route
                return self.router.resolve(topic, "") if route is None else route
            subject = short_subject(topic.plan, pieces)
        known = topic.routes.get(subject)
        return self.router.resolve(topic, subject) if known is None else known

    def _cache(
        self,
        queue: ClientQueue | None,
        topic: Topic,
        update: UpdateInTransit,
        pieces: Pieces,
        wall_ns: i64,
    ) -> None:
        key = update.key()
        header = update.header
        journal_writer = self.journal_writer if topic.is_persistent else None
        if journal_writer is not None and queue is not None:
            journal_writer.check()
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
                _ns_of_seconds(header.sent_time),
                wall_ns,
                self.position + 1,
                CACHE_OBJECT_COUNT_MAX if queue is None else queue.object_count_max,
                CACHE_BYTES_MAX if queue is None else queue.object_bytes_max,
            )
        if journal_writer is not None:
            number = journal_writer.keep(topic, key, update.entry)
            if queue is not None:
                queue.stored_number = number

    def _tell(self, topic: Topic, update: UpdateInTransit, route: Route) -> None:
        tally = topic.tally
        tally.due += len(route.queues)
        self.work += len(route.queues) + len(route.listeners) * DELIVERIES_PER_LOOK
        for queue in route.queues:
            queue.tally.due += 1
            queue.deliver(update.frame(queue), tally)
        for listener in route.listeners:
            listener.receive(update)

    def _tell_moved(self, topic: Topic, update: UpdateInTransit, left: str, route: Route) -> None:
        """An object has a new subject: for who hears of that only, it is new and told whole; for
        who hears of the old one only, it is gone."""
        assert update.pieces is not None
        assert update.entry is not None
        former = self._route(topic, left, update.pieces)
        were, are = _clients_on(former), _clients_on(route)
        whole = self._whole(topic, update, update.entry)
        topic.tally.due += len(route.queues)
        for queue in route.queues:
            queue.tally.due += 1
            told = update if int(queue.client_id) in were else whole
            queue.deliver(told.frame(queue), topic.tally)
        for listener in route.listeners:
            is_new = listener.client_id != 0 and int(listener.client_id) not in were
            listener.receive(whole if is_new else update)
        header = copy_header(update.header)
        header.remove_obj = 1
        header.attributes = topic.plan.key_mask
        gone = UpdateInTransit(
            topic, header, cut(topic.plan, update.pieces, topic.plan.key_mask), left
        )
        for queue in former.queues:
            if int(queue.client_id) not in are:
                topic.tally.due += 1
                queue.tally.due += 1
                queue.deliver(gone.frame(queue), topic.tally)
        for listener in former.listeners:
            if listener.client_id and int(listener.client_id) not in are:
                listener.leave(gone)

    def _whole(self, topic: Topic, update: UpdateInTransit, entry: Entry) -> UpdateInTransit:
        """The same update, as if all fields of its object had been published with it."""
        header = copy_header(update.header)
        header.attributes = entry.present
        whole = UpdateInTransit(topic, header, entry.payload, update.subject)
        whole.before = update.before
        whole.entry = entry
        return whole


def _ns_of_seconds(seconds: float) -> i64:
    """As `objects.times.ns_of_seconds`, which compiled code would have to call as Python."""
    whole = int(seconds)
    if whole > seconds:
        whole -= 1
    return whole * 1_000_000_000 + int((seconds - whole) * 1e9 + 0.5)


def _clients_on(route: Route) -> set[int]:
    """The clients that are on a route for what it is, by their numbers."""
    found: set[int] = set()
    for queue in route.queues:
        found.add(int(queue.client_id))
    for listener in route.listeners:
        found.add(int(listener.client_id))
    return found


def _may_change(owners: Owners, key: bytes, queue: ClientQueue) -> bool:
    """Whether an object is a client's own, or nobody's."""
    owner = owners.of(key)
    return owner == 0 or owner == queue.client_id
