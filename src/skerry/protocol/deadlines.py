"""Timers as data: deadlines by key."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_STALE_COUNT_MAX: Final = 64
"""Cancelled entries are removed when they exceed the valid ones by more than this."""


class Deadlines(Generic[Key]):
    """One deadline per key. Equal deadlines fall due in the order they were set."""

    def __init__(self) -> None:
        self._due: dict[Key, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: Key) -> bool:
        return key in self._due

    def set(self, key: Key, due_ns: int) -> None:
        """Set the deadline of `key`, in place of an earlier one."""
        # The count is unique, so comparing two entries never reaches the keys.
        self._count += 1
        self._due[key] = (due_ns, self._count)
        heappush(self._heap, (due_ns, self._count, key))
        # A key that is postponed at every input leaves an entry each time. Removing these only when
        # they are the majority keeps the cost of `set` constant on average.
        if len(self._heap) > 2 * len(self._due) + _STALE_COUNT_MAX:
            self._remove_stale()

    def cancel(self, key: Key) -> None:
        """Remove the deadline of `key`, if it is set."""
        self._due.pop(key, None)

    def next_ns(self) -> int | None:
        """Return the earliest deadline; None if there is none."""
        while self._heap:
            due_ns, count, key = self._heap[0]
            if self._due.get(key) == (due_ns, count):
                return due_ns
            heappop(self._heap)
        return None

    def take_due(self, now_ns: int) -> list[tuple[Key, int]]:
        """Remove the keys that are due and return them with their deadlines, earliest first."""
        taken: list[tuple[Key, int]] = []
        next_ns = self.next_ns()
        while next_ns is not None and next_ns <= now_ns:
            _, _, key = heappop(self._heap)
            del self._due[key]
            taken.append((key, next_ns))
            next_ns = self.next_ns()
        return taken

    def _remove_stale(self) -> None:
        self._heap = [(due_ns, count, key) for key, (due_ns, count) in self._due.items()]
        heapify(self._heap)


def earliest(one_ns: int | None, other_ns: int | None) -> int | None:
    """Return the earlier of two deadlines; None if there is none."""
    if one_ns is None:
        return other_ns
    return one_ns if other_ns is None or one_ns <= other_ns else other_ns
