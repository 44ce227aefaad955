"""Timers as data: which keys are due, and when the next one is."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

__all__ = ["Deadlines", "earliest"]

Key = TypeVar("Key", bound=Hashable)

_STALE_COUNT_MAX: Final = 64
"""Entries that no longer count are swept when more of them than this outnumber the live ones."""


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
        """Make `key` due at `due_ns`, instead of whatever was set for it before."""
        # The count is unique, so comparing two entries never reaches the keys.
        self._count += 1
        self._due[key] = (due_ns, self._count)
        heappush(self._heap, (due_ns, self._count, key))
        # A key that is postponed at every input leaves an entry behind each time. Sweeping only
        # when they are the majority keeps the price of `set` constant on average.
        if len(self._heap) > 2 * len(self._due) + _STALE_COUNT_MAX:
            self._sweep()

    def cancel(self, key: Key) -> None:
        """Forget `key`; nothing happens if it is not set."""
        self._due.pop(key, None)

    def due_ns(self, key: Key) -> int | None:
        """When `key` is due."""
        due = self._due.get(key)
        return None if due is None else due[0]

    def next_ns(self) -> int | None:
        """The earliest deadline of all."""
        while self._heap:
            due_ns, count, key = self._heap[0]
            if self._due.get(key) == (due_ns, count):
                return due_ns
            heappop(self._heap)
        return None

    def take_due(self, now_ns: int) -> list[tuple[Key, int]]:
        """Remove what is due and return it with its deadline, earliest first."""
        taken: list[tuple[Key, int]] = []
        next_ns = self.next_ns()
        while next_ns is not None and next_ns <= now_ns:
            _, _, key = heappop(self._heap)
            del self._due[key]
            taken.append((key, next_ns))
            next_ns = self.next_ns()
        return taken

    def _sweep(self) -> None:
        self._heap = [(due_ns, count, key) for key, (due_ns, count) in self._due.items()]
        heapify(self._heap)


def earliest(one_ns: int | None, other_ns: int | None) -> int | None:
    """Return the earlier of two deadlines; None if there is none."""
    if one_ns is None:
        return other_ns
    return one_ns if other_ns is None or one_ns <= other_ns else other_ns
