"""The thread of a recorder that writes: what comes out of the queue goes into the recording.

A disk that is full or fails ends nothing. What could not be written is told by a gap, and the queue
takes what comes meanwhile; after a moment it is tried again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from skerry.apps.recorder_queue import RowQueue
from skerry.errors import RecordingError
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.recordings.writer import RecordingWriter

__all__ = ["WritingThread"]

_PATIENCE_S: Final = 1.0
"""How long a disk that failed is left alone."""
_LOOK_S_MAX: Final = 1.0

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
        self.trouble = ""
        """Why the last attempt to write failed; empty when it did not."""
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
        if self.trouble:
            raise RecordingError(self.trouble)

    @property
    def is_alive(self) -> bool:
        """Whether it still writes."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._queue.is_over:
                self._turn()
            self._guarded(self._writer.close)
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
                columns = item.columns
                self._guarded(lambda: self._writer.append_columns(columns))
            self._queue.written()
        # Mostly there is nothing to do, which shows nothing about the disk.
        self._guarded(lambda: self._writer.flush_if_due(monotonic_ns()), proves=False)

    def _wait_s(self) -> float:
        due_ns = self._writer.deadline_ns()
        if due_ns is None:
            return _LOOK_S_MAX
        return min(max((due_ns - monotonic_ns()) / 1e9, 0.0), _LOOK_S_MAX)

    def _guarded(self, do: Callable[[], None], *, proves: bool = True) -> None:
        try:
            do()
        except RecordingError as error:
            if str(error) != self.trouble:
                self.trouble = str(error)
                self._tell(
                    f"{error}; what comes meanwhile waits, and is left out when it is too much"
                )
            # What comes meanwhile waits in the queue. Whoever stops does not want to wait.
            self._is_stopping.wait(self._patience_s)
        else:
            if self.trouble and proves:
                self.trouble = ""
                self._tell("the recording goes on")
