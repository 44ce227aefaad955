"""Ends long-running commands in order on SIGINT and SIGTERM.

Both handlers are set here: a shell starts background jobs with SIGINT ignored, and SIGTERM ends a
Python program at once. Python calls a handler only between two steps of the main thread, which may
be inside a library call that never returns. A thread therefore watches the signals as well, and
acts when the handler was not called in time.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

_STOPPING: Final = "stopping; once more to interrupt\n"
_INTERRUPTED: Final = "error: interrupted while waiting for something that does not answer\n"
_HANDLER_S_MAX: Final = 0.5
"""Time within which Python calls a handler unless the main thread is inside a library call."""


class Stop:
    """Whether a command was requested to stop."""

    def __init__(self) -> None:
        self.is_requested = False

    def request(self) -> None:
        """Request the stop; a second request raises KeyboardInterrupt."""
        if self.is_requested:
            raise KeyboardInterrupt
        self.is_requested = True


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Set `is_requested` of the returned object on the first signal; the body polls it.

    The first signal is acknowledged on stderr at once. The second one raises KeyboardInterrupt, or
    ends the process with exit code 1 if the main thread is inside a library call.
    """
    stop = Stop()
    handled = threading.Event()
    overdue = threading.Event()
    """Set while Python still has to call the handler of a signal that `watch` acknowledged."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        if overdue.is_set():
            overdue.clear()
            return
        handled.set()
        stop.request()
        _print(_STOPPING)

    def watch() -> None:
        while os.read(read_end, 64):
            if handled.wait(_HANDLER_S_MAX):
                handled.clear()
            elif stop.is_requested:
                _print(_INTERRUPTED)
                os._exit(1)
            else:
                overdue.set()
                stop.request()
                _print(_STOPPING)

    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    watcher = threading.Thread(target=watch, name="signals", daemon=True)
    watcher.start()
    fd_before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(fd_before)
        handled.set()
        os.close(write_end)
        watcher.join()
        os.close(read_end)


def _print(text: str) -> None:
    # Written past the stream, since a signal may arrive while its buffer is being changed. A
    # closed stderr does not matter to the command.
    with suppress(OSError, ValueError):
        # A terminal has just shown ^C.
        start = "\n" if sys.stderr.isatty() else ""
        os.write(sys.stderr.fileno(), f"{start}{text}".encode())
