"""Files of segments: the one that is being written, and reading existing ones."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from pathlib import Path

from skerry.errors import RecordingError
from skerry.recording.format import END_OF_STREAM, encode_block, encode_head, to_record_batch
from skerry.recording.index import (
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
