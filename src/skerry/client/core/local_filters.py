"""Filtered subscriptions that the client evaluates itself, because the node has no filters.

A local filter receives every change of the stored objects of its type. It delivers the events that
a node with filters would have caused: the selected fields of an object that begins to match, of its
updates, and a removal when the object stops matching.
"""

from __future__ import annotations

from typing import Any

from skerry.client.core.events import Event
from skerry.client.core.received_types import REMOVE
from skerry.client.core.type_route import TypeRoute
from skerry.client.core.update_intake import UpdateIntake
from skerry.codec.hot_loops import ObjectState
from skerry.codec.pieces import cut, split_whole
from skerry.engine.delivery.query import Query
from skerry.protocol.access.header import ABSENT, Header, copy_header


class LocalFilter:
    """One filter on the objects of a type."""

    def __init__(self, query: Query, route: TypeRoute, intake: UpdateIntake) -> None:
        self._query = query
        self._route = route
        self._intake = intake
        self._matching: set[bytes] = set()

    def changed(self, key: bytes, event: Event[Any]) -> None:
        """An object was created, updated or removed."""
        entry = event.entry
        if entry is None:
            if self._query.matches(event.data):
                self._deliver(event.header, *self._project(event.data, event.header))
            return
        if event.operation != REMOVE and self._query.matches(entry.payload):
            if key not in self._matching:
                self._enter(key, entry, event.header)
            elif self._query.cares(int(event.header.attributes)):
                self._deliver(event.header, *self._project(event.data, event.header))
        elif key in self._matching:
            self._leave(key, entry, event.header)

    def offer(self, key: bytes, entry: ObjectState, header: Header) -> None:
        """Deliver an object that was stored before the filter existed, if it matches."""
        if key not in self._matching and self._query.matches(entry.payload):
            self._enter(key, entry, header)

    def _enter(self, key: bytes, entry: ObjectState, header: Header) -> None:
        self._matching.add(key)
        self._deliver(header, *self._query.project(entry.payload, int(entry.present)))

    def _leave(self, key: bytes, entry: ObjectState, header: Header) -> None:
        self._matching.discard(key)
        plan = self._route.shape.plan
        removal = header_like(header, int(plan.key_mask))
        removal.remove_obj = 1
        payload = cut(plan, split_whole(plan, entry.payload), plan.key_mask)
        self._intake.deliver(self._route, removal, payload)

    def _project(self, payload: bytes, header: Header) -> tuple[bytes, int]:
        return self._query.project(payload, int(header.attributes))

    def _deliver(self, header: Header, payload: bytes, attributes: int) -> None:
        self._intake.deliver(self._route, header_like(header, attributes), payload)


def header_like(header: Header, attributes: int) -> Header:
    """A copy of a header with another property set, that does not remove."""
    made = copy_header(header)
    made.attributes = attributes
    made.remove_obj = 0
    return made


def replay_header(name: str, entry: ObjectState, left: int) -> Header:
    """The header of a stored object for a new subscriber, when `left` objects follow it."""
    header = Header(name)
    header.sent_time = entry.modified
    header.sender = entry.modified_from
    header.attributes = entry.present
    header.subject = entry.subject
    header.from_cache = left if left >= 0 else ABSENT
    header.remove_obj = 0
    return header
