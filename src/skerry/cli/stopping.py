"""How long-running commands end: orderly, on SIGINT and on SIGTERM.

Both handlers are set here because neither can be taken for granted: a shell starts background
jobs with SIGINT ignored, and SIGTERM ends a Python program on the spot.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

__all__ = ["Stop", "stop_on_signals"]

_WORDS: Final = "stopping; once more to interrupt\n"


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
    """Inside, a signal to end sets `is_requested`, which the body looks at between its steps.

    As a step may take long, the first signal is answered on stderr at once.
    """
    stop = Stop()

    def request(_number: int, _frame: FrameType | None) -> None:
        stop.request()
        _say_so()

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say_so() -> None:
    # Not through the stream, whose buffer the signal may have come in the midst of, and not at the
    # cost of the command: where nobody listens, the words go unheard.
    with suppress(OSError, ValueError):
        # A terminal has just shown ^C.
        words = f"\n{_WORDS}" if sys.stderr.isatty() else _WORDS
        os.write(sys.stderr.fileno(), words.encode())
