"""When each recorded update is due: the clock of a playback, as a machine.

The current time is an argument, updates that are due are the result. A playback can be paused,
stepped and looped. Snapshot rows are due at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from skerry.codec.envelope import GAP, SNAPSHOT

_FAR_NS: Final = 1e18
"""Bound of times in the future: dividing by a small speed may even give infinity."""

DUE_COUNT_MAX: Final = 1000
"""Updates that are returned at once, so that other tasks of the loop can run in between."""


class Timed(Protocol):
    """An update, or anything else that has its time."""

    @property
    def time_ns(self) -> int: ...
    @property
    def operation(self) -> int: ...


U = TypeVar("U", bound=Timed)


class Pacer(Generic[U]):
    """Returns updates when they are due; without a speed at once. `updates` starts a round.

    The order of the rows is kept: an update is never due before the rows that precede it.
    """

    def __init__(
        self,
        updates: Callable[[], Iterator[U]],
        *,
        speed: float | None = 1.0,
        is_looping: bool = False,
        is_paused: bool = False,
    ) -> None:
        assert speed is None or speed > 0
        self._begin = updates
        self._speed = speed
        self._is_looping = is_looping
        self.is_paused = is_paused
        self.is_over = False
        self.round_count = 1
        self.played_round = 1
        """The round of the last returned update; the next round may have started already."""
        self.played_count = 0
        self._updates = updates()
        self._next: U | None = None
        self._step_count = 0
        self.time_ns: int | None = None
        """Time of the recording that is played, as wall time; None before the first update."""
        self._anchor: tuple[int, int] | None = None
        """A time of the recording and the clock at that time; None while paused."""
        self._was_empty = True
        """Whether this round has returned no update yet."""

    def take_due(self, now_ns: int, count_max: int = DUE_COUNT_MAX) -> list[U]:
        """The updates that are due, in order, at most `count_max`, all of the same round."""
        due: list[U] = []
        round_count = self.round_count
        while len(due) < count_max:
            update = self._peek()
            if due and self.round_count != round_count:
                break
            if update is None or not self._is_due(update, now_ns):
                break
            round_count = self.played_round = self.round_count
            self._next = None
            due.append(update)
            if update.operation not in (GAP, SNAPSHOT):
                self.played_count += 1
        return due

    def deadline_ns(self, now_ns: int) -> int | None:
        """When the next update is due; None if paused or at the end."""
        update = self._peek()
        if update is None or (self.is_paused and not self._step_count):
            return None
        return now_ns if self.is_paused else max(now_ns, self._due_ns(update, now_ns))

    def pause(self, now_ns: int) -> None:
        if not self.is_paused:
            self.is_paused = True
            self._note_time(now_ns)
            self._anchor = None

    def resume(self, now_ns: int) -> None:
        if self.is_paused:
            self.is_paused = False
            self._step_count = 0
            self._anchor = None if self.time_ns is None else (self.time_ns, now_ns)

    def step(self, count: int = 1) -> None:
        """While paused, make `count` more updates due."""
        if self.is_paused:
            self._step_count += count

    def _peek(self) -> U | None:
        """The next update, without removing it; None at the end of the last round."""
        while self._next is None and not self.is_over:
            self._next = next(self._updates, None)
            if self._next is not None:
                self._was_empty = False
            elif self._is_looping and not self._was_empty:
                self._updates = self._begin()
                self.round_count += 1
                self._was_empty = True
                self.time_ns = self._anchor = None
            else:
                self.is_over = True
        return self._next

    def _is_due(self, update: U, now_ns: int) -> bool:
        if self.is_paused:
            if not self._step_count:
                return False
            self._step_count -= 1
        elif self._due_ns(update, now_ns) > now_ns:
            return False
        if update.operation != SNAPSHOT:
            self.time_ns = max(update.time_ns, self.time_ns or update.time_ns)
        return True

    def _due_ns(self, update: U, now_ns: int) -> int:
        if self._speed is None or update.operation == SNAPSHOT:
            return now_ns
        if self._anchor is None:
            self._anchor = (update.time_ns, now_ns)
        time_ns, at_ns = self._anchor
        return at_ns + _whole((update.time_ns - time_ns) / self._speed)

    def _note_time(self, now_ns: int) -> None:
        """Advance the time of the recording by the time since the last update."""
        if self._anchor is not None and self._speed is not None:
            time_ns, at_ns = self._anchor
            passed_ns = time_ns + _whole((now_ns - at_ns) * self._speed)
            self.time_ns = max(passed_ns, self.time_ns or passed_ns)


def _whole(time_ns: float) -> int:
    return round(min(max(time_ns, -_FAR_NS), _FAR_NS))
