"""Asks programs to terminate, and finds out whether they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skerry.errors import DecodeError
from skerry.protocol.portal.programs.program_messages import (
    TerminateOutcome,
    TerminateResult,
    TerminateTarget,
    read_target,
)

REQUEST_NS: Final = 100_000_000
"""Interval of requests until the program answers, that of Goby."""
TERMINATE_TIMEOUT_NS: Final = 10_000_000_000
"""Time for a program to answer, and then to end."""


@dataclass(slots=True, kw_only=True)
class _Pending:
    deadline_ns: int
    pid: int = 0
    """Process id of the answer; 0 before it."""


class Terminator:
    """Terminates some programs, each by name or process id."""

    def __init__(self, targets: list[TerminateTarget], *, now_ns: int) -> None:
        self._pending = {
            target: _Pending(deadline_ns=now_ns + TERMINATE_TIMEOUT_NS) for target in targets
        }
        self._request_ns = now_ns
        self.has_failed = False
        """Whether a program did not answer or end in time."""

    @property
    def is_over(self) -> bool:
        return not self._pending

    def receive(self, data: bytes, now_ns: int) -> list[TerminateResult]:
        """Take the answer of a program; returns the results to publish."""
        try:
            answer = read_target(data)
        except DecodeError:
            return []
        results = []
        for target, pending in self._pending.items():
            is_meant = target.name == answer.name if target.name else target.pid == answer.pid
            if is_meant and not pending.pid and answer.pid:
                pending.pid = answer.pid
                pending.deadline_ns = now_ns + TERMINATE_TIMEOUT_NS
                results.append(
                    TerminateResult(target=answer, outcome=TerminateOutcome.PROCESS_RESPONDED)
                )
        return results

    def take_requests(self, now_ns: int) -> list[TerminateTarget]:
        """Return the requests that are due."""
        if now_ns < self._request_ns:
            return []
        self._request_ns = now_ns + REQUEST_NS
        return [target for target, pending in self._pending.items() if not pending.pid]

    def answered_pids(self) -> list[int]:
        """The processes that have answered and are watched until they end."""
        return [pending.pid for pending in self._pending.values() if pending.pid]

    def take_results(self, running: set[int], now_ns: int) -> list[TerminateResult]:
        """Return the results that are final; `running` are those of `answered_pids` that run."""
        results = []
        for target, pending in list(self._pending.items()):
            if pending.pid and pending.pid not in running:
                outcome = TerminateOutcome.PROCESS_CLEANLY_QUIT
            elif now_ns < pending.deadline_ns:
                continue
            else:
                self.has_failed = True
                outcome = (
                    TerminateOutcome.TIMEOUT_RUNNING
                    if pending.pid
                    else TerminateOutcome.TIMEOUT_RESPONSE
                )
            del self._pending[target]
            ended = TerminateTarget(name=target.name, pid=pending.pid or target.pid)
            results.append(TerminateResult(target=ended, outcome=outcome))
        return results
