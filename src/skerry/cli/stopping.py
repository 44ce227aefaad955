"""How long-running commands end: orderly, on SIGINT and on SIGTERM.

Both handlers are set here because neither can be taken for granted: a shell starts background
jobs with SIGINT ignored, and SIGTERM ends a Python program on the spot.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Stop", "stop_on_signals"]


class Stop:
    """Whether the command was asked to end."""

    def __init__(self) -> None:
        self.is_requested = False

    def request(self) -> None:
        """Asks for the end; asked twice, the command is interrupted where it stands."""
        if self.is_requested:
            raise KeyboardInterrupt
        self.is_requested = True


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Inside, a signal to end sets `is_requested`, which the body looks at between its steps."""
    stop = Stop()

    def request(_number: int, _frame: FrameType | None) -> None:
        stop.request()

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
