"""Files of segments: the one that is being written, and reading existing ones."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from skerry.errors import RecordingError
from skerry.recording.format import END_OF_STREAM, encode_block, encode_head, to_record_batch
from skerry.recording.index import (
    RecordedBatch,
    Segment,
    SegmentContent,
    batch_of_columns,
    segment_of,
)
from skerry.recording.rows import Columns
from skerry.runtime.recordings.files.folders import (
    OPEN_SUFFIX,
    PRIVATE_FILE,
    SEALED_SUFFIX,
    segment_name,
)
from skerry.runtime.recordings.files.remote_paths import RemotePath, store_errors


class SegmentFile:
    """A new segment. After a failed write it still ends with a complete batch and can continue."""

    def __init__(self, folder: Path, *, recording: str, number: int) -> None:
        self.contents: list[SegmentContent] = []
        self.number = number
        self._folder = folder
        self._recording = recording
        self._name = segment_name(recording, number)
        self._path = folder / (self._name.removesuffix(SEALED_SUFFIX) + OPEN_SUFFIX)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._handle = os.open(self._path, flags, PRIVATE_FILE)
        self.size = 0
        """Bytes up to the end of the last complete batch."""
        try:
            self._append(encode_head(recording, number))
        except OSError:
            self.discard()
            raise

    def write(self, columns: Columns) -> SegmentContent:
        """Append a batch of rows."""
        block, crc = encode_block(
            to_record_batch(columns),
            recording=self._recording,
            segment=self.number,
            number=len(self.contents),
        )
        offset = self.size
        self._append(block)
        content = batch_of_columns(columns, offset=offset, size=len(block), crc=crc)
        self.contents.append(content)
        return content

    def sync(self) -> None:
        """Make the written batches durable."""
        os.fdatasync(self._handle)

    def seal(self, *, sync: bool) -> Segment:
        """Finish the file and rename it to its final name."""
        # An interrupted write may have left bytes behind the last complete batch.
        os.ftruncate(self._handle, self.size)
        write_all(self._handle, END_OF_STREAM, self.size)
        if sync:
            self.sync()
        # Up to here a failure loses nothing: the next batch overwrites the end marker.
        self._path.rename(self._folder / self._name)
        self.size += len(END_OF_STREAM)
        self.close()
        return segment_of(
            self.contents, folder=self._folder, name=self._name, line=-1, byte_count=self.size
        )

    def discard(self) -> None:
        """Close and remove the file."""
        self.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file as it is; the next recorder seals it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _append(self, data: bytes | bytearray) -> None:
        try:
            write_all(self._handle, data, self.size)
        except OSError:
            # Frees the disk space. If this fails, too, the next batch overwrites the bytes.
            with suppress(OSError):
                os.ftruncate(self._handle, self.size)
            raise
        self.size += len(data)


def write_all(handle: int, data: bytes | bytearray, offset: int) -> None:
    """Write all of the data at an offset; OSError if that was not possible."""
    rest = memoryview(data)
    while rest:
        count = os.pwrite(handle, rest, offset)
        rest = rest[count:]
        offset += count


def map_file(path: Path) -> memoryview:
    """The content of a file, mapped into memory."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise _unreadable(path, error) from error


def read_open(path: Path) -> memoryview:
    """The content of a file that is being written. It is copied: a mapped file may be truncated."""
    try:
        return memoryview(path.read_bytes())
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> RecordingError:
    failure = RecordingError(f"cannot read {path}: {error.strerror or error}")
    if isinstance(error, PermissionError):
        failure.hint = "get permission to read it"
    else:
        failure.hint = "check the folder with `skerry record verify DIR`"
    return failure


# -- the bytes of batches


_FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""Limit of one request, unless a single batch is larger. The overhead of a further request is about
a hundredth of the time that so many bytes take."""
_BRIDGED_BYTES_MAX: Final = 256 * 1024
"""Up to so many unneeded bytes between two batches are fetched to save a request."""


def read_blocks(
    segment: Segment, batches: Iterable[RecordedBatch]
) -> Iterator[tuple[RecordedBatch, memoryview]]:
    """The bytes of each of these batches, fewer if the file ends too early.

    A local file is mapped into memory and not copied. From a remote file only the requested batches
    are fetched: adjacent ones in one request, up to a limit so that little is fetched ahead.
    RecordingError if the file does not exist or cannot be read.
    """
    if isinstance(segment.folder, Path):
        yield from cut_blocks(map_file(segment.path), batches)
        return
    try:
        yield from fetch_blocks(segment, batches)
    except FileNotFoundError as error:
        raise _missing(segment) from error


def cut_blocks(
    data: memoryview, batches: Iterable[RecordedBatch]
) -> Iterator[tuple[RecordedBatch, memoryview]]:
    """The bytes of each of these batches, cut from the bytes of the segment."""
    for batch in batches:
        yield batch, data[batch.offset : batch.stop]


def fetch_blocks(
    segment: Segment, batches: Iterable[RecordedBatch]
) -> Iterator[tuple[RecordedBatch, memoryview]]:
    """The bytes of batches of a remote segment; FileNotFoundError if it does not exist."""
    path = RemotePath(segment.uri)
    for group in _groups(batches):
        first = group[0].offset
        with store_errors("cannot read", path, RecordingError):
            data = memoryview(path.read(first, group[-1].stop))
        for batch in group:
            yield batch, data[batch.offset - first : batch.stop - first]


def _groups(batches: Iterable[RecordedBatch]) -> Iterator[list[RecordedBatch]]:
    """Batches that are fetched in one request."""
    group: list[RecordedBatch] = []
    for batch in batches:
        if group and not _is_near(group, batch):
            yield group
            group = []
        group.append(batch)
    if group:
        yield group


def _is_near(group: list[RecordedBatch], batch: RecordedBatch) -> bool:
    is_next = 0 <= batch.offset - group[-1].stop <= _BRIDGED_BYTES_MAX
    return is_next and batch.stop - group[0].offset <= _FETCH_BYTES_MAX


def _missing(segment: Segment) -> RecordingError:
    error = RecordingError(f"cannot read {segment.uri}: there is no such file")
    error.hint = "copy it there; copy a manifest after the segments it names"
    return error
