"""Conditions that are evaluated here, because the node has no filters: the same events come out.

A view goes by the merged objects of its type. It is told of each change of one, and passes on what
a node with filters would have sent: the wanted fields of an object that comes into view, of its
updates, and its removal when it leaves.
"""

from __future__ import annotations

from typing import Any

from skerry.client.core.events import REMOVE, Event, ObjectState
from skerry.client.core.update_intake import TypeRoute, UpdateIntake
from skerry.codec.pieces import cut, split_whole
from skerry.engine.delivery.query import Query
from skerry.protocol.access.header import ABSENT, Header, copy_header

__all__ = ["LocalFilter", "header_like", "told_again"]


class LocalFilter:
    """One condition on the objects of a type."""

    def __init__(self, query: Query, route: TypeRoute, intake: UpdateIntake) -> None:
        self._query = query
        self._route = route
        self._intake = intake
        self._seen: set[bytes] = set()
        """Keys of the objects in view."""

    def changed(self, key: bytes, event: Event[Any]) -> None:
        """An object changed, was made or removed."""
        entry = event.entry
        if entry is None:
            if self._query.matches(event.data):
                self._pass_on(event.header, *self._cut(event.data, event.header))
            return
        if event.operation != REMOVE and self._query.matches(entry.payload):
            if key not in self._seen:
                self._enter(key, entry, event.header)
            elif self._query.cares(int(event.header.attributes)):
                self._pass_on(event.header, *self._cut(event.data, event.header))
        elif key in self._seen:
            self._leave(key, entry, event.header)

    def offer(self, key: bytes, entry: ObjectState, header: Header) -> None:
        """An object that was there before the view was."""
        if key not in self._seen and self._query.matches(entry.payload):
            self._enter(key, entry, header)

    def _enter(self, key: bytes, entry: ObjectState, header: Header) -> None:
        self._seen.add(key)
        self._pass_on(header, *self._query.project(entry.payload, int(entry.present)))

    def _leave(self, key: bytes, entry: ObjectState, header: Header) -> None:
        self._seen.discard(key)
        plan = self._route.shape.plan
        gone = header_like(header, int(plan.key_mask))
        gone.remove_obj = 1
        payload = cut(plan, split_whole(plan, entry.payload), plan.key_mask)
        self._intake.deliver(self._route, gone, payload)

    def _cut(self, payload: bytes, header: Header) -> tuple[bytes, int]:
        return self._query.project(payload, int(header.attributes))

    def _pass_on(self, header: Header, payload: bytes, attributes: int) -> None:
        self._intake.deliver(self._route, header_like(header, attributes), payload)


def header_like(header: Header, attributes: int) -> Header:
    """The same header for other fields."""
    made = copy_header(header)
    made.attributes = attributes
    made.remove_obj = 0
    return made


def told_again(name: str, entry: ObjectState, left: int) -> Header:
    """The header with which an object that is here already is told to a new subscriber."""
    header = Header(name)
    header.sent_time = entry.modified
    header.sender = entry.modified_from
    header.attributes = entry.present
    header.subject = entry.subject
    header.from_cache = left if left >= 0 else ABSENT
    header.remove_obj = 0
    return header
