"""How long-running commands end: orderly, on SIGINT and on SIGTERM.

Both handlers are set here because neither can be taken for granted: a shell starts background
jobs with SIGINT ignored, and SIGTERM ends a Python program on the spot. A handler waits as long as
the command is inside a library, which may wait for a store that never answers; so signals are heard
on a thread, too.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

__all__ = ["Stop", "stop_on_signals"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_WORDS: Final = "stopping; once more to interrupt\n"
_LAST_WORDS: Final = "error: interrupted while waiting for something that does not answer\n"
_HEARD: Final = 0
"""No signal has this number."""
_FAILED: Final = 1
"""What a command ends with that was interrupted."""
_PATIENCE_S: Final = 0.5
"""How long a handler may take to be called, until the command counts as deaf."""


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
        watchdog.note_heard()
        stop.request()
        if not watchdog.is_answered:
            _say(_WORDS)

    watchdog = _Watchdog()
    try:
        before = {number: signal.signal(number, request) for number in _SIGNALS}
        try:
            yield stop
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    finally:
        watchdog.close()


class _Watchdog:
    """Answers signals in the place of a command that is deaf, and ends it at the second one."""

    def __init__(self) -> None:
        self.is_answered = False
        """Whether the first signal was answered here."""
        self._ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)
        self._before = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="signals", daemon=True)
        self._thread.start()

    def note_heard(self) -> None:
        """A handler was called, for all signals that came before."""
        # Said where the signals are, so that the order is known: of equal ones that come while
        # nobody hears them, the handler is called for one.
        with suppress(OSError):
            self._theirs.send(bytes([_HEARD]))

    def close(self) -> None:
        """The command has ended by itself."""
        self._is_over.set()
        signal.set_wakeup_fd(self._before)
        self._theirs.close()
        self._thread.join()
        self._ours.close()

    def _listen(self) -> None:
        count = 0
        while numbers := self._ours.recv(64):
            numbers += self._rest()
            if self._is_over.is_set():
                continue
            _, mark, unheard = numbers.rpartition(bytes([_HEARD]))
            if mark:
                # Whatever comes next is not the first.
                count = max(count, 1)
            came_count = sum(number in _SIGNALS for number in unheard)
            count += came_count
            if came_count and count > 1:
                _say(_LAST_WORDS)
                os._exit(_FAILED)
            if came_count:
                self.is_answered = True
                _say(_WORDS)

    def _rest(self) -> bytes:
        """What comes until nothing does for a while: the last signal may still be heard."""
        rest = b""
        while not self._is_over.wait(_PATIENCE_S):
            try:
                more = self._ours.recv(64, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            if not more:
                break
            rest += more
        return rest


def _say(words: str) -> None:
    # Not through the stream, whose buffer the signal may have come in the midst of, and not at the
    # cost of the command: where nobody listens, the words go unheard.
    with suppress(OSError, ValueError):
        # A terminal has just shown ^C.
        begin = "\n" if sys.stderr.isatty() else ""
        os.write(sys.stderr.fileno(), f"{begin}{words}".encode())
