"""The clock of one simulated node: a monotonic time that may drift, and a wall time that may jump.

The simulator orders events by world time, which no machine sees. The monotonic clock of each node
starts at another value, because a machine that compares its monotonic time with that of a peer has
a bug that equal clocks would hide.
"""

from __future__ import annotations

from typing import Final

WALL_START_NS: Final = 1_767_225_600_000_000_000
"""Wall time at world time 0: 2026-01-01T00:00:00Z. Fixed, so that traces repeat."""

_MILLION: Final = 1_000_000


class SimulatedClock:
    """Converts world time to the time of a node and back."""

    __slots__ = ("_drift_ppm", "_local_ns", "_world_ns", "wall_offset_ns")

    def __init__(self, *, start_ns: int) -> None:
        assert start_ns >= 0
        self._world_ns = 0
        self._local_ns = start_ns
        self._drift_ppm = 0
        self.wall_offset_ns = WALL_START_NS - start_ns
        """Wall time less monotonic time."""

    @property
    def drift_ppm(self) -> int:
        """How fast this clock runs, in millionths; negative if it runs slow."""
        return self._drift_ppm

    def read(self, world_ns: int) -> int:
        """The node's monotonic time at `world_ns`."""
        passed_ns = world_ns - self._world_ns
        if self._drift_ppm:
            passed_ns = passed_ns * (_MILLION + self._drift_ppm) // _MILLION
        return self._local_ns + passed_ns

    def world_ns(self, local_ns: int) -> int:
        """The first world time at which `read` returns `local_ns` or more."""
        passed_ns = local_ns - self._local_ns
        if self._drift_ppm:
            passed_ns = -(-passed_ns * _MILLION // (_MILLION + self._drift_ppm))
        return self._world_ns + passed_ns

    def set_drift(self, drift_ppm: int, world_ns: int) -> None:
        """Run faster or slower from `world_ns` on. Monotonic time itself does not jump."""
        assert drift_ppm > -_MILLION, "a monotonic clock does not run backwards"
        self._local_ns = self.read(world_ns)
        self._world_ns = world_ns
        self._drift_ppm = drift_ppm

    def jump_wall(self, jump_ns: int) -> None:
        """Set the wall clock forwards or backwards. Monotonic time is not affected."""
        self.wall_offset_ns += jump_ns
