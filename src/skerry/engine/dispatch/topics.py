"""Topics, their routes, and the update that is being dispatched.

The dispatcher works on these. `engine.dispatch.routing` makes the routes; filtered subscriptions
and cache replays are ears on them; bulk removals and the journal are called before an object
changes. The module is compiled with the dispatcher, which reads it for every update.
"""

from __future__ import annotations

from typing import Any

from mypy_extensions import i64, mypyc_attr

from skerry.codec.hot_loops import RouteVersion, StructLayout
from skerry.codec.pieces import Pieces, canonical_key, project, split
from skerry.codec.plans import StructPlan
from skerry.codec.subjects import default_pattern
from skerry.engine.dispatch.cache import Entry, TypeCache
from skerry.engine.dispatch.client_queue import ClientQueue, Tally
from skerry.protocol.access.header import ABSENT, Header, copy_header
from skerry.protocol.access.wire import frame_of

__all__ = [
    "JournalWriter",
    "OngoingRemoval",
    "Owners",
    "Route",
    "RouteResolver",
    "Topic",
    "UpdateInTransit",
    "UpdateListener",
    "frame_for",
    "replay_header",
]


class Topic:
    """A struct type in use: how it travels, its objects, and who hears of them."""

    def __init__(
        self,
        type_: Any,
        plan: StructPlan,
        type_cache: TypeCache,
        *,
        is_cached: bool,
        is_persistent: bool,
        is_special: bool,
    ) -> None:
        self.name: str = type_cache.name
        self.type: Any = type_
        self.plan: StructPlan = plan
        self.pattern: str = default_pattern(plan)
        """The pattern of its default subjects."""
        self.layout: StructLayout = StructLayout(plan)
        self.type_cache: TypeCache = type_cache
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
        self.bulk_removal: OngoingRemoval | None = None
        """What is left to do of the removal of many of its objects."""
        self.owners: Owners | None = None
        """Whose its objects are, if any are somebody's."""
        self.tally: Tally = Tally()
        self.accepted: i64 = 0
        self.epoch: i64 = 0
        """The number of times that an incompatible definition replaced the former one."""
        self.gate: RouteVersion = RouteVersion()
        """Shut to invalidate the stencils of its objects: when routes are invalidated, the
        definition changes, or a removal of many objects begins."""
        self.readings: dict[tuple[int, bool], Any] = {}
        """Projections for clients with another definition (`engine.types.projections`), by the
        fingerprint of that definition and whether the clients skip unknown tags."""

    def redefine(
        self, type_: Any, plan: StructPlan, *, is_cached: bool, is_persistent: bool
    ) -> None:
        """Change to another definition of the type, which can read all cached objects."""
        self.type = type_
        self.plan = plan
        self.pattern = default_pattern(plan)
        self.layout = StructLayout(plan)
        self.is_cached = is_cached
        self.is_persistent = is_persistent
        self.readings.clear()
        self.forget_routes()

    def forget_routes(self) -> None:
        """Invalidate the routes, after a subscriber joined, left or became ready."""
        self.gate.shut()
        self.route = None
        self.routes.clear()


class Owners:
    """Whose the objects of a topic are, as far as they are anybody's alone."""

    def __init__(self) -> None:
        self.of_all: i64 = 0
        """The client that owns all of them; 0 if there is none."""
        self.by_key: dict[bytes, int] = {}
        """Those that own single ones, which goes before."""

    def of(self, key: bytes) -> i64:
        """The client that owns an object; 0 if nobody does."""
        owner = self.by_key.get(key)
        return self.of_all if owner is None else owner


class Route:
    """Who hears of updates of one topic under one subject."""

    def __init__(self, queues: list[ClientQueue], listeners: list[UpdateListener]) -> None:
        self.queues: list[ClientQueue] = queues
        self.listeners: list[UpdateListener] = listeners
        self.is_common: bool = True
        """Whether all lanes accept a common form, in which many receive the same header."""
        for queue in queues:
            if queue.has_origin or not (queue.is_framed or queue.is_old):
                self.is_common = False
        self.has_full: bool = any(queue.has_subjects for queue in queues)
        self.has_plain: bool = not all(queue.has_subjects for queue in queues)
        """Whether some of them are told of subjects, and whether some are not."""


class UpdateInTransit:
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
        self.known_key: bytes | None = None
        """The canonical key, once it is known."""
        self.is_described: bool = False
        """Whether the payload is known to have no tags that the type does not have."""
        self._known: UpdateInTransit | None = None
        self._plain: bytes | None = None
        self._subjects: bytes | None = None
        self._origin: bytes | None = None

    def key(self) -> bytes:
        """The canonical key of the object."""
        if self.known_key is None:
            plan = self.topic.plan
            pieces = self.pieces
            if pieces is None:
                pieces = split(plan, self.payload, 0)
            self.known_key = canonical_key(plan, pieces)
        return self.known_key

    def frame(self, queue: ClientQueue) -> bytes:
        """The update as bytes for one client; clients that get the same bytes share them."""
        if not queue.has_subjects and self.has_unknown:
            # Plain DOTS programs receive only tags that were described to them.
            return self._described().frame(queue)
        if not queue.is_framed:
            return self._own_frame(queue)
        if queue.has_origin:
            if self._origin is None:
                self._origin = self._make(True, True)
            return self._origin
        if queue.has_subjects and self.subject:
            if self._subjects is None:
                self._subjects = self._make(True, False)
            return self._subjects
        if self._plain is None:
            self._plain = self._make(False, False)
        return self._plain

    @property
    def has_unknown(self) -> bool:
        """Whether the update has, or may have, tags that the type does not have."""
        pieces = self.pieces
        if pieces is not None:
            return pieces.unknown != 0
        return not self.is_described and len(self.topic.type_cache.unknown_keys) > 0

    def _described(self) -> UpdateInTransit:
        """The update without the tags that the type does not have."""
        if self._known is None:
            plan = self.topic.plan
            # The attributes stay: the C++ host forwards bits that it does not know, too.
            header = copy_header(self.header)
            payload, _ = project(plan, self.payload, plan.mask)
            self._known = UpdateInTransit(self.topic, header, payload, self.subject)
            self._known.is_described = True
        return self._known

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

    def _own_frame(self, queue: ClientQueue) -> bytes:
        header = self.header
        header.subject = self.subject if queue.has_subjects else ""
        sequence, position, node = header.sequence, header.position, header.node
        if not queue.has_origin:
            header.sequence = ABSENT
            header.position = ABSENT
            header.node = 0
        data = queue.wire.frame(header, self.payload)
        header.sequence = sequence
        header.position = position
        header.node = node
        return data


@mypyc_attr(allow_interpreted_subclasses=True)
class UpdateListener:
    """Somebody on a route who needs more than a frame on a lane."""

    def __init__(self) -> None:
        self.client_id: i64 = 0
        """Of a client that is there for the subject of the route; 0 for one that is not."""

    def leave(self, update: UpdateInTransit) -> None:
        """An object is no longer under this subject."""
        raise NotImplementedError

    def receive(self, update: UpdateInTransit) -> None:
        """Take an update that was accepted."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class OngoingRemoval:
    """Objects of a topic that are removed some at a time, and yet seem to go all at once."""

    def settle(self, key: bytes) -> None:
        """An update of an object has come: if it is to go, that has to happen first."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class RouteResolver:
    """Knows who is to hear what."""

    def resolve(self, topic: Topic, subject: str) -> Route:
        """The route of a topic, for a subject or for all default ones; it is kept there."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class JournalWriter:
    """Takes what has to survive the node."""

    def check(self) -> None:
        """LimitExceeded when no more can be taken now."""
        raise NotImplementedError

    def keep(self, topic: Topic, key: bytes, entry: Entry | None) -> int:
        """An object changed or, without an entry, went; gives the number of the change."""
        raise NotImplementedError


def frame_for(queue: ClientQueue, header: Header, payload: bytes, subject: str) -> bytes:
    """A frame for one client alone; of the additions it gets what it understands."""
    header.subject = subject if queue.has_subjects else ""
    if not queue.has_origin:
        header.sequence = ABSENT
        header.position = ABSENT
        header.node = 0
    if queue.is_framed:
        return frame_of(header, payload)
    return queue.wire.frame(header, payload)


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
