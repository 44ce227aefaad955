"""The way of an update through the node: checked, cached, and put on the lanes of who asked.

This is what a node does all day, so it is compiled and free of everything that is not needed for
each single update. Who is to hear what is decided elsewhere (`engine.routing`) when somebody joins,
and kept as a route; what needs more than a frame on a lane (a view with a condition, a replay that
is under way, a client that is slow) is an `Ear` on that route.
"""

from __future__ import annotations

from typing import Any, Final

from librt.strings import BytesWriter, write_f64_be, write_i32_be
from mypy_extensions import i32, i64, mypyc_attr, u8

from skerry.codec.frame import FrameCutter
from skerry.codec.pieces import Pieces, canonical_key, cut, split, split_again
from skerry.codec.plans import StructPlan
from skerry.codec.subjects import default_subject
from skerry.engine.cache import Cache, Entry, Shelf
from skerry.engine.lane import Lane, Tally
from skerry.ids import NODE_CLIENT
from skerry.limits import CACHE_BYTES_MAX, CACHE_OBJECT_COUNT_MAX
from skerry.protocol.access.header import (
    ABSENT,
    NEVER,
    SERVER_SENT_TIME,
    Header,
    copy_header,
    read_header,
    write_header,
)
from skerry.protocol.access.repeats import Repeat
from skerry.protocol.access.wire import frame_of

__all__ = [
    "TIME_S_MAX",
    "Ear",
    "Hub",
    "Keeper",
    "News",
    "Route",
    "Router",
    "Stencil",
    "Sweep",
    "Topic",
    "frame_for",
    "replay_header",
]

TIME_S_MAX: Final = 9_000_000_000.0
"""The nanoseconds of times much further from 1970 do not fit into 64 bits."""


class Topic:
    """A struct type in use: how it travels, its objects, and who hears of them."""

    def __init__(
        self,
        type_: Any,
        plan: StructPlan,
        shelf: Shelf,
        *,
        is_cached: bool,
        is_persistent: bool,
        is_special: bool,
    ) -> None:
        self.name: str = shelf.name
        self.type: Any = type_
        self.plan: StructPlan = plan
        self.shelf: Shelf = shelf
        self.is_cached: bool = is_cached
        self.is_persistent: bool = is_persistent
        self.is_special: bool = is_special
        """Whether the node itself has something to do with its objects."""
        self.route: Route | None = None
        """For objects under their default subject; None until it is asked for."""
        self.routes: dict[str, Route] = {}
        """The same by subject, where that matters."""
        self.needs_subject: bool = False
        """Whether somebody asked for a part of the default subjects only."""
        self.sweep: Sweep | None = None
        """What is left to do of the removal of many of its objects."""
        self.tally: Tally = Tally()
        self.accepted: i64 = 0
        self.generation: i64 = 0
        """Counts how often routes were forgotten."""

    def forget_routes(self) -> None:
        """Somebody came, went or is ready; routes are found anew."""
        self.generation += 1
        self.route = None
        self.routes.clear()


class Route:
    """Who hears of updates of one topic under one subject."""

    def __init__(self, lanes: list[Lane], ears: list[Ear]) -> None:
        self.lanes: list[Lane] = lanes
        self.ears: list[Ear] = ears
        self.is_plain: bool = not ears
        """Whether all on it take the same frame, apart from the subject."""
        for lane in lanes:
            if lane.has_origin or not lane.is_framed:
                self.is_plain = False


class Stencil:
    """What to do with objects that come with a header that came before, and how to pass them on.

    Of the header that goes out only the two times differ from one object to the next.
    """

    def __init__(self, repeat: Repeat, topic: Topic, lane: Lane) -> None:
        self.repeat: Repeat = repeat
        self.topic: Topic = topic
        header = repeat.header
        self.named: i64 = header.attributes | topic.plan.key_mask
        self.subject: str = header.subject if lane.has_subjects else ""
        self.route: Route | None = None
        self.generation: i64 = 0
        out = Header(header.type_name)
        out.sent_time = 0.0
        out.server_sent_time = 0.0
        out.attributes = header.attributes
        out.sender = lane.client_id
        out.remove_obj = header.remove_obj
        out.is_from_myself = 0
        at = int(repeat.sent_at)
        plain = write_header(out)
        out.subject = self.subject
        full = write_header(out)
        self._heads: list[bytes] = [plain[:at], full[:at]]
        self._rests: list[bytes] = [plain[at + 18 :], full[at + 18 :]]
        self._tails: list[bytes] = [b"", b""]
        self._tails_s: float = NEVER
        """For which time the tails, the second time and all behind it, are made."""

    def write(
        self, writer: BytesWriter, sent_s: float, now_s: float, payload: bytes, has_subject: bool
    ) -> None:
        """Write the frame of an object."""
        if self._tails_s != now_s:
            middle = BytesWriter()
            middle.append(u8(SERVER_SENT_TIME))
            middle.append(u8(0xFB))
            write_f64_be(middle, now_s)
            time = middle.getvalue()
            self._tails = [time + self._rests[0], time + self._rests[1]]
            self._tails_s = now_s
        head = self._heads[1] if has_subject else self._heads[0]
        tail = self._tails[1] if has_subject else self._tails[0]
        writer.append(u8(0x1A))
        size: i64 = len(head) + 8 + len(tail) + len(payload)
        write_i32_be(writer, i32(size))
        writer.write(head)
        write_f64_be(writer, sent_s)
        writer.write(tail)
        writer.write(payload)


class News:
    """One accepted update on its way. The header is that of the forwarded object."""

    def __init__(self, topic: Topic, header: Header, payload: bytes, subject: str) -> None:
        self.topic: Topic = topic
        self.header: Header = header
        self.payload: bytes = payload
        self.subject: str = subject
        """Empty for the default one."""
        self.is_remove: bool = header.remove_obj == 1
        self.pieces: Pieces | None = None
        self.before: bytes | None = None
        """The cached object as it was, if it was."""
        self.entry: Entry | None = None
        """As it is now, if it is."""
        self.gone: Entry | None = None
        """As it was when this update removed it."""
        self._key: bytes | None = None
        self._plain: bytes | None = None
        self._subjects: bytes | None = None
        self._origin: bytes | None = None

    def key(self) -> bytes:
        """The canonical key of the object."""
        if self._key is None:
            plan = self.topic.plan
            pieces = self.pieces
            if pieces is None:
                pieces = split(plan, self.payload, 0)
            self._key = canonical_key(plan, pieces)
        return self._key

    def frame(self, lane: Lane) -> bytes:
        """The update as bytes for one client; those who take the same share them."""
        if not lane.is_framed:
            return self._own_frame(lane)
        if lane.has_origin:
            if self._origin is None:
                self._origin = self._make(True, True)
            return self._origin
        if lane.has_subjects and self.subject:
            if self._subjects is None:
                self._subjects = self._make(True, False)
            return self._subjects
        if self._plain is None:
            self._plain = self._make(False, False)
        return self._plain

    def _make(self, has_subject: bool, has_origin: bool) -> bytes:
        header = self.header
        header.subject = self.subject if has_subject else ""
        if has_origin:
            return frame_of(header, self.payload)
        sequence, position, node = header.sequence, header.position, header.node
        header.sequence = ABSENT
        header.position = ABSENT
        header.node = 0
        data = frame_of(header, self.payload)
        header.sequence = sequence
        header.position = position
        header.node = node
        return data

    def _own_frame(self, lane: Lane) -> bytes:
        header = self.header
        header.subject = self.subject if lane.has_subjects else ""
        sequence, position, node = header.sequence, header.position, header.node
        if not lane.has_origin:
            header.sequence = ABSENT
            header.position = ABSENT
            header.node = 0
        data = lane.wire.frame(header, self.payload)
        header.sequence = sequence
        header.position = position
        header.node = node
        return data


@mypyc_attr(allow_interpreted_subclasses=True)
class Ear:
    """Somebody on a route who needs more than a frame on a lane."""

    def __init__(self) -> None:
        self.client_id: i64 = 0
        """Of a client that is there for the subject of the route; 0 for one that is not."""

    def leave(self, news: News) -> None:
        """An object is no longer under this subject."""
        raise NotImplementedError

    def hear(self, news: News) -> None:
        """Take an update that was accepted."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Sweep:
    """Objects of a topic that are removed some at a time, and yet seem to go all at once."""

    def settle(self, key: bytes) -> None:
        """An update of an object has come: if it is to go, that has to happen first."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Router:
    """Knows who is to hear what."""

    def resolve(self, topic: Topic, subject: str) -> Route:
        """The route of a topic, for a subject or for all default ones; it is kept there."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Keeper:
    """Takes what has to survive the node."""

    def check(self) -> None:
        """LimitExceeded when no more can be taken now."""
        raise NotImplementedError

    def keep(self, topic: Topic, key: bytes, entry: Entry | None) -> int:
        """An object changed or, without an entry, went; gives the number of the change."""
        raise NotImplementedError


class Hub:
    """What all updates go through."""

    def __init__(self, cache: Cache, router: Router, *, node: int) -> None:
        self.cache: Cache = cache
        self.router: Router = router
        self.keeper: Keeper | None = None
        self.topics: dict[str, Topic] = {}
        self.position: i64 = 0
        """Updates that were accepted."""
        self.listed: list[Lane] = []
        """Lanes that have something new."""
        self._pieces: Pieces = Pieces(b"")
        """For one object after the other."""
        self.node: i64 = node

    def take_frames(self, lane: Lane, cutter: FrameCutter, now_s: float, wall_ns: int) -> bool:
        """Take frames as long as they are of ordinary objects; whether those were all.

        If not, the cutter is at the first other. That one may be of any kind: a message for the
        node, an object of a type that nobody described, one with a fault.
        """
        while cutter.step():
            if not self.take_frame(lane, cutter, now_s, wall_ns):
                return False
        return True

    def take_frame(self, lane: Lane, cutter: FrameCutter, now_s: float, wall_ns: i64) -> bool:
        """Take the frame that the cutter is at; false, and nothing done, if it is not ordinary."""
        stencil = self._find(lane, cutter)
        if stencil is not None and self._take_alike(lane, stencil, cutter, now_s, wall_ns):
            return True
        body = cutter.body()
        header, at = read_header(body, 0)
        topic = self.topics.get(header.type_name)
        if topic is None or topic.is_special or header.attributes < 0:
            return False
        if stencil is None and header.remove_obj != 1:
            repeat = Repeat(body, at, header)
            if repeat.is_usable:
                lane.spare_stencil = lane.stencil
                lane.stencil = Stencil(repeat, topic, lane)
        return self.take(lane, topic, header, body[at:], now_s, wall_ns) is None

    def _find(self, lane: Lane, cutter: FrameCutter) -> Stencil | None:
        stencil = lane.stencil
        if stencil is None:
            return None
        assert isinstance(stencil, Stencil)
        if stencil.repeat.fits(cutter.buffer, cutter.start, cutter.stop):
            return stencil
        spare = lane.spare_stencil
        if spare is None:
            return None
        assert isinstance(spare, Stencil)
        if not spare.repeat.fits(cutter.buffer, cutter.start, cutter.stop):
            return None
        lane.stencil = spare
        lane.spare_stencil = stencil
        return spare

    def _take_alike(
        self, lane: Lane, stencil: Stencil, cutter: FrameCutter, now_s: float, wall_ns: i64
    ) -> bool:
        """Take an object whose header came before; false, and nothing done, if it needs more."""
        topic = stencil.topic
        plan = topic.plan
        if self.topics.get(topic.name) is not topic or topic.sweep is not None:
            return False
        payload = cutter.buffer[cutter.start + stencil.repeat.size : cutter.stop]
        pieces = self._pieces
        split_again(pieces, plan, payload, 0, topic.is_cached or topic.needs_subject)
        sent_time = stencil.repeat.sent_time(cutter.buffer, cutter.start)
        if (
            pieces.stop != len(payload)
            or not pieces.is_canonical
            or pieces.present & ~stencil.named
            or plan.key_mask & ~pieces.present
            or not (-TIME_S_MAX <= sent_time <= TIME_S_MAX)
        ):
            return False
        route = stencil.route
        if route is None or stencil.generation != topic.generation:
            route = self._route(topic, stencil.subject, pieces)
            if topic.needs_subject and not stencil.subject:
                # It depends on the object, not on the header alone.
                stencil.route = None
            else:
                stencil.route = route
                stencil.generation = topic.generation
        if not route.is_plain:
            return False
        if topic.is_cached:
            key = canonical_key(plan, pieces)
            known = topic.shelf.objects.get(key)
            if known is not None and known.subject != stencil.subject:
                return False
            self._store(lane, topic, key, pieces, stencil, sent_time, wall_ns)
        self.position += 1
        topic.accepted += 1
        lane.sequence += 1
        if lane.topic_name is not topic.name:
            lane.note_published(topic.name)
        tally = topic.tally
        tally.due += len(route.lanes)
        for member in route.lanes:
            member.tally.due += 1
            stencil.write(member.writer, sent_time, now_s, payload, member.has_subjects)
            member.count(tally)
        return True

    def _store(
        self,
        lane: Lane,
        topic: Topic,
        key: bytes,
        pieces: Pieces,
        stencil: Stencil,
        sent_time: float,
        wall_ns: i64,
    ) -> Entry:
        keeper = self.keeper if topic.is_persistent else None
        if keeper is not None:
            keeper.check()
        entry = self.cache.put(
            topic.shelf,
            topic.plan,
            key,
            pieces,
            stencil.repeat.header.attributes,
            stencil.subject,
            lane.client_id,
            _ns_of_seconds(sent_time),
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
        lane: Lane,
        topic: Topic,
        header: Header,
        payload: bytes,
        now_s: float,
        wall_ns: i64,
    ) -> str | None:
        """An object from a client; says what is wrong with it, if anything is.

        A fault is told before anything happened, so asking again gives the same answer.
        """
        plan = topic.plan
        pieces = split(plan, payload, 0)
        if pieces.stop != len(payload):
            return "bytes follow the object"
        if plan.key_mask & ~pieces.present:
            return "the key is not complete"
        # Asked this way round, since a time may also be not a number.
        if header.sent_time != NEVER and not (-TIME_S_MAX <= header.sent_time <= TIME_S_MAX):
            return "sentTime is no time"
        if header.remove_obj == 1 and not topic.is_cached:
            return "it is not cached: nothing to remove"
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
        lane: Lane | None,
        topic: Topic,
        header: Header,
        pieces: Pieces,
        subject: str,
        wall_ns: i64,
    ) -> None:
        """An object that is in order: into the cache, and on to who asked for it."""
        news = News(topic, header, pieces.data, subject)
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
            if lane.topic_name is not topic.name:
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
            subject = default_subject(topic.plan, pieces)
        known = topic.routes.get(subject)
        return self.router.resolve(topic, subject) if known is None else known

    def _cache(
        self, lane: Lane | None, topic: Topic, news: News, pieces: Pieces, wall_ns: i64
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
            news.entry = self.cache.put(
                topic.shelf,
                topic.plan,
                key,
                pieces,
                header.attributes,
                news.subject,
                header.sender,
                _ns_of_seconds(header.sent_time),
                wall_ns,
                self.position + 1,
                CACHE_OBJECT_COUNT_MAX if lane is None else lane.object_count_max,
                CACHE_BYTES_MAX if lane is None else lane.object_bytes_max,
            )
        if keeper is not None:
            number = keeper.keep(topic, key, news.entry)
            if lane is not None:
                lane.stored_number = number

    def _tell(self, topic: Topic, news: News, route: Route) -> None:
        tally = topic.tally
        tally.due += len(route.lanes)
        for lane in route.lanes:
            lane.tally.due += 1
            lane.deliver(news.frame(lane), tally)
        for ear in route.ears:
            ear.hear(news)

    def _tell_moved(self, topic: Topic, news: News, left: str, route: Route) -> None:
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
        gone = News(topic, header, cut(topic.plan, news.pieces, topic.plan.key_mask), left)
        for lane in former.lanes:
            if int(lane.client_id) not in are:
                topic.tally.due += 1
                lane.tally.due += 1
                lane.deliver(gone.frame(lane), topic.tally)
        for ear in former.ears:
            if ear.client_id and int(ear.client_id) not in are:
                ear.leave(gone)

    def _whole(self, topic: Topic, news: News, entry: Entry) -> News:
        """The same update, as if all fields of its object had been published with it."""
        header = copy_header(news.header)
        header.attributes = entry.present
        whole = News(topic, header, entry.payload, news.subject)
        whole.before = news.before
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
    for lane in route.lanes:
        found.add(int(lane.client_id))
    for ear in route.ears:
        found.add(int(ear.client_id))
    return found


def frame_for(lane: Lane, header: Header, payload: bytes, subject: str) -> bytes:
    """A frame for one client alone; of the additions it gets what it understands."""
    header.subject = subject if lane.has_subjects else ""
    if not lane.has_origin:
        header.sequence = ABSENT
        header.position = ABSENT
        header.node = 0
    if lane.is_framed:
        return frame_of(header, payload)
    return lane.wire.frame(header, payload)


def replay_header(topic: Topic, entry: Entry, left: int, now_s: float, node: int) -> Header:
    """The header of a cached object for somebody who just joined."""
    header = Header(topic.name)
    header.sent_time = entry.sent_ns / 1_000_000_000
    header.server_sent_time = now_s
    header.attributes = entry.present
    header.sender = entry.modified_from
    header.from_cache = left
    header.remove_obj = 0
    header.position = entry.position
    header.node = node
    return header
