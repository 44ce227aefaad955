"""Calls callbacks with updates: the innermost loop of a subscriber. A hot module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import length_hint

from mypy_extensions import i64, mypyc_attr

from skerry.protocol.distributor.receiving.updates import Packed, Updates

OnUpdate = Callable[[str, bytes, object, int], object]
"""Called with subject, data, the tag of the subscription, and how many updates wait."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Routes:
    """The tags of the subscriptions that select a subject, as far as they are cached."""

    def __init__(self) -> None:
        self.known: dict[str, list[object]] = {}
        self.is_single: bool = False
        """Whether there is one subscription only, so that all updates are for it."""
        self.tag: object = None

    def find(self, subject: str) -> list[object]:
        """The tags of a subject that is not cached."""
        raise NotImplementedError


def call_each(updates: Updates, callback: OnUpdate, routes: Routes, behind: int) -> None:
    """Call back for each update; `behind` others wait after these.

    Each update is taken out before the call, so a caller that catches an error of the callback may
    call this again for the rest.
    """
    waiting = len(updates) + behind
    parts = updates.parts
    while True:
        left = updates.left
        if left is not None:
            waiting -= length_hint(left)
            _call_pairs(left, callback, routes, waiting)
            updates.left = None
        if updates.place >= len(parts):
            return
        part = parts[updates.place]
        if isinstance(part, Packed):
            waiting -= len(part)
            if routes.is_single:
                _call_single(part, callback, routes.tag, waiting)
            else:
                _call_packed(part, callback, routes, waiting)
        else:
            updates.left = iter(part)
        updates.place += 1


def _call_pairs(
    left: Iterator[tuple[str, bytes]], callback: OnUpdate, routes: Routes, behind: int
) -> None:
    waiting = length_hint(left) + behind
    if routes.is_single:
        tag = routes.tag
        for subject, data in left:
            waiting -= 1
            callback(subject, data, tag, waiting)
        return
    known = routes.known
    for subject, data in left:
        waiting -= 1
        tags = known.get(subject)
        if tags is None:
            tags = routes.find(subject)
        for tag in tags:
            callback(subject, data, tag, waiting)


def _call_single(packed: Packed, callback: OnUpdate, tag: object, behind: i64) -> None:
    data = packed.data
    head: i64 = packed.text_length_bytes + 1
    subjects = packed.subjects
    is_same = len(subjects) == 1
    subject = subjects[0]
    count: i64 = packed.count
    waiting: i64 = behind + count - packed.index
    while packed.index < count:
        stop: i64 = packed.pos + head
        high: i64 = data[stop - 2]
        low: i64 = data[stop - 1]
        start: i64 = stop + high * 256 + low + 5
        high = data[start - 2]
        low = data[start - 1]
        packed.pos = start + high * 256 + low
        if not is_same:
            subject = subjects[packed.index]
        packed.index += 1
        waiting -= 1
        callback(subject, data[start : packed.pos], tag, waiting)


def _call_packed(packed: Packed, callback: OnUpdate, routes: Routes, behind: i64) -> None:
    # Doubles `_call_single`: in the usual case even the lookup of tags would cost too much.
    data = packed.data
    head: i64 = packed.text_length_bytes + 1
    subjects = packed.subjects
    known = routes.known
    is_same = len(subjects) == 1
    subject = subjects[0]
    count: i64 = packed.count
    waiting: i64 = behind + count - packed.index
    while packed.index < count:
        stop: i64 = packed.pos + head
        high: i64 = data[stop - 2]
        low: i64 = data[stop - 1]
        start: i64 = stop + high * 256 + low + 5
        high = data[start - 2]
        low = data[start - 1]
        packed.pos = start + high * 256 + low
        if not is_same:
            subject = subjects[packed.index]
        packed.index += 1
        waiting -= 1
        tags = known.get(subject)
        if tags is None:
            tags = routes.find(subject)
        for tag in tags:
            callback(subject, data[start : packed.pos], tag, waiting)
