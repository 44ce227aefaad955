"""The queue of rows between the sources of a recorder and the writing thread.

Receiving never blocks: sources append rows and hand over full batches, which are queued here for
the writing thread, up to a bound of bytes. Above it, the newest rows are dropped, and a gap row
with their number and range replaces them as soon as there is room. The newest rows are dropped, not
the oldest, because the oldest batch may be partly written, and because the gap is then a single
range at the end of the recording. Type descriptions are never dropped.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

from skerry.limits import RECORDER_QUEUE_BYTES_MAX, RECORDING_BATCH_BYTES
from skerry.recording.gaps import Gap, Missing, gap_update
from skerry.recording.rows import Columns, Rows
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import NamedType

_OVERFLOW: Final = "the recorder did not keep up"
_GATHERING_COUNT: Final = 8
"""Queued batches above which rows are only gathered into full ones. A disk that is blocked for
hours would otherwise fill the queue with batches of one row each, which take some kilobytes of
memory beside the bytes that are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """A batch for the writing thread: type descriptions, then rows."""

    types: tuple[NamedType, ...]
    columns: Columns | None
    byte_count: int


class RowQueue:
    """Sources append to `rows` and call `hand_over`; the writing thread calls `take`."""

    def __init__(
        self,
        *,
        space: str,
        row_count_max: int,
        byte_count_max: int = RECORDING_BATCH_BYTES,
        waiting_bytes_max: int = RECORDER_QUEUE_BYTES_MAX,
    ) -> None:
        self.rows = Rows()
        """Where sources append rows; always the same object."""
        self.row_count_max = row_count_max
        """Rows that make a batch full."""
        self.byte_count_max = byte_count_max
        """Bytes that make a batch full."""
        self.lost_count = 0
        self.drop_reason = ""
        """Why writing fails at present, for gap rows; empty while it works. The writing thread sets
        it."""
        self.gap_count = 0
        """Gap rows of any reason."""
        self.row_count = 0
        self._space = space
        self.waiting_bytes_max = waiting_bytes_max
        self._types: dict[int, NamedType] = {}
        """Types that are not handed over yet, by fingerprint: each is queued once."""
        self._missing = Missing()
        """Dropped rows that no gap row covers yet."""
        self._items: deque[Handover] = deque()
        self.waiting_bytes = 0
        self._changed = threading.Condition()
        self._is_closed = False

    # -- for sources, in one thread

    def describe(self, type_: NamedType) -> None:
        """Queue the description of a type before the next rows."""
        self._types[fingerprint(type_)] = type_

    def append_gap(self, gap: Gap, *, node: int = 0, sender: int = 0, type_name: str = "") -> None:
        self.gap_count += 1
        self.rows.append_update(
            gap_update(gap, space=self._space, node=node, sender=sender, type_name=type_name)
        )

    def hand_over(self) -> None:
        """Queue the rows so far for writing; drop them if the queue is full."""
        rows = self.rows
        is_full = rows.count >= self.row_count_max or rows.byte_count >= self.byte_count_max
        if is_full or len(self._items) < _GATHERING_COUNT:
            self._hand_over()

    def _hand_over(self) -> None:
        rows = self.rows
        if not rows.count and not self._types and not self._missing:
            return
        size = int(rows.byte_count)
        waiting_bytes = self.waiting_bytes
        # A single batch is accepted whatever the bound: otherwise it could never be written.
        if waiting_bytes and waiting_bytes + size > self.waiting_bytes_max:
            reason = self.drop_reason or _OVERFLOW
            self.lost_count += self._missing.leave_out(rows.take(), reason)
            return
        if self._missing:
            self._queue_gap_rows()
        count = int(rows.count)
        self.row_count += count
        item = Handover(
            types=tuple(self._types.values()),
            columns=rows.take() if count else None,
            byte_count=size,
        )
        self._types.clear()
        self._put(item)

    def close(self) -> None:
        """Hand over all rows; none may follow."""
        self._hand_over()
        if self._missing:
            # Even if the queue is full: there is no later time to record the gap.
            self._queue_gap_rows()
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    # -- for the writing thread

    def take(self, timeout_s: float | None) -> Handover | None:
        """The first batch, which stays in the queue; None after the timeout or when closed."""
        with self._changed:
            if not self._items and not self._is_closed:
                self._changed.wait(timeout_s)
            return self._items[0] if self._items else None

    def written(self) -> None:
        """Remove the first batch, which was written. Until then it counts as waiting."""
        with self._changed:
            self.waiting_bytes -= self._items.popleft().byte_count

    @property
    def is_over(self) -> bool:
        with self._changed:
            return self._is_closed and not self._items

    def _put(self, item: Handover) -> None:
        with self._changed:
            self._items.append(item)
            self.waiting_bytes += item.byte_count
            self._changed.notify()

    def _queue_gap_rows(self) -> None:
        """Queue gap rows for dropped rows, before the rows that follow."""
        rows = Rows()
        for update in self._missing.updates(space=self._space):
            rows.append_update(update)
        self._missing.clear()
        count, size = int(rows.count), int(rows.byte_count)
        self.gap_count += count
        self.row_count += count
        self._put(Handover(types=(), columns=rows.take(), byte_count=size))
