"""The coroner: asks all programs for their health, and reports that of the vehicle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from skerry.errors import DecodeError
from skerry.protocol.portal.programs.program_messages import (
    HealthError,
    HealthState,
    ProcessHealth,
    VehicleHealth,
    read_process_health,
)

TRACKED_PROGRAM_COUNT_MAX: Final = 1000
"""Programs of one vehicle that are tracked. Any peer can invent names."""
_SECOND: Final = 1_000_000_000


class Coroner:
    """Asks at an interval, and reports some time after each question."""

    def __init__(
        self,
        *,
        platform: str,
        expected: Iterable[str] = (),
        adds_responders: bool = True,
        interval_s: float = 10.0,
        response_s: float = 5.0,
        now_ns: int,
    ) -> None:
        """`expected` are the programs that must answer. With `adds_responders`, others that answer
        once must answer from then on."""
        assert 0 < response_s <= interval_s
        self._platform = platform
        self._adds_responders = adds_responders
        self._interval_ns = round(interval_s * _SECOND)
        self._response_ns = round(response_s * _SECOND)
        self._answers: dict[str, ProcessHealth | None] = dict.fromkeys(expected)
        """The answer of each tracked program to the last question; None if it has not answered."""
        self._ask_ns = now_ns
        self._report_ns: int | None = None
        self.malformed_count = 0

    def receive(self, data: bytes) -> None:
        """Take the answer of a program."""
        try:
            health = read_process_health(data)
        except DecodeError:
            self.malformed_count += 1
            return
        if health.name not in self._answers and (
            not self._adds_responders or len(self._answers) >= TRACKED_PROGRAM_COUNT_MAX
        ):
            return
        self._answers[health.name] = health

    def is_question_due(self, now_ns: int) -> bool:
        """Whether all programs are to be asked now."""
        if now_ns < self._ask_ns:
            return False
        self._ask_ns = now_ns + self._interval_ns
        self._report_ns = now_ns + self._response_ns
        self._answers = dict.fromkeys(self._answers)
        return True

    def take_report(self, now_ns: int, wall_us: int) -> VehicleHealth | None:
        """Return the report that is due; None if none is."""
        if self._report_ns is None or now_ns < self._report_ns:
            return None
        self._report_ns = None
        processes = tuple(
            answer
            or ProcessHealth(name=name, state=HealthState.FAILED, error=HealthError.PROCESS_DIED)
            for name, answer in self._answers.items()
        )
        return VehicleHealth(
            time_us=wall_us,
            platform=self._platform,
            state=max((one.state for one in processes), default=HealthState.OK),
            processes=processes,
        )

    def deadline_ns(self) -> int:
        """Return when the next question or report is due."""
        return self._ask_ns if self._report_ns is None else min(self._ask_ns, self._report_ns)
