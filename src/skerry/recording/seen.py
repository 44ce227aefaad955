"""Detects duplicates, for recordings of one space by several recorders.

An update is identified by its node, its sender and its sequence number. An update from the
distributor has the same sender and number at every receiver. Numbers are dense, so they are kept as
ranges.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, TypeAlias

from skerry.codec.envelope import DISTRIBUTOR, SNAPSHOT, Update

RECORDING_SEEN_RANGE_COUNT_MAX: Final = 1_000_000
"""Ranges of sequence numbers by which equal updates of several recordings are recognized: some
hundred megabytes. Beyond it the oldest are forgotten, and their duplicates stay."""

_Origin: TypeAlias = tuple[int, int, bool]


class SeenUpdates:
    """The updates that were passed to `is_new` so far."""

    def __init__(self, *, range_count_max: int = RECORDING_SEEN_RANGE_COUNT_MAX) -> None:
        self.duplicate_count = 0
        self._range_count_max = range_count_max
        self._range_count = 0
        self._ranges: dict[_Origin, _Ranges] = {}

    def is_new(self, update: Update) -> bool:
        """Whether the update was not seen before; one without a number is always new."""
        if update.sequence <= 0:
            return True
        node = 0 if update.source == DISTRIBUTOR else update.node
        # A snapshot has the number of the last change, but contains more than that change.
        origin = (node, update.sender, update.operation == SNAPSHOT)
        ranges = self._ranges.get(origin)
        if ranges is None:
            ranges = self._ranges[origin] = _Ranges()
        before = len(ranges.starts)
        if not ranges.add(update.sequence):
            self.duplicate_count += 1
            return False
        self._range_count += len(ranges.starts) - before
        if self._range_count > self._range_count_max:
            self._forget(origin)
        return True

    def _forget(self, origin: _Origin) -> None:
        """Forget the ranges of the first sender, or the lower half of the only one."""
        oldest = next(iter(self._ranges))
        if oldest == origin:
            self._range_count -= self._ranges[origin].forget_half()
        else:
            self._range_count -= len(self._ranges.pop(oldest).starts)


class _Ranges:
    """Numbers as sorted ranges that do not touch."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.stops: list[int] = []

    def add(self, number: int) -> bool:
        """Add a number; False if it was contained before."""
        index = bisect_right(self.starts, number)
        if index and number < self.stops[index - 1]:
            return False
        joins_left = index > 0 and self.stops[index - 1] == number
        joins_right = index < len(self.starts) and self.starts[index] == number + 1
        if joins_left and joins_right:
            self.stops[index - 1] = self.stops[index]
            del self.starts[index], self.stops[index]
        elif joins_left:
            self.stops[index - 1] = number + 1
        elif joins_right:
            self.starts[index] = number
        else:
            self.starts.insert(index, number)
            self.stops.insert(index, number + 1)
        return True

    def forget_half(self) -> int:
        """Forget the lower half of the ranges; the number of forgotten ones."""
        count = max(1, len(self.starts) // 2)
        del self.starts[:count], self.stops[:count]
        return count
