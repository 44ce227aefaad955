"""How a program answers questions about its health, and requests to terminate it."""

from __future__ import annotations

from skerry.errors import DecodeError
from skerry.protocol.portal.programs.program_messages import (
    HealthState,
    ProcessHealth,
    TerminateTarget,
    read_target,
    write_process_health,
    write_target,
)


class ProgramAnswers:
    """The answers of one program."""

    def __init__(self, *, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid

    def health(self, state: HealthState, message: str = "") -> bytes:
        """Return the answer to a question about health."""
        return write_process_health(
            ProcessHealth(name=self.name, pid=self.pid, state=state, error_message=message)
        )

    def termination(self, request: bytes) -> bytes | None:
        """Return the answer to a request to terminate; None if it is for another program."""
        try:
            target = read_target(request)
        except DecodeError:
            return None
        is_meant = target.name == self.name or target.pid == self.pid
        return write_target(TerminateTarget(name=self.name, pid=self.pid)) if is_meant else None
