"""Writes a recording: rows to batches, batches to a segment, segments to the manifest."""

from __future__ import annotations

import errno
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from skerry.closing import Closing
from skerry.codec.envelope import Update
from skerry.errors import RecordingError
from skerry.limits import RECORDING_BATCH_BYTES, TYPE_COUNT_MAX
from skerry.recording.descriptions import description_updates
from skerry.recording.gaps import Gap, Missing, gap_update
from skerry.recording.index import SegmentContent, batch_of_rows
from skerry.recording.rows import Columns, Rows
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.recordings.config import Durability, RecordingConfig
from skerry.runtime.recordings.folders import (
    create_identity,
    hold_reserve,
    make_folder,
    open_names,
    refuse_strange,
    release_reserve,
    sealed_names,
    segment_number,
    sync_folder,
    writer_lock,
)
from skerry.runtime.recordings.followers import forget_gone, is_followed
from skerry.runtime.recordings.manifest import Manifest, Repair
from skerry.runtime.recordings.repairs import adopt_strays, repair_open
from skerry.runtime.recordings.resume_point import ResumePoint, ending_of
from skerry.runtime.recordings.retention import drop_segments, remove_dropped
from skerry.runtime.recordings.segment_files import SegmentFile
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import NamedType

__all__ = ["RECORDING_BATCH_COUNT_MAX", "RecordingWriter"]

RECORDING_BATCH_COUNT_MAX: Final = 16_384
"""Batches of one segment, which are listed in one line of the manifest. Beyond it the segment is
sealed, however small it is."""

_SECOND_NS: Final = 1_000_000_000
_UNWRITTEN: Final = "the recorder could not write them"


class RecordingWriter(Closing):
    """The one writer of a folder; not for several threads at once.

    Rows are appended, by `append` or to `rows` directly, and `flush_if_due` is called now and then.
    When the disk is full or fails, that raises RecordingError and no row is dropped: rows of the
    writer stay in `rows` until a later flush succeeds, and a batch that `append_columns` refused
    stays with the caller, which calls again or gives the batch up with `leave_out`. Whatever was
    written of a failed batch is overwritten by the next one, so no row is torn or duplicated.
    """

    def __init__(self, folder: Path, config: RecordingConfig | None = None, *, space: str) -> None:
        self.folder = folder
        self.config = config if config is not None else RecordingConfig()
        self.rows = Rows()
        self.row_count = 0
        """Rows that were written, descriptions among them."""
        self.byte_count = 0
        self.lost_row_count = 0
        """Rows that were given up; gap rows name them."""
        self.gap_count = 0
        """Gap rows that were written for those."""
        self.dropped_count = 0
        """Segments that were dropped, being too old or too many."""
        self._types: dict[int, NamedType] = {}
        self._described: set[int] = set()
        """Fingerprints of what is described in the segment that is being written."""
        self._segment: SegmentFile | None = None
        self._missing = Missing()
        self._rows_since_ns: int | None = None
        self._segment_since_ns = 0
        self._synced_ns = 0
        self._is_unsynced = False
        self._looked_ns = 0
        self._is_followed = False
        self._has_strays = False
        with ExitStack() as stack:
            try:
                make_folder(folder)
                # Before anything is put into it.
                refuse_strange(folder)
                stack.enter_context(writer_lock(folder))
                self.identity = create_identity(folder, space=space)
                self._manifest = Manifest(folder, has_batches=False)
                self._manifest.remove_left_over()
                self.repairs: tuple[Repair, ...] = tuple(repair_open(folder, self._manifest))
                """Segments that a crash had left, and what was lost with it."""
                self.ending: ResumePoint | None = ending_of(
                    folder, self._manifest, self.identity.id
                )
                """How far recorders before this one had come; None if there was none."""
                adopt_strays(folder, self._manifest)
                remove_dropped(folder, self._manifest)
                forget_gone(folder)
                self._next_number = self._first_free_number()
                hold_reserve(folder)
            except OSError as error:
                raise self._failure("open", error) from error
            self._closing = stack.pop_all()

    @property
    def space(self) -> str:
        """The space that is recorded."""
        return self.identity.space

    @property
    def is_full(self) -> bool:
        """Whether the rows that wait are enough for a batch."""
        rows = self.rows
        return rows.count >= self.config.batch_rows or rows.byte_count >= RECORDING_BATCH_BYTES

    def append(self, update: Update) -> None:
        """One row more; it is written with its batch."""
        self.rows.append_update(update)

    def append_gap(self, gap: Gap, *, type_name: str = "", sender: int = 0, node: int = 0) -> None:
        """Say that updates are missing here."""
        self.append(
            gap_update(gap, space=self.space, type_name=type_name, sender=sender, node=node)
        )

    def append_columns(self, columns: Columns) -> None:
        """Write rows that were gathered elsewhere as one batch, after those that wait in `rows`.

        After RecordingError none of `columns` is written, and the call can be repeated.
        """
        self.flush()
        if columns.count:
            self._write(columns)

    def leave_out(self, columns: Columns, reason: str) -> None:
        """Give rows up: a gap row replaces them as soon as one can be written."""
        self.lost_row_count += self._missing.leave_out(columns, reason)

    def append_batch(self, batch: pa.RecordBatch) -> None:
        """The same for rows that are a batch of Arrow already."""
        self.flush()
        if batch.num_rows:
            self._write(batch, batch_of_rows(batch, offset=0, size=0, crc=0))

    def describe(self, type_: NamedType) -> None:
        """Know a type, of which rows may come from now on; those are told by their fingerprint.

        Its description is written before the first row of the type, in each segment anew.
        """
        number = fingerprint(type_)
        # Who is described again is the newest.
        self._types.pop(number, None)
        self._types[number] = type_
        if len(self._types) > TYPE_COUNT_MAX:
            # Definitions change while a recorder runs for a year. Where there are too many, the one
            # that was told first is the one that is least likely in use.
            del self._types[next(iter(self._types))]

    def flush_if_due(self, now_ns: int) -> None:
        """Do what is due at this moment of monotonic time; call it at `deadline_ns` or before."""
        if self.rows.count:
            if self._rows_since_ns is None:
                self._rows_since_ns = now_ns
            if self.is_full or now_ns - self._rows_since_ns >= self.config.batch_ms * 1_000_000:
                self.flush()
        if self._segment is None:
            return
        if self._is_seal_due(now_ns):
            self.seal()
        elif self._is_sync_due(now_ns):
            self._sync(now_ns)

    def deadline_ns(self) -> int | None:
        """Monotonic time at which `flush_if_due` has something to do; None if never."""
        due: list[int] = []
        if self.rows.count:
            since_ns = self._rows_since_ns
            due.append(0 if since_ns is None else since_ns + self.config.batch_ms * 1_000_000)
        if self._segment is not None:
            # Whether somebody follows is looked up each second.
            due.append(min(self._seal_due_ns(), self._looked_ns + _SECOND_NS))
            if self._is_unsynced and self._is_durable:
                due.append(self._sync_due_ns())
        return min(due, default=None)

    def flush(self) -> None:
        """Write the rows that wait as one batch."""
        if not self.rows.count:
            return
        self._write(Columns(self.rows))
        self.rows.clear()
        self._rows_since_ns = None

    def seal(self) -> None:
        """Finish the segment, which is seen by those who follow from then on."""
        self.flush()
        self._seal()

    def _seal(self) -> None:
        segment = self._segment
        if segment is None:
            return
        if not segment.contents:
            # Not even its first batch could be written.
            segment.discard()
            self._segment = None
            return
        sync = self._is_durable
        try:
            if self._has_strays or self._manifest.is_changed:
                adopt_strays(self.folder, self._manifest)
            with self._manifest.locked():
                sealed = segment.seal(sync=sync)
                self._segment = None
                self._described.clear()
                self._is_unsynced = False
                self._has_strays = True
                if sync:
                    sync_folder(self.folder)
                self._manifest.add_sealed(sealed, sync=sync)
                self._has_strays = False
            dropped = drop_segments(self.folder, self._manifest, self.config, now_ns=wall_ns())
        except OSError as error:
            raise self._failure("seal a segment in", error) from error
        self.dropped_count += len(dropped)

    def close(self) -> None:
        """Seal the open segment and release the recording for other writers.

        Rows that cannot be written now are given up. RecordingError if anything failed.
        """
        failure: RecordingError | None = None
        release_reserve(self.folder)
        try:
            try:
                self.flush()
            except RecordingError as error:
                # A gap row takes less room than the rows, so it may still be written.
                failure = error
                self.leave_out(self.rows.take(), _UNWRITTEN)
            if self._missing:
                self._tell_missing()
            self.seal()
            if failure is not None:
                raise failure
        finally:
            if self._segment is not None:
                self._segment.close()
            self._closing.close()

    @property
    def _is_durable(self) -> bool:
        return self.config.durability != Durability.NONE

    def _write(self, rows: Columns | Any, noted: SegmentContent | None = None) -> None:
        """Write a batch, and before it what its reader has to know.

        One that is a batch of Arrow already comes with what is in it.
        """
        pairs = rows.definitions if noted is None else noted.definitions
        since_ns = rows.time_min_ns if noted is None else noted.batch.time_min_ns
        try:
            segment = self._open_segment()
            self._introduce(segment, {number for _, number in pairs}, since_ns)
            self._count(segment.write(rows) if noted is None else segment.write_batch(rows))
        except OSError as error:
            raise self._failure("write to", error) from error

    def _tell_missing(self) -> None:
        """Say what is missing though nothing follows it."""
        try:
            self._introduce(self._open_segment(), set(), self._missing.first_ns)
        except OSError as error:
            raise self._failure("write to", error) from error

    def _open_segment(self) -> SegmentFile:
        if self._segment is not None and len(self._segment.contents) >= RECORDING_BATCH_COUNT_MAX:
            # It could not be sealed for long, and more batches do not fit into its line.
            self._seal()
        if self._segment is None:
            self._segment = SegmentFile(
                self.folder, recording=self.identity.id, number=self._next_number
            )
            self._next_number += 1
            self._segment_since_ns = monotonic_ns()
            if self._is_durable:
                # A file is not on the disk before its name is.
                sync_folder(self.folder)
        return self._segment

    def _introduce(self, segment: SegmentFile, definitions: set[int], time_ns: int) -> None:
        """A batch of what is missing before this one, and of types that it is the first to have."""
        due = sorted((definitions & self._types.keys()) - self._described)
        if not self._missing and not due:
            return
        rows = Rows()
        for update in self._missing.updates(space=self.space):
            rows.append_update(update)
        for number in due:
            for update in description_updates(
                self._types[number], space=self.space, time_ns=time_ns
            ):
                rows.append_update(update)
        self._count(segment.write(rows.take()))
        self.gap_count += len(self._missing)
        self._missing.clear()
        self._described.update(due)

    def _count(self, content: SegmentContent) -> None:
        self.row_count += content.batch.rows
        self.byte_count += content.batch.size
        self._is_unsynced = True

    def _is_seal_due(self, now_ns: int) -> bool:
        segment = self._segment
        assert segment is not None
        if segment.size >= self.config.segment_bytes:
            return True
        if len(segment.contents) >= RECORDING_BATCH_COUNT_MAX:
            return True
        if now_ns - self._looked_ns >= _SECOND_NS:
            self._looked_ns = now_ns
            self._is_followed = is_followed(self.folder)
        return now_ns >= self._seal_due_ns()

    def _seal_due_ns(self) -> int:
        age_s = self.config.seal_followed_s if self._is_followed else self.config.seal_s
        return self._segment_since_ns + int(age_s * _SECOND_NS)

    def _sync_due_ns(self) -> int:
        if self.config.durability == Durability.BATCH:
            return 0
        return self._synced_ns + int(self.config.sync_interval_s * _SECOND_NS)

    def _is_sync_due(self, now_ns: int) -> bool:
        # Never as part of writing a batch: a batch that is written must not be written again
        # because it could not be synced.
        return self._is_unsynced and self._is_durable and now_ns >= self._sync_due_ns()

    def _sync(self, now_ns: int) -> None:
        assert self._segment is not None
        try:
            self._segment.sync()
        except OSError as error:
            raise self._failure("sync", error) from error
        self._synced_ns = now_ns
        self._is_unsynced = False

    def _first_free_number(self) -> int:
        names = {*sealed_names(self.folder), *open_names(self.folder)}
        names |= self._manifest.segments.keys() | self._manifest.dropped.keys()
        numbers = [segment_number(self.identity.id, name) for name in names]
        # Names of segments that are forgotten are not given again either.
        numbers.append(self._manifest.forgotten.numbers.get(self.identity.id[:8], 0))
        return 1 + max(numbers)

    def _failure(self, verb: str, error: OSError) -> RecordingError:
        failure = RecordingError(f"cannot {verb} {self.folder}: {error.strerror or error}")
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            failure.hint = "make room, or bound what is kept by age or size"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            failure.hint = "get permission to write there, or name another folder"
        else:
            failure.hint = "look at the disk, or name another folder"
        return failure
