"""The open blocking spaces of a process, which a fork and the end of the program have to find.

A program may end without closing its spaces: by its last line, by `sys.exit`, by an error. What it
published is then sent nevertheless, and a warning is logged: only `close` and `flush` report
whether the node has received it.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import warnings
from contextlib import suppress
from time import monotonic
from typing import Final

from skerry.client.io.loop_thread import FORKED, LoopThread, join_abandoned
from skerry.client.io.session import Session
from skerry.errors import Disconnected, RequestTimedOut

_EXIT_S_MAX: Final = 3.0
"""How long the end of a program waits for all of its spaces together. Each waits a second until
its node has read what was sent. A node that does not read must not keep the program from ending.
"""

_THREAD_END_S_MIN: Final = 0.1
"""The minimum time for a thread without work to end."""

log = logging.getLogger(__name__)


class OpenSpace:
    """A session on its own thread, until it is closed or abandoned."""

    def __init__(self, session: Session, thread: LoopThread) -> None:
        self._session = session
        self._thread = thread
        self._closing = threading.Lock()
        _OPEN.add(self)

    @property
    def name(self) -> str:
        return self._session.core.config.name

    def close(self, timeout: float | None) -> None:
        """Send what waits and close the connection. Concurrent callers wait for the first.

        Raises RequestTimedOut if it takes longer because a callback blocks the thread: the space
        then closes when the callback returns.
        """
        if not self._thread.is_running:
            return
        self._thread.check_wait()
        if timeout is not None:
            timeout = min(max(timeout, 0), threading.TIMEOUT_MAX)
        until_s = None if timeout is None else monotonic() + timeout
        if not self._closing.acquire(timeout=-1 if timeout is None else timeout):
            raise RequestTimedOut(_unclosed(timeout))
        try:
            if self._thread.is_open:
                with suppress(Disconnected):
                    self._thread.run(self._session.close(), timeout=timeout)
                # The session is closed by then, and the thread only has to end.
                left_s = until_s and max(until_s - monotonic(), _THREAD_END_S_MIN)
                is_over = self._thread.end(left_s)
            else:
                # A second caller finds it closed, or about to close when a callback returns.
                self._thread.join(timeout)
                is_over = not self._thread.is_running
        except RequestTimedOut:
            self._thread.abandon(self._session.close)
            is_over = False
        finally:
            _OPEN.discard(self)
            self._closing.release()
        if not is_over:
            raise RequestTimedOut(_unclosed(timeout))

    def abandon(self) -> bool:
        """Begin to close without waiting. False if the space is closed, or being closed."""
        _OPEN.discard(self)
        if not self._thread.is_open or self._closing.locked():
            return False
        self._thread.abandon(self._session.close)
        return True

    def forked(self) -> None:
        """Abandon the session in a forked child: thread and streams belong to the parent."""
        self._session.abandon(FORKED, threading.Lock())


def _unclosed(timeout: float | None) -> str:
    return (
        f"the space did not close within {timeout} s: a callback blocks its thread;"
        " it closes when the callback returns"
    )


_OPEN: set[OpenSpace] = set()


def close_open_spaces() -> None:
    """Close all open spaces at the end of the program, with a limited wait."""
    abandoned = [space for space in list(_OPEN) if space.abandon()]
    for space in abandoned:
        log.warning("the space %s was not closed before the end of the program", space.name)
    join_abandoned(_EXIT_S_MAX)
    for _ in abandoned:
        # As for a space without references. Last, since warnings may be configured as errors.
        warnings.warn("a space was not closed", ResourceWarning, stacklevel=1)


def _fork_all() -> None:
    while _OPEN:
        _OPEN.pop().forked()


# Functions that a program registers later are called earlier, and may still close its spaces. Only
# daemon threads are left then, and the thread of a space is one.
atexit.register(close_open_spaces)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fork_all)
