"""Operations on many stored objects of a space: replay, mark as stale, drop."""

from __future__ import annotations

from skerry.client.core.local_filters import replay_header
from skerry.client.core.received_types import CREATE, ReceivedType
from skerry.client.core.type_route import Target, TypeRoute
from skerry.client.core.update_intake import UpdateIntake
from skerry.codec.hot_loops import ObjectState
from skerry.codec.pieces import cut, split_whole
from skerry.codec.subjects import default_pattern, default_subject
from skerry.ids import NODE_CLIENT
from skerry.protocol.access.header import Header
from skerry.protocol.patterns import covers, overlaps


class Stores:
    """The stores of all routes. With a pattern, an operation is for what the pattern selects."""

    def __init__(self, intake: UpdateIntake) -> None:
        self._intake = intake

    def replay(self, route: TypeRoute, target: Target) -> None:
        """Deliver all stored objects of a route to one target."""
        if route.store is None:
            return
        entries = list(route.store.objects.values())
        for index, entry in enumerate(entries):
            self._deliver(route, entry, len(entries) - 1 - index, target)

    def replay_pattern(self, pattern: str, target: Target) -> None:
        """Deliver all stored objects that a pattern selects to one target."""
        found: list[tuple[TypeRoute, ObjectState]] = []
        for route in self._intake.routes.values():
            if route.store is None:
                continue
            # To compute the subject of every object takes long, and few of them are selected.
            is_likely = may_select(pattern, route.shape)
            found += [
                (route, entry)
                for entry in route.store.objects.values()
                if (is_likely or entry.subject) and covers(pattern, _subject(route, entry))
            ]
        for index, (route, entry) in enumerate(found):
            self._deliver(route, entry, len(found) - 1 - index, target)

    def mark_stale(self, routes: list[TypeRoute], pattern: str | None) -> None:
        """Mark objects as stale. Only those that the next cache replay contains stay."""
        for route in routes:
            if route.store is None:
                continue
            for entry in route.store.objects.values():
                if pattern is None or covers(pattern, _subject(route, entry)):
                    entry.epoch = -1

    def drop_stale(self, routes: list[TypeRoute], pattern: str | None, now_s: float) -> None:
        """Remove objects that the node has not sent on this connection."""
        for route in routes:
            if route.store is None:
                continue
            for entry in list(route.store.objects.values()):
                if entry.epoch == self._intake.context.epoch:
                    continue
                if pattern is None or covers(pattern, _subject(route, entry)):
                    self._remove(route, entry, now_s)

    def drop_unselected(self, routes: list[TypeRoute]) -> None:
        """Drop objects that no subscription selects any more, without events."""
        for route in routes:
            if route.store is None or route.is_joined:
                continue
            for key, entry in list(route.store.objects.items()):
                if not self._intake.patterns.matches_any(_subject(route, entry)):
                    del route.store.objects[key]

    def _remove(self, route: TypeRoute, entry: ObjectState, now_s: float) -> None:
        plan = route.shape.plan
        header = Header(route.shape.name)
        header.sent_time = header.server_sent_time = now_s
        header.attributes = plan.key_mask
        header.sender = NODE_CLIENT
        header.remove_obj = 1
        header.subject = entry.subject
        payload = cut(plan, split_whole(plan, entry.payload), plan.key_mask)
        self._intake.deliver(route, header, payload)

    def _deliver(self, route: TypeRoute, entry: ObjectState, left: int, target: Target) -> None:
        header = replay_header(route.shape.name, entry, left)
        event = self._intake.context.event(CREATE, header, route.shape, entry.payload, entry)
        self._intake.call(target, event)


def is_protocol(shape: ReceivedType) -> bool:
    """Whether objects of a type are messages of the protocol between node and client.

    A subscription by name receives them. Patterns select only what programs publish, and the
    node's own cached types.
    """
    flags = shape.cls.descriptor.flags
    return flags.internal and not flags.cached and not shape.is_bytes


def may_select(pattern: str, shape: ReceivedType) -> bool:
    """Whether a pattern may select a default subject of the type."""
    return not is_protocol(shape) and overlaps(pattern, default_pattern(shape.plan))


def _subject(route: TypeRoute, entry: ObjectState) -> str:
    if entry.subject:
        return entry.subject
    plan = route.shape.plan
    return default_subject(plan, split_whole(plan, entry.payload))
