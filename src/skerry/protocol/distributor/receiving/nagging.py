"""The monitor of requests: a receiver that asks all the time is too slow for its group.

It harms the others, whose sender is busy answering. The monitor looks once a window. Windows with
requests make up a run, and one without ends it. A run that covers the check interval is judged by
how many requests there were; it ends there, one way or the other.
"""

from __future__ import annotations

__all__ = ["NaggingMonitor"]


class NaggingMonitor:
    """Counts requests, and says when it is enough."""

    def __init__(
        self, *, window_ns: int, check_ns: int, request_count_max: int, now_ns: int
    ) -> None:
        self._window_ns = window_ns
        self._check_ns = check_ns
        self._request_count_max = request_count_max
        self._window_count = 0
        self._run_count = 0
        self._run_ns = 0
        self.due_ns: int | None = now_ns + window_ns if window_ns else None
        """When to look next; None when it is switched off, or has fired."""
        self.is_fired = False

    @property
    def run_count(self) -> int:
        """Requests of the run so far."""
        return self._run_count

    @property
    def run_ns(self) -> int:
        """How long the run is by now."""
        return self._run_ns

    def requested(self) -> None:
        """One more request was sent."""
        self._window_count += 1

    def advance(self, now_ns: int) -> bool:
        """Look if it is time to. True when that was enough, once."""
        if self.due_ns is None or now_ns < self.due_ns:
            return False
        if self._judge():
            self.due_ns = None
            self.is_fired = True
            return True
        passed_count = (now_ns - self.due_ns) // self._window_ns
        if passed_count:
            # Nobody looked for longer than a window, so nothing was asked for in the next one.
            self._run_count = self._run_ns = 0
        self.due_ns += (passed_count + 1) * self._window_ns
        return False

    def _judge(self) -> bool:
        count, self._window_count = self._window_count, 0
        if count == 0:
            self._run_count = self._run_ns = 0
            return False
        self._run_count += count
        self._run_ns += self._window_ns
        if self._run_ns < self._check_ns:
            return False
        if not self._request_count_max or self._run_count >= self._request_count_max:
            return True
        self._run_count = self._run_ns = 0
        return False
