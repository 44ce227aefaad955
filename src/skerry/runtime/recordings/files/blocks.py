"""The bytes of batches, from local and remote segments.

A local file is mapped into memory and not copied. From a remote file only the requested batches are
fetched: adjacent ones in one request, up to a limit so that little is fetched ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from skerry.errors import RecordingError
from skerry.recording.index import RecordedBatch, Segment
from skerry.runtime.recordings.files.remote_paths import RemotePath, store_errors
from skerry.runtime.recordings.files.segment_files import map_file

_FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""Limit of one request, unless a single batch is larger. The overhead of a further request is about
a hundredth of the time that so many bytes take."""
_BRIDGED_BYTES_MAX: Final = 256 * 1024
"""Up to so many unneeded bytes between two batches are fetched to save a request."""


def read_blocks(
    segment: Segment, batches: Iterable[RecordedBatch]
) -> Iterator[tuple[RecordedBatch, memoryview]]:
    """The bytes of each of these batches, fewer if the file ends too early.

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
