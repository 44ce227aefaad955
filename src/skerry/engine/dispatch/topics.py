"""Topics, their routes, and the update that is being dispatched.

The dispatcher works on these. `engine.dispatch.routing` makes the routes; filtered subscriptions
and cache replays are listeners of them; bulk removals and the journal are called before an object
changes. The module is compiled with the dispatcher, which reads it for every update.
"""

from __future__ import annotations

from typing import Any

from mypy_extensions import i64, mypyc_attr

from skerry.codec.hot_loops import RouteVersion, StructLayout
from skerry.codec.pieces import Pieces, canonical_key, split
from skerry.codec.plans import StructPlan
from skerry.codec.projection import project
from skerry.codec.subjects import default_pattern
from skerry.engine.dispatch.cache import Entry, TypeCache
from skerry.engine.dispatch.client_queue import ClientQueue, Tally
from skerry.protocol.access.header import ABSENT, Header, copy_header
from skerry.protocol.access.wire import frame_of


class Topic:
    """A struct type in use: its definition, its cached objects, its routes and its counters."""

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
        self.layout: StructLayout = StructLayout(plan)
        self.type_cache: TypeCache = type_cache
        self.is_cached: bool = is_cached
        self.is_persistent: bool = is_persistent
        self.is_special: bool = is_special
        """Whether its objects are messages for the node, or the node's own objects."""
        self.route: Route | None = None
        """The route of objects under their default subject; None until it is resolved."""
        self.routes: dict[str, Route] = {}
        """Routes by subject, for objects whose subscribers depend on it."""
        self.needs_subject: bool = False
        """Whether a pattern selects some, but not all, of its default subjects."""
        self.bulk_removal: OngoingRemoval | None = None
        """The removal of many of its objects that is in progress."""
        self.owners: Owners | None = None
        """The owners of its objects; None if no client owns any."""
        self.tally: Tally = Tally()
        self.accepted: i64 = 0
        self.epoch: i64 = 0
        """The number of times that an incompatible definition replaced the former one."""
        self.gate: RouteVersion = RouteVersion()
        """Shut to invalidate the templates of its objects: when routes are invalidated, the
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
    """The clients that own objects of a topic."""

    def __init__(self) -> None:
        self.of_all: i64 = 0
        """The client that owns all of them; 0 if there is none."""
        self.by_key: dict[bytes, int] = {}
        """The owners of single objects, which take precedence."""

    def of(self, key: bytes) -> i64:
        """The client that owns an object; 0 if no client does."""
        owner = self.by_key.get(key)
        return self.of_all if owner is None else owner

    def allow(self, key: bytes, client_id: i64) -> bool:
        """Whether a client may change an object: it owns the object, or no client does."""
        owner = self.of(key)
        return owner == 0 or owner == client_id


class Route:
    """The subscribers of one topic under one subject."""

    def __init__(self, queues: list[ClientQueue], listeners: list[UpdateListener]) -> None:
        self.queues: list[ClientQueue] = queues
        self.listeners: list[UpdateListener] = listeners
        self.is_common: bool = True
        """Whether all queues accept one of the common forms of a frame, which clients share."""
        for queue in queues:
            if queue.has_origin or not (queue.is_framed or queue.is_old):
                self.is_common = False
        self.has_full: bool = any(queue.has_subjects for queue in queues)
        self.has_plain: bool = not all(queue.has_subjects for queue in queues)
        """Whether some of the queues accept subjects, and whether some do not."""


class UpdateInTransit:
    """An accepted update that is being delivered. The header is that of the forwarded object."""

    def __init__(self, topic: Topic, header: Header, payload: bytes, subject: str) -> None:
        self.topic: Topic = topic
        self.header: Header = header
        self.payload: bytes = payload
        self.subject: str = subject
        """Empty for the default one."""
        self.is_remove: bool = header.remove_obj == 1
        self.pieces: Pieces | None = None
        self.before: bytes | None = None
        """The cached object before the update; None if there was none."""
        self.entry: Entry | None = None
        """The cached object after the update; None if there is none."""
        self.gone: Entry | None = None
        """The last state of an object that this update removed."""
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
    """A subscriber on a route that needs more than a frame in its queue."""

    def __init__(self) -> None:
        self.client_id: i64 = 0
        """The client that subscribed to the subject of the route; 0 for other listeners."""

    def object_left(self, update: UpdateInTransit) -> None:
        """Process the remove of an object that has another subject now."""
        raise NotImplementedError

    def skips(self, payload: bytes, subject: str) -> bool:
        """Whether a message is not for the subscriber; then it is counted, and not received."""
        return False

    def receive(self, update: UpdateInTransit) -> None:
        """Process an update that was accepted."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class OngoingRemoval:
    """A removal of many objects in slices, which to subscribers appears to happen at once."""

    def settle(self, key: bytes) -> None:
        """Remove an object before it is updated, if it is among those to be removed."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class RouteResolver:
    """Finds the subscribers of updates."""

    def resolve(self, topic: Topic, subject: str) -> Route:
        """Resolve and cache the route of a topic, for a subject or for all default ones."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ObjectKeeper:
    """Writes changes of persistent objects to the journal."""

    def check(self) -> None:
        """Raise LimitExceeded if the journal has no room."""
        raise NotImplementedError

    def keep(self, topic: Topic, key: bytes, entry: Entry | None) -> int:
        """Write a change, or a removal if there is no entry; returns the number of the change."""
        raise NotImplementedError


def frame_for(queue: ClientQueue, header: Header, payload: bytes, subject: str) -> bytes:
    """A frame for one client alone, with the header fields that the client understands."""
    header.subject = subject if queue.has_subjects else ""
    if not queue.has_origin:
        header.sequence = ABSENT
        header.position = ABSENT
        header.node = 0
    if queue.is_framed:
        return frame_of(header, payload)
    return queue.wire.frame(header, payload)


def replay_header(topic: Topic, entry: Entry, left: int, now_s: float, node: int) -> Header:
    """The header of a cached object in a cache replay, after which `left` objects follow."""
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
