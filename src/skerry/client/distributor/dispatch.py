"""Updates to callbacks: the innermost loop of a subscriber. A hot module."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mypy_extensions import mypyc_attr

__all__ = ["OnUpdate", "Routes", "call_each"]

OnUpdate = Callable[[str, bytes, object, int], object]
"""Called with subject, data, the tag of the subscription, and how many updates wait behind."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Routes:
    """Which tags a subject has, as far as it is known."""

    def __init__(self) -> None:
        self.known: dict[str, list[object]] = {}
        self.is_single: bool = False
        """There is one subscription, so every update that comes is for it."""
        self.tag: object = None
        """Its tag."""

    def find(self, subject: str) -> list[object]:
        """The tags of a subject that was not seen before."""
        raise NotImplementedError


def call_each(
    updates: Iterator[tuple[str, bytes]], callback: OnUpdate, routes: Routes, waiting: int
) -> None:
    """Call back for each update, of which `waiting` are to come, those behind them included.

    Whoever catches what the callback raises may go on with the same iterator.
    """
    if routes.is_single:
        tag = routes.tag
        for subject, data in updates:
            waiting -= 1
            callback(subject, data, tag, waiting)
        return
    known = routes.known
    for subject, data in updates:
        waiting -= 1
        tags = known.get(subject)
        if tags is None:
            tags = routes.find(subject)
        for tag in tags:
            callback(subject, data, tag, waiting)
