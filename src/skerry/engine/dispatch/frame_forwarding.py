"""Forwards frames whose header was received before, without decoding them.

The relay of a client (`codec.hot_loops.FrameRelay`) recognises the headers that the client sent
before, each by its header template. It writes the frames of most objects to the queues of
subscribers by itself; objects that have to be cached or examined are processed here, and all
others by `Dispatcher.take`. Forwarded objects with the same header differ only in the two times, so
the rest of the forwarded header is written once.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_f64_be
from mypy_extensions import i64, u8

from skerry.codec.frame import LARGE_FRAME_BYTES, PREFIX_BYTES, FrameCutter
from skerry.codec.hot_loops import AlikeFrames, ForwardedHeader, Frames
from skerry.codec.pieces import LARGE_BYTES, split
from skerry.codec.plans import StructPlan
from skerry.engine.dispatch.cache import Entry
from skerry.engine.dispatch.client_queue import TIME_S_MAX, ClientQueue, Source
from skerry.engine.dispatch.dispatcher import BYTES_PER_DELIVERY, Dispatcher
from skerry.engine.dispatch.topics import Route, Topic, UpdateInTransit
from skerry.limits import DELIVERIES_PER_WORK_UNIT
from skerry.objects.times import ns_of_seconds
from skerry.protocol.access.header import SERVER_SENT_TIME, Header, copy_header, write_header
from skerry.protocol.access.wire import OldWire

_TIMES_BYTES: Final = 18
"""Size of both times, with the bytes between them."""
_OLD: Final = OldWire()


class HeaderTemplate:
    def __init__(
        self, header: Header, parts: tuple[bytes, bytes, bool], topic: Topic, source: Source
    ) -> None:
        """`parts` are the parts of the header as the client's relay returns them."""
        self.topic: Topic = topic
        self.plan: StructPlan = topic.plan
        """The definition of the type for which the template is valid."""
        self.named: i64 = header.attributes | topic.plan.key_mask
        self.subject: str = header.subject if source.has_subjects else ""
        self.route: Route | None = None
        """None if the route depends on the object."""
        out = Header(header.type_name)
        out.sent_time = 0.0
        out.server_sent_time = 0.0
        out.attributes = header.attributes
        out.sender = source.client_id
        out.remove_obj = header.remove_obj
        out.is_from_myself = 0
        self.header: Header = out
        """The header of the forwarded object, without its times."""
        plain = write_header(out)
        # Without the size prefix, and without the size of the (empty) object at the end.
        old = _OLD.frame(out, b"")[2:-2]
        named = copy_header(out)
        named.subject = self.subject
        full = write_header(named)
        at = _time_at(header.type_name)
        old_at = len(old) - len(plain) + at
        self._heads: list[bytes] = [plain[:at], full[:at]]
        self._rests: list[bytes] = [plain[at + _TIMES_BYTES :], full[at + _TIMES_BYTES :]]
        self.form: ForwardedHeader = ForwardedHeader(
            self,
            parts,
            [*self._heads, old[:old_at]],
            [*self._rests, old[old_at + _TIMES_BYTES :]],
        )
        self._bytes_max: int = int(source.update_bytes_max)
        """Frames up to this size are within every limit."""
        self._alike: AlikeFrames = AlikeFrames(
            parts[0], parts[1], SERVER_SENT_TIME if parts[2] else -1
        )

    def open(self, route: Route | None) -> None:
        """Set the subscribers of the objects, until the gate of the topic is shut.

        Without a route, the subscribers depend on the object.
        """
        topic = self.topic
        self.route = route
        queues = [] if route is None else route.queues
        is_message = route is not None and not topic.is_cached and not route.listeners
        self.form.open(
            topic.gate,
            topic.layout,
            int(self.named),
            is_message,
            [queue.frames for queue in queues],
            bytes([kind_of(queue) for queue in queues]),
        )

    def forward(
        self, cutter: FrameCutter, now_s: float, plain: Frames | None, full: Frames | None
    ) -> i64:
        """Write the frames of consecutive objects: to `plain` without a subject, to `full` with it.

        Begins with the frame at the cutter and stops at a frame that has to be decoded. Returns the
        number of frames; the cutter is behind the last of them.
        """
        middle = BytesWriter()
        middle.append(u8(SERVER_SENT_TIME))
        middle.append(u8(0xFB))
        write_f64_be(middle, now_s)
        time = middle.getvalue()
        stop, count = self._alike.forward(
            cutter.buffer,
            int(cutter.start) - PREFIX_BYTES,
            self._bytes_max,
            self.topic.layout,
            int(self.named),
            TIME_S_MAX,
            plain,
            self._heads[0],
            time + self._rests[0],
            full,
            self._heads[1],
            time + self._rests[1],
        )
        if count > 0:
            cutter.skip(int(cutter.start), stop, count - 1)
        return count


def kind_of(queue: ClientQueue) -> int:
    """The form of the header for a client, as an index into the forms of `codec.hot_loops`."""
    if queue.is_old:
        return 2
    return 1 if queue.has_subjects else 0


def _time_at(type_name: str) -> int:
    """The offset of the first time in a header."""
    name = len(type_name.encode("utf-8", "surrogateescape"))
    # The count of entries and a tag, the head of the name, and again a tag and a head.
    return 2 + (1 if name < 24 else 2 if name < 256 else 3) + name + 2


class FrameForwarding:
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher: Dispatcher = dispatcher
        self._plain: Frames = Frames()
        self._full: Frames = Frames()
        """Forwarded frames, without and with a subject."""

    def take_frames(
        self, queue: ClientQueue, cutter: FrameCutter, now_s: float, wall_ns: int
    ) -> bool:
        """Process frames as long as they have ordinary objects; returns whether those were all.

        It also stops when the work units of the client's turn are used up; frames may be left then.
        If it returns False, the cutter is at the first frame of another kind: a message for the
        node, an object of a type that no client described, or an invalid object.
        """
        relay, source = queue.relay, queue.source
        dispatcher = self._dispatcher
        # Frames above the limit of an update are not forwarded by the relay, nor are large ones,
        # which it would copy for each subscriber.
        bytes_max = min(cutter.frame_bytes_max, int(source.update_bytes_max))
        bytes_max = min(bytes_max, LARGE_FRAME_BYTES)
        try:
            while queue.work_left > 0:
                form = relay.pass_on(
                    cutter.buffer,
                    int(cutter.stop),
                    bytes_max,
                    now_s,
                    int(queue.work_left * DELIVERIES_PER_WORK_UNIT),
                )
                count: i64 = relay.count
                if count > 0:
                    dispatcher.position += count
                    source.sequence += count
                    cutter.skip(relay.stop, relay.stop, int(count))
                    queue.work_left -= i64(relay.work) // DELIVERIES_PER_WORK_UNIT
                    if relay.is_spent:
                        queue.work_left = 0
                        break
                if not cutter.step():
                    break
                work = dispatcher.work
                is_taken = form is not None and self._take_known(
                    queue, form, cutter, now_s, wall_ns
                )
                if not is_taken and not self._take_decoded(queue, now_s, wall_ns):
                    return False
                queue.work_left -= 1 + (dispatcher.work - work) // DELIVERIES_PER_WORK_UNIT
            return True
        finally:
            self._count_forwarded(queue)

    def _count_forwarded(self, queue: ClientQueue) -> None:
        """Count the frames that the relay wrote to the queues of subscribers."""
        source = queue.source
        for template, number in queue.relay.take_touched():
            assert isinstance(template, HeaderTemplate)
            topic, route = template.topic, template.route
            assert route is not None
            count: i64 = number
            topic.accepted += count
            topic.tally.due += len(route.queues) * count
            if topic.name not in source.published:
                source.note_published(topic.name)
            for member in route.queues:
                member.delivered(count, topic.tally)

    def _take_decoded(self, queue: ClientQueue, now_s: float, wall_ns: i64) -> bool:
        """Process an object by decoding its header; False, without effect, if it is special."""
        header, payload = queue.wire.read_frame()
        topic = self._dispatcher.topics.get(header.type_name)
        if topic is None or topic.is_special or header.attributes < 0:
            return False
        source = queue.source
        doubtful = source.doubtful_types
        if doubtful is not None and topic.name in doubtful:
            return False
        relay = queue.relay
        if relay.is_new and header.remove_obj != 1 and relay.wants():
            relay.learn(HeaderTemplate(header, relay.parts(), topic, source).form)
        return self._dispatcher.take(source, topic, header, payload, now_s, wall_ns) is None

    def _renew(self, queue: ClientQueue, template: HeaderTemplate) -> bool:
        """Resolve the route of a template again; False if the template cannot be used now."""
        topic = template.topic
        dispatcher = self._dispatcher
        if dispatcher.topics.get(topic.name) is not topic or topic.bulk_removal is not None:
            return False
        if topic.plan is not template.plan:
            queue.relay.forget(template.form)
            return False
        route: Route | None = None
        if template.subject or not topic.needs_subject:
            route = topic.routes.get(template.subject) if template.subject else topic.route
            if route is None:
                route = dispatcher.router.resolve(topic, template.subject)
            if not route.is_common:
                return False
        template.open(route)
        return True

    def _take_known(
        self,
        queue: ClientQueue,
        form: ForwardedHeader,
        cutter: FrameCutter,
        now_s: float,
        wall_ns: i64,
    ) -> bool:
        """Process an object with a known header; False, without effect, if it must be decoded."""
        template = form.owner
        assert isinstance(template, HeaderTemplate)
        relay = queue.relay
        if not relay.is_checked:
            if form.is_open:
                return relay.is_run and self._forward_run(queue, template, cutter, now_s)
            # Frames that were written by the former route are counted first.
            self._count_forwarded(queue)
            if not self._renew(queue, template):
                return False
            # The relay tries the same frame again, with all that follow it.
            cutter.back()
            return True
        topic, route = template.topic, template.route
        dispatcher = self._dispatcher
        payload, key, present, sent_s = relay.checked()
        subject = template.subject
        if route is None:
            route = dispatcher.route(topic, "", split(topic.plan, payload, 0))
            if not route.is_common:
                return False
        update: UpdateInTransit | None = None
        listeners = route.listeners
        if listeners and not topic.is_cached:
            listeners = [one for one in listeners if not one.skips(payload, subject)]
        if listeners:
            update = self._make_update(template, payload, sent_s, now_s)
        if topic.is_cached:
            known = topic.type_cache.objects.get(key)
            if known is not None and known.subject != subject:
                return False
            owners = topic.owners
            if owners is not None and not owners.allow(key, queue.source.client_id):
                return False
            if update is not None:
                update.known_key = key
                update.before = None if known is None else known.payload
            entry = self._cache(queue.source, template, key, payload, present, sent_s, wall_ns)
            if update is not None:
                update.entry = entry
        source = queue.source
        dispatcher.position += 1
        source.sequence += 1
        dispatcher.work += len(route.queues)
        if template.route is not None:
            # Counted by `_count_forwarded`, with the frames that the relay forwarded.
            relay.deliver()
        else:
            self._deliver(source, template, route, payload, sent_s, now_s)
        dispatcher.work += len(route.listeners) * DELIVERIES_PER_WORK_UNIT
        if update is not None:
            update.header.position = dispatcher.position
            update.header.sequence = source.sequence
            for listener in listeners:
                listener.receive(update)
        return True

    def _deliver(
        self,
        source: Source,
        template: HeaderTemplate,
        route: Route,
        payload: bytes,
        sent_s: float,
        now_s: float,
    ) -> None:
        """Deliver an object whose route depends on more than its header."""
        topic = template.topic
        topic.accepted += 1
        if topic.name not in source.published:
            source.note_published(topic.name)
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
        """The update of an object with a known header, for the listeners of its route."""
        header = copy_header(template.header)
        header.sent_time = sent_s
        header.server_sent_time = now_s
        header.node = self._dispatcher.node
        update = UpdateInTransit(template.topic, header, payload, template.subject)
        # The relay accepts only objects whose tags are all described.
        update.is_described = True
        return update

    def _forward_run(
        self, queue: ClientQueue, template: HeaderTemplate, cutter: FrameCutter, now_s: float
    ) -> bool:
        """Forward consecutive messages with the same header, writing each once for all subscribers.

        Returns False, without effect, if the first has to be decoded. Otherwise the cutter is at
        the last of them.
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
        self._count_forwarded(queue)
        dispatcher, source = self._dispatcher, queue.source
        dispatcher.position += count
        topic.accepted += count
        source.sequence += count
        if topic.name not in source.published:
            source.note_published(topic.name)
        tally = topic.tally
        tally.due += len(route.queues) * count
        dispatcher.work += len(route.queues)
        for member in route.queues:
            data = full_data if member.has_subjects else plain_data
            member.deliver_run(data, count, tally)
        return True

    def _cache(
        self,
        source: Source,
        template: HeaderTemplate,
        key: bytes,
        payload: bytes,
        present: i64,
        sent_s: float,
        wall_ns: i64,
    ) -> Entry:
        topic = template.topic
        dispatcher = self._dispatcher
        object_keeper = dispatcher.object_keeper if topic.is_persistent else None
        if object_keeper is not None:
            object_keeper.check()
        entry = dispatcher.cache.put(
            topic.type_cache,
            topic.plan,
            key,
            payload,
            present,
            template.header.attributes,
            template.subject,
            source.client_id,
            ns_of_seconds(sent_s),
            wall_ns,
            dispatcher.position + 1,
            source.object_count_max,
            source.object_bytes_max,
        )
        if len(entry.payload) > LARGE_BYTES:
            # A small update of a large object copies all of it.
            dispatcher.work += len(entry.payload) // BYTES_PER_DELIVERY
        if object_keeper is not None:
            source.stored_number = object_keeper.keep(topic, key, entry)
        return entry
