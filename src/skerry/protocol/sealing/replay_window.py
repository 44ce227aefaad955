"""The recent counters of one sender, by which repeated datagrams are recognized."""

from __future__ import annotations

from typing import Final

REPLAY_COUNT_MAX: Final = 1024
"""Counters of sealed datagrams that are remembered of each sender, once or twice: those of
datagrams that could have been overtaken. A network that reorders more than that also loses more."""


class ReplayWindow:
    """The replay window: the recent counters of one sender.

    Two sets are used in turn. Counters up to the highest of the set that was discarded last are
    refused, so a datagram that is very late is treated as lost, and requested again.
    """

    def __init__(self) -> None:
        self.highest = 0
        """The highest counter that was accepted."""
        self._floor = -1
        self._recent: set[int] = set()
        self._older: set[int] = set()

    def accept(self, counter: int) -> bool:
        """Return whether a counter is new, and record it."""
        if counter <= self._floor or counter in self._recent or counter in self._older:
            return False
        if len(self._recent) >= REPLAY_COUNT_MAX:
            self._floor = max(self._older, default=self._floor)
            self._older = self._recent
            self._recent = set()
        self._recent.add(counter)
        self.highest = max(self.highest, counter)
        return True
