"""The queue of rows between the sources of a recorder and the thread that writes.

Receiving never blocks: it fills rows, and hands over full batches. They are queued here for the
thread that writes, up to a bound of bytes. Past it the newest rows are dropped, and a gap row
replaces them, with their number and range, as soon as there is room again. The newest rows are
dropped, not the oldest, because the oldest batch may be partly written, and because the recording
stays in one piece: the gap is a single range at its end. Descriptions of types are never dropped.
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

__all__ = ["Handover", "RowQueue"]

_OVERFLOW: Final = "the recorder did not keep up"
_GATHERING_COUNT: Final = 8
"""Queued batches above which rows are only gathered into full ones. A disk that is blocked for
hours would otherwise fill the queue with batches of one row each, which take some kilobytes of
memory beside the bytes that are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """A batch for the thread that writes: descriptions of types, and then rows."""

    types: tuple[NamedType, ...]
    columns: Columns | None
    byte_count: int


class RowQueue:
    """One side fills `rows` and calls `hand_over`; the other side takes."""

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
        """Rows that were dropped."""
        self.drop_reason = ""
        """Why nothing can be written now, for gap rows; empty while the disk works. The thread that
        writes sets it."""
        self.gap_count = 0
        """Gap rows, whatever their reason."""
        self.row_count = 0
        """Rows that were handed over."""
        self._space = space
        self.waiting_bytes_max = waiting_bytes_max
        """The bound of queued bytes."""
        self._types: dict[int, NamedType] = {}
        """Types that are not handed over yet, by fingerprint: each is queued once."""
        self._missing = Missing()
        """Dropped rows that no gap row covers yet."""
        self._items: deque[Handover] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._is_closed = False

    # -- for the sources, in one thread

    def describe(self, type_: NamedType) -> None:
        """Add a type of which rows follow."""
        self._types[fingerprint(type_)] = type_

    def tell_gap(self, gap: Gap, *, node: int = 0, sender: int = 0, type_name: str = "") -> None:
        """Append a gap row."""
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
        waiting_bytes = self._waiting_bytes
        # A single batch is accepted whatever the bound: otherwise it could never be written.
        if waiting_bytes and waiting_bytes + size > self.waiting_bytes_max:
            reason = self.drop_reason or _OVERFLOW
            self.lost_count += self._missing.leave_out(rows.take(), reason)
            return
        if self._missing:
            self._tell_missing()
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
        """Nothing more comes."""
        self._hand_over()
        if self._missing:
            # Whatever is queued: this is the last chance to record it.
            self._tell_missing()
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait to be written."""
        return self._waiting_bytes

    # -- for the thread that writes

    def take(self, timeout_s: float | None) -> Handover | None:
        """The first batch, which stays in the queue; None after the timeout, or when closed."""
        with self._changed:
            if not self._items and not self._is_closed:
                self._changed.wait(timeout_s)
            return self._items[0] if self._items else None

    def written(self) -> None:
        """Remove the first batch, which is written. Until then it counts as waiting."""
        with self._changed:
            self._waiting_bytes -= self._items.popleft().byte_count

    @property
    def is_over(self) -> bool:
        """Whether nothing waits, and nothing will come."""
        with self._changed:
            return self._is_closed and not self._items

    # -- inside

    def _put(self, item: Handover) -> None:
        with self._changed:
            self._items.append(item)
            self._waiting_bytes += item.byte_count
            self._changed.notify()

    def _tell_missing(self) -> None:
        """Queue gap rows for dropped rows, before the rows that follow them."""
        rows = Rows()
        for update in self._missing.updates(space=self._space):
            rows.append_update(update)
        self._missing.clear()
        count, size = int(rows.count), int(rows.byte_count)
        self.gap_count += count
        self.row_count += count
        self._put(Handover(types=(), columns=rows.take(), byte_count=size))
