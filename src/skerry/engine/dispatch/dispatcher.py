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
    Owners,
    PersistentTypes,
    Route,
    RouteResolver,
    Topic,
    UpdateInTransit,
)
from skerry.errors import Refused
from skerry.ids import NODE_CLIENT
from skerry.limits import CACHE_BYTES_MAX, CACHE_OBJECT_COUNT_MAX, DELIVERIES_PER_LOOK
from skerry.objects.times import ns_of_seconds
from skerry.protocol.access.header import ABSENT, NEVER, Header, copy_header

__all__ = ["Dispatcher"]


class Dispatcher:
    """What all updates go through."""

    def __init__(self, cache: Cache, router: RouteResolver, *, node: int) -> None:
        self.cache: Cache = cache
        self.router: RouteResolver = router
        self.keeper: PersistentTypes | None = None
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
        self, lane: ClientQueue, cutter: FrameCutter, now_s: float, wall_ns: int
    ) -> bool:
        """Process frames as long as they have ordinary objects; whether those were all.

        It also stops when the looks of the client's turn are spent; frames may be left then.
        If it returns false, the cutter is at the first frame of another kind: a message for the
        node, an object of a type that no client described, or an invalid object.
        """
        relay = lane.relay
        # Frames above the limit of an update are not forwarded by the relay, nor are large ones,
        # which it would copy for each subscriber.
        bytes_max = min(cutter.frame_bytes_max, int(lane.update_bytes_max))
        bytes_max = min(bytes_max, LARGE_FRAME_BYTES)
        try:
            while lane.looks > 0:
                form = relay.pass_on(
                    cutter.buffer,
                    int(cutter.stop),
                    bytes_max,
                    now_s,
                    int(lane.looks * DELIVERIES_PER_LOOK),
                )
                count: i64 = relay.count
                if count > 0:
                    self.position += count
                    lane.sequence += count
                    cutter.skip(relay.stop, relay.stop, int(count))
                    lane.looks -= i64(relay.work) // DELIVERIES_PER_LOOK
                    if relay.is_spent:
                        lane.looks = 0
                        break
                if not cutter.step():
                    break
                work = self.work
                is_taken = form is not None and self._take_alike(lane, form, cutter, now_s, wall_ns)
                if not is_taken and not self._take_other(lane, cutter, now_s, wall_ns):
                    return False
                lane.looks -= 1 + (self.work - work) // DELIVERIES_PER_LOOK
            return True
        finally:
            self._settle(lane)

    def _settle(self, lane: ClientQueue) -> None:
        """Count the frames that the relay wrote to the lanes of subscribers."""
        for stencil, number in lane.relay.take_touched():
            assert isinstance(stencil, HeaderTemplate)
            topic, route = stencil.topic, stencil.route
            assert route is not None
            count: i64 = number
            topic.accepted += count
            topic.tally.due += len(route.lanes) * count
            if topic.name not in lane.published:
                lane.note_published(topic.name)
            for member in route.lanes:
                member.delivered(count, topic.tally)

    def _take_other(
        self, lane: ClientQueue, cutter: FrameCutter, now_s: float, wall_ns: i64
    ) -> bool:
        """Process an object by reading its header; false, without effect, if it is not ordinary."""
        header, payload = lane.wire.read_frame()
        topic = self.topics.get(header.type_name)
        if topic is None or topic.is_special or header.attributes < 0:
            return False
        doubtful = lane.doubtful_types
        if doubtful is not None and topic.name in doubtful:
            return False
        relay = lane.relay
        if relay.is_new and header.remove_obj != 1 and relay.wants():
            relay.learn(HeaderTemplate(header, relay.parts(), topic, lane).form)
        return self.take(lane, topic, header, payload, now_s, wall_ns) is None

    def _renew(self, lane: ClientQueue, stencil: HeaderTemplate) -> bool:
        """Resolve the route of a stencil again; false if the stencil cannot be used now."""
        topic = stencil.topic
        if self.topics.get(topic.name) is not topic or topic.sweep is not None:
            return False
        if topic.plan is not stencil.plan:
            lane.relay.forget(stencil.form)
            return False
        route: Route | None = None
        if stencil.subject or not topic.needs_subject:
            route = topic.routes.get(stencil.subject) if stencil.subject else topic.route
            if route is None:
                route = self.router.resolve(topic, stencil.subject)
            if not route.is_common:
                return False
        stencil.open(route)
        return True

    def _take_alike(
        self,
        lane: ClientQueue,
        form: ForwardedHeader,
        cutter: FrameCutter,
        now_s: float,
        wall_ns: i64,
    ) -> bool:
        """Process an object with a known header; false, without effect, if it has to be read."""
        stencil = form.owner
        assert isinstance(stencil, HeaderTemplate)
        relay = lane.relay
        if not form.is_open:
            # Frames that were written by the former route are counted first.
            self._settle(lane)
            if not self._renew(lane, stencil):
                return False
            # The relay tries the same frame again, with all that follow it.
            cutter.back()
            return True
        if relay.is_run:
            return self._forward(lane, stencil, cutter, now_s)
        if not relay.is_checked:
            return False
        topic, route = stencil.topic, stencil.route
        payload, key, present, sent_s = relay.checked()
        subject = stencil.subject
        if route is None:
            route = self._route(topic, "", split(topic.plan, payload, 0))
            if not route.is_common:
                return False
        news: UpdateInTransit | None = None
        if route.ears:
            news = self._news(stencil, payload, sent_s, now_s)
        if topic.is_cached:
            known = topic.shelf.objects.get(key)
            if known is not None and known.subject != subject:
                return False
            owners = topic.owners
            if owners is not None and not _may_change(owners, key, lane):
                return False
            if news is not None:
                news.known_key = key
                news.before = None if known is None else known.payload
            entry = self._store(lane, stencil, key, payload, present, sent_s, wall_ns)
            if news is not None:
                news.entry = entry
        self.position += 1
        lane.sequence += 1
        self.work += len(route.lanes)
        if stencil.route is not None:
            # Counted by `_settle`, with the frames that the relay forwarded.
            relay.deliver()
        else:
            self._deliver(lane, stencil, route, payload, sent_s, now_s)
        if news is not None:
            news.header.position = self.position
            news.header.sequence = lane.sequence
            self.work += len(route.ears) * DELIVERIES_PER_LOOK
            for ear in route.ears:
                ear.hear(news)
        return True

    def _deliver(
        self,
        lane: ClientQueue,
        stencil: HeaderTemplate,
        route: Route,
        payload: bytes,
        sent_s: float,
        now_s: float,
    ) -> None:
        """Deliver an object whose route depends on more than its header."""
        topic = stencil.topic
        topic.accepted += 1
        if topic.name not in lane.published:
            lane.note_published(topic.name)
        topic.tally.due += len(route.lanes)
        frames: list[bytes] = [b"", b"", b""]
        for member in route.lanes:
            kind = kind_of(member)
            if not frames[kind]:
                frames[kind] = stencil.form.frame(kind, sent_s, now_s, payload)
            member.tally.due += 1
            member.deliver(frames[kind], topic.tally)

    def _news(
        self, stencil: HeaderTemplate, payload: bytes, sent_s: float, now_s: float
    ) -> UpdateInTransit:
        """The update of an object with a known header, for views and other readers of objects."""
        header = copy_header(stencil.header)
        header.sent_time = sent_s
        header.server_sent_time = now_s
        header.node = self.node
        news = UpdateInTransit(stencil.topic, header, payload, stencil.subject)
        # The relay accepts only objects whose tags are all described.
        news.is_described = True
        return news

    def _forward(
        self, lane: ClientQueue, stencil: HeaderTemplate, cutter: FrameCutter, now_s: float
    ) -> bool:
        """Forward consecutive messages with the same header, writing each once for all subscribers.

        False, without effect, if the first has to be read. Else the cutter is at the last of them.
        """
        topic, route = stencil.topic, stencil.route
        assert route is not None
        plain = self._plain if route.has_plain else None
        full = self._full if route.has_full else None
        count = stencil.forward(cutter, now_s, plain, full)
        if count == 0:
            return False
        plain_data = b"" if plain is None else plain.take()
        full_data = b"" if full is None else full.take()
        # Frames that were written before are counted first.
        self._settle(lane)
        self.position += count
        topic.accepted += count
        lane.sequence += count
        if topic.name not in lane.published:
            lane.note_published(topic.name)
        tally = topic.tally
        tally.due += len(route.lanes) * count
        self.work += len(route.lanes)
        for member in route.lanes:
            data = full_data if member.has_subjects else plain_data
            member.deliver_run(data, count, tally)
        return True

    def _store(
        self,
        lane: ClientQueue,
        stencil: HeaderTemplate,
        key: bytes,
        payload: bytes,
        present: i64,
        sent_s: float,
        wall_ns: i64,
    ) -> Entry:
        topic = stencil.topic
        keeper = self.keeper if topic.is_persistent else None
        if keeper is not None:
            keeper.check()
        entry = self.cache.put(
            topic.shelf,
            topic.plan,
            key,
            payload,
            present,
            stencil.header.attributes,
            stencil.subject,
            lane.client_id,
            ns_of_seconds(sent_s),
            wall_ns,
            self.position + 1,
            lane.object_count_max,
            lane.object_bytes_max,
        )
        if keeper is not None:
            lane.stored_number = keeper.keep(topic, key, entry)
        return entry

    def take(
        self,
        lane: ClientQueue,
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
        if len(payload) > lane.update_bytes_max:
            size, limit = len(payload), int(lane.update_bytes_max)
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
            if not _may_change(owners, key, lane):
                subject = short_subject(plan, pieces)
                raise Refused(f"{subject:.200}: it is owned by client {owners.of(key)}")
        named = header.attributes | plan.key_mask
        if pieces.present & ~named or not pieces.is_canonical:
            # Only what was spoken of goes on, in the one form.
            pieces = split(plan, cut(plan, pieces, named), 0)
        subject = header.subject if lane.has_subjects else ""
        header.sender = lane.client_id
        header.server_sent_time = now_s
        if header.sent_time == NEVER:
            header.sent_time = now_s
        # What only a node may say is not believed of a client.
        header.from_cache = ABSENT
        header.is_from_myself = 0
        header.subscription_id = ABSENT
        self.accept(lane, topic, header, pieces, subject, wall_ns)
        return None

    def accept(
        self,
        lane: ClientQueue | None,
        topic: Topic,
        header: Header,
        pieces: Pieces,
        subject: str,
        wall_ns: i64,
    ) -> None:
        """An object that is in order: into the cache, and on to who asked for it."""
        news = UpdateInTransit(topic, header, pieces.data, subject)
        news.pieces = pieces
        left: str | None = None
        if topic.is_cached:
            if topic.sweep is not None:
                topic.sweep.settle(news.key())
            known = topic.shelf.objects.get(news.key())
            if known is not None and known.subject != subject:
                if news.is_remove:
                    # It goes from where it is, whatever the remove says of that.
                    subject = news.subject = known.subject
                else:
                    left = known.subject
        # Before anything is changed, since the subject may turn out to be none.
        route = self._route(topic, subject, pieces)
        if topic.is_cached:
            self._cache(lane, topic, news, pieces, wall_ns)
        self.position += 1
        topic.accepted += 1
        header.position = self.position
        header.node = self.node
        if lane is not None:
            lane.sequence += 1
            header.sequence = lane.sequence
            if topic.name not in lane.published:
                lane.note_published(topic.name)
        if left is None:
            self._tell(topic, news, route)
        else:
            self._tell_moved(topic, news, left, route)

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
        lane: ClientQueue | None,
        topic: Topic,
        news: UpdateInTransit,
        pieces: Pieces,
        wall_ns: i64,
    ) -> None:
        key = news.key()
        header = news.header
        keeper = self.keeper if topic.is_persistent else None
        if keeper is not None and lane is not None:
            keeper.check()
        if news.is_remove:
            gone = self.cache.drop(topic.shelf, key)
            if gone is None:
                return
            news.gone = gone
            news.before = gone.payload
        else:
            known = topic.shelf.objects.get(key)
            if known is not None:
                news.before = known.payload
            if pieces.unknown:
                topic.shelf.unknown_keys.add(key)
            news.entry = self.cache.put(
                topic.shelf,
                topic.plan,
                key,
                pieces.data,
                pieces.present,
                header.attributes,
                news.subject,
                header.sender,
                ns_of_seconds(header.sent_time),
                wall_ns,
                self.position + 1,
                CACHE_OBJECT_COUNT_MAX if lane is None else lane.object_count_max,
                CACHE_BYTES_MAX if lane is None else lane.object_bytes_max,
            )
        if keeper is not None:
            number = keeper.keep(topic, key, news.entry)
            if lane is not None:
                lane.stored_number = number

    def _tell(self, topic: Topic, news: UpdateInTransit, route: Route) -> None:
        tally = topic.tally
        tally.due += len(route.lanes)
        self.work += len(route.lanes) + len(route.ears) * DELIVERIES_PER_LOOK
        for lane in route.lanes:
            lane.tally.due += 1
            lane.deliver(news.frame(lane), tally)
        for ear in route.ears:
            ear.hear(news)

    def _tell_moved(self, topic: Topic, news: UpdateInTransit, left: str, route: Route) -> None:
        """An object has a new subject: for who hears of that only, it is new and told whole; for
        who hears of the old one only, it is gone."""
        assert news.pieces is not None
        assert news.entry is not None
        former = self._route(topic, left, news.pieces)
        were, are = _clients_on(former), _clients_on(route)
        whole = self._whole(topic, news, news.entry)
        topic.tally.due += len(route.lanes)
        for lane in route.lanes:
            lane.tally.due += 1
            told = news if int(lane.client_id) in were else whole
            lane.deliver(told.frame(lane), topic.tally)
        for ear in route.ears:
            is_new = ear.client_id != 0 and int(ear.client_id) not in were
            ear.hear(whole if is_new else news)
        header = copy_header(news.header)
        header.remove_obj = 1
        header.attributes = topic.plan.key_mask
        gone = UpdateInTransit(
            topic, header, cut(topic.plan, news.pieces, topic.plan.key_mask), left
        )
        for lane in former.lanes:
            if int(lane.client_id) not in are:
                topic.tally.due += 1
                lane.tally.due += 1
                lane.deliver(gone.frame(lane), topic.tally)
        for ear in former.ears:
            if ear.client_id and int(ear.client_id) not in are:
                ear.leave(gone)

    def _whole(self, topic: Topic, news: UpdateInTransit, entry: Entry) -> UpdateInTransit:
        """The same update, as if all fields of its object had been published with it."""
        header = copy_header(news.header)
        header.attributes = entry.present
        whole = UpdateInTransit(topic, header, entry.payload, news.subject)
        whole.before = news.before
        whole.entry = entry
        return whole


def _clients_on(route: Route) -> set[int]:
    """The clients that are on a route for what it is, by their numbers."""
    found: set[int] = set()
    for lane in route.lanes:
        found.add(int(lane.client_id))
    for ear in route.ears:
        found.add(int(ear.client_id))
    return found


def _may_change(owners: Owners, key: bytes, lane: ClientQueue) -> bool:
    """Whether an object is a client's own, or nobody's."""
    owner = owners.of(key)
    return owner == 0 or owner == lane.client_id
