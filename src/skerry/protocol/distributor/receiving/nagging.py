"""The monitor of requests: a receiver that requests all the time is too slow for its group.

It harms the others, because their sender is busy with retransmissions. Consecutive windows with
requests form a run, which a window without requests ends. When a run has lasted for the check
interval, it is judged by its number of requests, and ends.
"""

from __future__ import annotations


class NaggingMonitor:
    def __init__(
        self, *, window_ns: int, check_ns: int, request_count_max: int, now_ns: int
    ) -> None:
        self._window_ns = window_ns
        self._check_ns = check_ns
        self._request_count_max = request_count_max
        self._window_count = 0
        self.run_count = 0
        """Requests of the run so far."""
        self.run_ns = 0
        """The length of the run so far."""
        self.due_ns: int | None = now_ns + window_ns if window_ns else None
        """When the window ends; None if the monitor is switched off or has fired."""
        self.is_fired = False

    def requested(self) -> None:
        """Count a request that was sent."""
        self._window_count += 1

    def advance(self, now_ns: int) -> bool:
        """End the window if it is time. Return True once, if there were too many requests."""
        if self.due_ns is None or now_ns < self.due_ns:
            return False
        if self._judge():
            self.due_ns = None
            self.is_fired = True
            return True
        passed_count = (now_ns - self.due_ns) // self._window_ns
        if passed_count:
            # More than a window has passed without a call, so the next one had no requests.
            self.run_count = self.run_ns = 0
        self.due_ns += (passed_count + 1) * self._window_ns
        return False

    def _judge(self) -> bool:
        count, self._window_count = self._window_count, 0
        if count == 0:
            self.run_count = self.run_ns = 0
            return False
        self.run_count += count
        self.run_ns += self._window_ns
        if self.run_ns < self._check_ns:
            return False
        if not self._request_count_max or self.run_count >= self._request_count_max:
            return True
        self.run_count = self.run_ns = 0
        return False
