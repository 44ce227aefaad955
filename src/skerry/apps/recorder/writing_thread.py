"""The thread of a recorder that writes batches from the queue into the recording.

A full or failing disk does not end the recording. A batch that could not be written stays first in
the queue and is retried with growing pauses until it is written: rows keep their order, and none is
written twice. Meanwhile updates wait in the queue. When the queue is full, it drops the newest
updates and counts them in a gap row (see `row_queue`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from skerry.apps.recorder.row_queue import Handover, RowQueue
from skerry.errors import RecordingError
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.recordings.writer import RecordingWriter

_RETRY_S_MIN: Final = 0.1
_RETRY_S_MAX: Final = 5.0
"""Pauses between attempts to write; each is twice the previous one, up to the longest. The
recording continues within seconds after the disk has room, and a broken disk is not kept busy."""
_CHECK_S_MAX: Final = 1.0
_WRITING: Final = "writing"
_SEALING: Final = "sealing"

log = logging.getLogger(__name__)


class _Backoff:
    """When to retry after a failure: pauses grow from the shortest to the longest."""

    def __init__(self, pause_s_min: float, pause_s_max: float) -> None:
        self._pause_ns_min = int(pause_s_min * 1e9)
        self._pause_ns_max = int(pause_s_max * 1e9)
        self._pause_ns = 0
        self.due_ns = 0
        """0 after a success."""

    def is_due(self, now_ns: int) -> bool:
        return now_ns >= self.due_ns

    def note(self, now_ns: int, *, is_success: bool) -> None:
        longer_ns = min(max(2 * self._pause_ns, self._pause_ns_min), self._pause_ns_max)
        self._pause_ns = 0 if is_success else longer_ns
        self.due_ns = 0 if is_success else now_ns + self._pause_ns


class WritingThread:
    """Writes the batches of a queue until it is closed and empty, then closes the recording."""

    def __init__(
        self,
        queue: RowQueue,
        writer: RecordingWriter,
        *,
        report: Callable[[str], None] = lambda _text: None,
        retry_s: tuple[float, float] = (_RETRY_S_MIN, _RETRY_S_MAX),
    ) -> None:
        """`report` reports each problem once, and its end. `retry_s`: first and longest pause."""
        self._queue = queue
        self._writer = writer
        self._report = report
        self._writing = _Backoff(*retry_s)
        self._sealing = _Backoff(*retry_s)
        self._is_stopping = threading.Event()
        self._errors: dict[str, RecordingError] = {}
        """The last error of each operation that fails: writing rows may work while sealing a
        segment fails, and the other way round."""
        self._lost_count = 0
        """Rows that the queue had dropped at the last check."""
        self._lost_reported = 0
        """Of these, the rows that were reported."""
        self._is_dropping = False
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Wait until the closed queue is written; RecordingError if a part of it could not be.

        From now on, a batch that cannot be written is dropped. A gap row replaces it if that can be
        written.
        """
        self._is_stopping.set()
        self.thread.join()
        if self.failure is not None:
            raise self.failure
        for error in self._errors.values():
            count = self._writer.lost_row_count
            lost = f"; {count:,} queued rows are lost" if count else ""
            failure = RecordingError(f"{error}{lost}")
            failure.hint = error.hint
            raise failure from error

    @property
    def trouble(self) -> str:
        """Why the last attempt to write failed; empty if it succeeded."""
        if self.failure is not None:
            return f"the writing thread of the recorder failed: {self.failure}"
        return next((str(error) for error in list(self._errors.values())), "")

    def _run(self) -> None:
        try:
            while not self._queue.is_over:
                self._turn()
            self._report_losses()
            self._attempt(self._writer.close, _SEALING)
        except BaseException as error:
            # `stop` raises it; nothing is written until then.
            self.failure = error
            log.exception("the writing thread of the recorder failed")

    def _turn(self) -> None:
        item = self._queue.take(self._wait_s())
        is_written = item is None or self._write(item)
        now_ns = monotonic_ns()
        # Also if nothing could be written: sealing a segment can make room by retention. Rows
        # are still written while a segment cannot be sealed or synced.
        if self._sealing.is_due(now_ns) or self._is_stopping.is_set():
            is_sealed = self._attempt(lambda: self._writer.flush_if_due(now_ns), _SEALING)
            self._sealing.note(now_ns, is_success=is_sealed)
        if item is not None:
            self._writing.note(now_ns, is_success=is_written)
        self._report_losses()
        if not is_written:
            # `stop` ends the pause.
            self._is_stopping.wait((self._writing.due_ns - now_ns) / 1e9)

    def _write(self, item: Handover) -> bool:
        for type_ in item.types:
            self._writer.describe(type_)
        columns, is_last = item.columns, self._is_stopping.is_set()
        if columns is not None and not self._attempt(
            partial(self._writer.append_columns, columns), _WRITING
        ):
            if not is_last:
                return False
            self._writer.leave_out(columns, self._queue.drop_reason)
        self._queue.written()
        return True

    def _wait_s(self) -> float:
        due_ns = self._writer.deadline_ns()
        if due_ns is None:
            return _CHECK_S_MAX
        due_ns = max(due_ns, self._sealing.due_ns)
        return min(max((due_ns - monotonic_ns()) / 1e9, 0.0), _CHECK_S_MAX)

    def _attempt(self, do: Callable[[], None], what: str) -> bool:
        """Whether it succeeded. The first failure is reported, and the first success after it."""
        try:
            do()
        except RecordingError as error:
            self._failed(what, error)
            return False
        if self._errors.pop(what, None) is not None and not self._errors:
            self._queue.drop_reason = ""
            self._report("the recording continues")
        return True

    def _failed(self, what: str, error: RecordingError) -> None:
        is_known = str(error) == str(self._errors.get(what))
        self._errors[what] = error
        cause = error.__cause__
        detail = (cause.strerror if isinstance(cause, OSError) else None) or str(error)
        self._queue.drop_reason = f"the recorder could not write: {detail}"
        if not is_known:
            self._report(
                f"{error}; updates wait in a queue of at most"
                f" {self._queue.waiting_bytes_max:,} bytes until writing works again"
            )

    def _report_losses(self) -> None:
        """Report when the queue begins to drop rows, even if the disk is only slow, and when it has
        room again."""
        queue = self._queue
        before, self._lost_count = self._lost_count, queue.lost_count
        if self._lost_count > before:
            if not self._is_dropping:
                self._is_dropping = True
                self._report("the queue of the recorder is full: new updates are dropped")
        elif self._is_dropping and queue.waiting_bytes <= queue.waiting_bytes_max // 2:
            self._is_dropping = False
            count, self._lost_reported = self._lost_count - self._lost_reported, self._lost_count
            self._report(f"{count:,} updates were dropped, and a gap row states which")
