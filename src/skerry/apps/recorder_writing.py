"""The thread of a recorder that writes: what comes out of the queue goes into the recording.

A disk that is full or fails ends nothing. What could not be written is told by a gap, and the queue
takes what comes meanwhile; after a moment it is tried again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from skerry.apps.recorder_queue import RowQueue
from skerry.errors import RecordingError
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.recordings.writer import RecordingWriter

__all__ = ["WritingThread"]

_PATIENCE_S: Final = 1.0
"""How long a disk that failed is left alone."""
_LOOK_S_MAX: Final = 1.0
_WRITING: Final = "writing"
_SEALING: Final = "sealing"

log = logging.getLogger(__name__)


class WritingThread:
    """Writes what is in a queue until that is over, and closes the recording."""

    def __init__(
        self,
        queue: RowQueue,
        writer: RecordingWriter,
        *,
        tell: Callable[[str], None] = lambda _text: None,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._queue = queue
        self._writer = writer
        self._tell = tell
        self._patience_s = patience_s
        self._is_stopping = threading.Event()
        self._error: RecordingError | None = None
        """Of the last attempt to write."""
        self._failing = ""
        """What that was."""
        self.failure: BaseException | None = None
        """What ended the thread before its time."""
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """The queue is closed: wait until all of it is written. RecordingError if it is not."""
        self._is_stopping.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure
        if self._error is not None:
            raise self._error

    @property
    def trouble(self) -> str:
        """Why the last attempt to write failed; empty when it did not."""
        if self.failure is not None:
            return f"the recorder cannot write any more: {self.failure}"
        error = self._error
        return "" if error is None else str(error)

    @property
    def is_alive(self) -> bool:
        """Whether it still writes."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._queue.is_over:
                self._turn()
            # Whatever had failed, what could be done about it is done with this.
            self._guarded(self._writer.close, self._failing)
        except BaseException as error:
            # Who stops the thread is told; until then it shows by what is not written.
            self.failure = error
            log.exception("the recorder cannot write any more")

    def _turn(self) -> None:
        item = self._queue.take(self._wait_s())
        if item is not None:
            for type_ in item.types:
                self._writer.describe(type_)
            if item.columns is not None:
                self._guarded(partial(self._writer.append_columns, item.columns), _WRITING)
            self._queue.written()
        self._guarded(lambda: self._writer.flush_if_due(monotonic_ns()), _SEALING)

    def _wait_s(self) -> float:
        due_ns = self._writer.deadline_ns()
        if due_ns is None:
            return _LOOK_S_MAX
        return min(max((due_ns - monotonic_ns()) / 1e9, 0.0), _LOOK_S_MAX)

    def _guarded(self, do: Callable[[], None], what: str) -> None:
        try:
            do()
        except RecordingError as error:
            is_known = str(error) == self.trouble
            self._error, self._failing = error, what
            if not is_known:
                self._tell(
                    f"{error}; what comes meanwhile waits, and is left out when it is too much"
                )
            # What comes meanwhile waits in the queue. Whoever stops does not want to wait.
            self._is_stopping.wait(self._patience_s)
        else:
            # Mostly nothing is due, so that only shows something if it was what had failed; and
            # where rows can be written, it may still be that a segment cannot be sealed.
            if self._error is not None and what == self._failing:
                self._error = None
                self._tell("the recording goes on")
