"""The time at which a node processes its current input."""

from __future__ import annotations

from skerry.objects.times import seconds_of_ns


class InputClock:
    """Monotonic time of the current input, and its conversion to wall time."""

    def __init__(self, wall_offset_ns: int) -> None:
        self.now_ns = 0
        """Monotonic time of the current input."""
        self.wall_offset_ns = wall_offset_ns
        """Added to monotonic time, gives wall time."""
        self._started_ns: int | None = None

    @property
    def started_ns(self) -> int:
        """Wall time of the first input; 0 before it."""
        return self._started_ns or 0

    def set(self, now_ns: int) -> None:
        """Set the time of the current input."""
        self.now_ns = now_ns
        if self._started_ns is None:
            self._started_ns = now_ns + self.wall_offset_ns

    def wall_ns(self, now_ns: int) -> int:
        """Wall time in nanoseconds."""
        return now_ns + self.wall_offset_ns

    def wall_s(self, now_ns: int) -> float:
        """Wall time in seconds."""
        return seconds_of_ns(now_ns + self.wall_offset_ns)
