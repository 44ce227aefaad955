"""Writes a recording: collects rows into batches, batches into segments, and lists segments."""

from __future__ import annotations

import errno
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from skerry.closing import Closing
from skerry.codec.envelope import Update
from skerry.errors import RecordingError
from skerry.limits import RECORDING_BATCH_BYTES, TYPE_COUNT_MAX
from skerry.recording.descriptions import description_updates
from skerry.recording.gaps import Gap, Missing, gap_update
from skerry.recording.index import SegmentContent
from skerry.recording.manifest_lines import Repair
from skerry.recording.rows import Columns, Rows
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.recordings.config import Durability, RecordingConfig
from skerry.runtime.recordings.files.folders import (
    create_identity,
    hold_reserve,
    make_folder,
    open_names,
    reject_foreign_folder,
    release_reserve,
    sealed_names,
    segment_number,
    sync_folder,
    writer_lock,
)
from skerry.runtime.recordings.files.followers import is_followed, remove_stale_followers
from skerry.runtime.recordings.files.manifest import Manifest
from skerry.runtime.recordings.files.retention import drop_segments, remove_dropped
from skerry.runtime.recordings.files.segment_files import SegmentFile
from skerry.runtime.recordings.files.unlisted_segments import list_unlisted, repair_open
from skerry.runtime.recordings.resume_point import ResumePoint, find_resume_point
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import NamedType

RECORDING_BATCH_COUNT_MAX: Final = 16_384
"""Batches of one segment, which are listed in one line of the manifest. Beyond it the segment is
sealed, however small it is."""

_SECOND_NS: Final = 1_000_000_000
_UNWRITTEN: Final = "the recorder could not write them"


class RecordingWriter(Closing):
    """The only writer of a folder; not thread-safe.

    The caller appends rows, by `append` or to `rows` directly, and calls `flush_if_due` regularly.
    If the disk is full or fails, that raises RecordingError and no row is dropped: rows of the
    writer stay in `rows` until a later flush succeeds, and a batch that `append_columns` could not
    write stays with the caller, which repeats the call or gives up the batch with `leave_out`. The
    bytes of a failed batch are overwritten by the next one, so no row is torn or duplicated.
    """

    def __init__(self, folder: Path, config: RecordingConfig | None = None, *, space: str) -> None:
        self.folder = folder
        self.config = config if config is not None else RecordingConfig()
        self.rows = Rows()
        self.row_count = 0
        """Rows that were written, including descriptions."""
        self.byte_count = 0
        self.lost_row_count = 0
        """Rows that were given up and are replaced by gap rows."""
        self.gap_count = 0
        """Gap rows that were written for lost rows."""
        self.dropped_count = 0
        self._types: dict[int, NamedType] = {}
        self._described: set[int] = set()
        """Fingerprints of the types described in the open segment."""
        self._segment: SegmentFile | None = None
        self._missing = Missing()
        self._rows_since_ns: int | None = None
        self._segment_since_ns = 0
        self._synced_ns = 0
        self._is_unsynced = False
        self._followers_checked_ns = 0
        self._is_followed = False
        self._has_unlisted = False
        """Whether a sealed segment could not be added to the manifest."""
        with ExitStack() as stack:
            try:
                make_folder(folder)
                # Before any file is created in it.
                reject_foreign_folder(folder)
                stack.enter_context(writer_lock(folder))
                self.identity = create_identity(folder, space=space)
                self._manifest = Manifest(folder, has_batches=False)
                self._manifest.remove_left_over()
                self.repairs: tuple[Repair, ...] = tuple(repair_open(folder, self._manifest))
                """Segments that a crash had left, and what was lost."""
                self.resume_point: ResumePoint | None = find_resume_point(
                    folder, self._manifest, self.identity.id
                )
                """The last update of earlier recorders; None if they wrote no rows."""
                list_unlisted(folder, self._manifest)
                remove_dropped(folder, self._manifest)
                remove_stale_followers(folder)
                self._next_number = self._first_free_number()
                hold_reserve(folder)
            except OSError as error:
                raise self._failure("open", error) from error
            self._closing = stack.pop_all()

    @property
    def space(self) -> str:
        return self.identity.space

    @property
    def is_full(self) -> bool:
        """Whether enough rows for a batch are waiting."""
        rows = self.rows
        return rows.count >= self.config.batch_rows or rows.byte_count >= RECORDING_BATCH_BYTES

    def append(self, update: Update) -> None:
        """Append a row, which is written with its batch."""
        self.rows.append_update(update)

    def append_gap(self, gap: Gap, *, type_name: str = "", sender: int = 0, node: int = 0) -> None:
        """Append a row that states which updates are missing."""
        self.append(
            gap_update(gap, space=self.space, type_name=type_name, sender=sender, node=node)
        )

    def append_columns(self, columns: Columns) -> None:
        """Write collected rows as one batch, after the rows that wait in `rows`.

        After RecordingError none of `columns` is written, and the call can be repeated.
        """
        self.flush()
        if columns.count:
            self._write(columns)

    def leave_out(self, columns: Columns, reason: str) -> None:
        """Give up rows: a gap row replaces them as soon as it can be written."""
        self.lost_row_count += self._missing.leave_out(columns, reason)

    def describe(self, type_: NamedType) -> None:
        """Register a type. In each segment, its description precedes the first row of the type.

        The rows of the type are recognized by their fingerprint.
        """
        number = fingerprint(type_)
        # A type that is registered again becomes the newest.
        self._types.pop(number, None)
        self._types[number] = type_
        if len(self._types) > TYPE_COUNT_MAX:
            # Definitions change while a recorder runs for a year. The one that was registered
            # first is the least likely to be in use.
            del self._types[next(iter(self._types))]

    def flush_if_due(self, now_ns: int) -> None:
        """Write, sync and seal what is due at this monotonic time; call it by `deadline_ns`."""
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
            # Followers are checked every second.
            due.append(min(self._seal_due_ns(), self._followers_checked_ns + _SECOND_NS))
            if self._is_unsynced and self._is_durable:
                due.append(self._sync_due_ns())
        return min(due, default=None)

    def flush(self) -> None:
        """Write the waiting rows as one batch."""
        if not self.rows.count:
            return
        self._write(Columns(self.rows))
        self.rows.clear()
        self._rows_since_ns = None

    def seal(self) -> None:
        """Finish the segment, which followers see from then on."""
        self.flush()
        self._seal()

    def _seal(self) -> None:
        segment = self._segment
        if segment is None:
            return
        if not segment.contents:
            # Even its first batch could not be written.
            segment.discard()
            self._segment = None
            return
        sync = self._is_durable
        try:
            if self._has_unlisted or self._manifest.is_changed:
                list_unlisted(self.folder, self._manifest)
            with self._manifest.locked():
                sealed = segment.seal(sync=sync)
                self._segment = None
                self._described.clear()
                self._is_unsynced = False
                self._has_unlisted = True
                if sync:
                    sync_folder(self.folder)
                self._manifest.add_sealed(sealed, sync=sync)
                self._has_unlisted = False
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
                # A gap row needs less space than the rows, so it may still be written.
                failure = error
                self.leave_out(self.rows.take(), _UNWRITTEN)
            if self._missing:
                self._write_missing()
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

    def _write(self, columns: Columns) -> None:
        """Write a batch, preceded by the gap rows and descriptions that its readers need."""
        try:
            segment = self._open_segment()
            definitions = {number for _, number in columns.definitions}
            self._introduce(segment, definitions, columns.time_min_ns)
            self._count(segment.write(columns))
        except OSError as error:
            raise self._failure("write to", error) from error

    def _write_missing(self) -> None:
        """Write gap rows although no batch follows them."""
        try:
            self._introduce(self._open_segment(), set(), self._missing.first_ns)
        except OSError as error:
            raise self._failure("write to", error) from error

    def _open_segment(self) -> SegmentFile:
        if self._segment is not None and len(self._segment.contents) >= RECORDING_BATCH_COUNT_MAX:
            # It could not be sealed for long, and its line cannot describe more batches.
            self._seal()
        if self._segment is None:
            self._segment = SegmentFile(
                self.folder, recording=self.identity.id, number=self._next_number
            )
            self._next_number += 1
            self._segment_since_ns = monotonic_ns()
            if self._is_durable:
                # A file is not durable before its name is.
                sync_folder(self.folder)
        return self._segment

    def _introduce(self, segment: SegmentFile, definitions: set[int], time_ns: int) -> None:
        """Write a batch of pending gap rows and of types that the next batch uses first."""
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
        if now_ns - self._followers_checked_ns >= _SECOND_NS:
            self._followers_checked_ns = now_ns
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
        # Never as part of writing a batch: a written batch must not be written again because the
        # sync failed.
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
        names |= self._manifest.lines.segments.keys() | self._manifest.lines.dropped.keys()
        numbers = [segment_number(self.identity.id, name) for name in names]
        # The names of forgotten segments are not used again either.
        numbers.append(self._manifest.lines.forgotten.numbers.get(self.identity.id[:8], 0))
        return 1 + max(numbers)

    def _failure(self, verb: str, error: OSError) -> RecordingError:
        failure = RecordingError(f"cannot {verb} {self.folder}: {error.strerror or error}")
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            failure.hint = "free disk space, or limit the recording by age or size"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            failure.hint = "get permission to write there, or name another folder"
        else:
            failure.hint = "check the disk, or name another folder"
        return failure
