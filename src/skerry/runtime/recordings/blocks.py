"""The bytes of batches, wherever their segment lies.

A file of this computer is mapped, and nothing is copied. Of one that is elsewhere only the parts
are fetched that are asked for: batches that lie close together at once, and never much more than
is looked at next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from skerry.errors import RecordingError
from skerry.recording.index import RecordedBatch, Segment
from skerry.runtime.recordings.remote_paths import RemotePath, told
from skerry.runtime.recordings.segment_files import map_file

__all__ = ["cut_blocks", "fetch_blocks", "read_blocks"]

_FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""Fetched at once, unless a single batch has more: to ask again takes a hundredth of that time."""
_BRIDGED_BYTES_MAX: Final = 256 * 1024
"""Between two batches so much is fetched for nothing rather than asked for anew."""


def read_blocks(
    segment: Segment, batches: Iterable[RecordedBatch]
) -> Iterator[tuple[RecordedBatch, memoryview]]:
    """The bytes of each of these batches, fewer where the file ends before.

    RecordingError if there is no such file, or it cannot be read.
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
    """The same where the bytes of the segment are known."""
    for batch in batches:
        yield batch, data[batch.offset : batch.stop]


def fetch_blocks(
    segment: Segment, batches: Iterable[RecordedBatch]
) -> Iterator[tuple[RecordedBatch, memoryview]]:
    """The same of a segment that is elsewhere; FileNotFoundError if it is not there."""
    place = RemotePath(segment.place)
    for group in _groups(batches):
        first = group[0].offset
        with told("cannot read", place, RecordingError):
            data = memoryview(place.read(first, group[-1].stop))
        for batch in group:
            yield batch, data[batch.offset - first : batch.stop - first]


def _groups(batches: Iterable[RecordedBatch]) -> Iterator[list[RecordedBatch]]:
    """Batches that are fetched at once."""
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
    error = RecordingError(f"cannot read {segment.place}: there is no such file")
    error.hint = "copy it there; a manifest is to be copied after the segments it names"
    return error
