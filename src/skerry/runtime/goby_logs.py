"""Goby logs on disk."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from skerry.closing import Closing
from skerry.errors import CodecError, RecordingError, SchemaError
from skerry.protocol.portal.mapping.protobuf_types import ProtobufTypes
from skerry.recording.goby.entries import GobyLogEntry
from skerry.recording.goby.reader import GobyLogReader, LogBytes
from skerry.recording.goby.writer import Descriptors, GobyLogWriter
from skerry.runtime.recordings.files.new_files import new_file
from skerry.runtime.whole_files import read_whole

DESCRIPTOR_SET_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of a descriptor set. That of a large system has some hundred kilobytes."""

_CLOSED_MODE = 0o440
"""A finished log is read-only, as the loggers of Goby leave it."""


class GobyLogFile(Closing):
    """A log on disk, which is read any number of times."""

    def __init__(self, path: Path) -> None:
        """Raises RecordingError if the file cannot be read."""
        self.path = path
        self._mapped: mmap.mmap | None = None
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_size:
                    self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            detail = error.strerror if isinstance(error, OSError) else str(error)
            raise RecordingError(f"cannot read {path}: {detail or error}") from error

    @property
    def content(self) -> LogBytes:
        return self._mapped if self._mapped is not None else b""

    @property
    def size(self) -> int:
        return len(self.content)

    def reader(self) -> GobyLogReader:
        """A reader at the beginning of the log."""
        return GobyLogReader(self.content)

    def protobuf_types(self, *descriptor_sets: Path) -> tuple[ProtobufTypes, list[str]]:
        """The messages that the log and descriptor sets describe, and what was wrong with them."""
        types = load_descriptor_sets(descriptor_sets)
        faults: list[str] = []
        for entry in self.reader():
            if entry.is_descriptor:
                try:
                    types.add_file(entry.data)
                except (CodecError, SchemaError) as error:
                    faults.append(str(error))
        return types, faults

    def close(self) -> None:
        if self._mapped is not None:
            self._mapped.close()


def load_descriptor_sets(paths: Iterable[Path]) -> ProtobufTypes:
    """The messages of descriptor sets, as `protoc --include_imports --descriptor_set_out` makes.

    Raises RecordingError for a file that cannot be read, CodecError or SchemaError for its content.
    """
    types = ProtobufTypes()
    for path in paths:
        try:
            data = read_whole(path, bytes_max=DESCRIPTOR_SET_BYTES_MAX)
        except OSError as error:
            raise RecordingError(f"cannot read {path}: {error.strerror or error}") from error
        types.add_set(data)
    return types


@contextmanager
def new_goby_log(path: Path, descriptors: Descriptors) -> Iterator[GobyLogAppender]:
    """A new log, which has its name when it is complete; nothing is left after a failure."""
    with new_file(path) as file:
        yield GobyLogAppender(file, descriptors)
        os.fchmod(file.fileno(), _CLOSED_MODE)


class GobyLogAppender:
    """Appends entries to a new file."""

    def __init__(self, file: IO[bytes], descriptors: Descriptors) -> None:
        self._file = file
        self._writer = GobyLogWriter(descriptors)
        self.entry_count = 0
        self.byte_count = 0
        self._write(self._writer.head())

    def append(self, entry: GobyLogEntry) -> None:
        """Append an entry; errors as those of `GobyLogWriter.encode`, and OSError."""
        self._write(self._writer.encode(entry))
        self.entry_count += 1

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self.byte_count += len(data)
