"""Finds the batches of a segment by scanning its bytes, for segments that are not in a manifest.

Bytes between two complete batches are damaged, and become a batch without a CRC. Every batch has
the id of its recording and the numbers of its segment and of itself. So bytes of another origin are
not mistaken for a batch, and a missing batch is detected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from skerry.errors import RecordingError
from skerry.recording.format import END_OF_STREAM, MARK, Block, block_at, decode_block, head_at
from skerry.recording.index import SegmentContent, batch_of_rows, damaged_content


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    recording: str
    """Id of the recording; empty if neither the header nor a batch has it."""
    number: int
    contents: tuple[SegmentContent, ...]
    """The batches in order, including damaged ones."""
    stop: int
    """End of the last complete batch."""
    tail: int
    """Number of bytes after that, without the end marker."""
    has_end: bool


def scan(data: memoryview) -> Scan:
    """Find the complete batches of a segment."""
    head = head_at(data)
    owner = None if head is None else (head.recording, head.segment)
    # The size in a damaged header cannot be trusted.
    stop = 0 if head is None else head.stop
    has_end = len(data) % 8 == 0 and bytes(data[-len(END_OF_STREAM) :]) == END_OF_STREAM
    end = len(data) - len(END_OF_STREAM) if has_end else len(data)
    found: list[SegmentContent] = []
    number = 0
    while (block := _next_block(data[:end], stop, owner)) is not None:
        if block.batch > number:
            found.append(damaged_content(stop, block.start))
        owner, number = (block.recording, block.segment), block.batch + 1
        found.append(_content(data, block))
        stop = block.stop
    recording, segment = owner if owner is not None else ("", 0)
    return Scan(
        recording=recording,
        number=segment,
        contents=tuple(found),
        stop=stop,
        tail=max(0, end - stop),
        has_end=has_end,
    )


_MARK_BITS: Final = np.uint64(int.from_bytes(MARK, "little"))
_METADATA_BYTES_MAX: Final = 65536
"""Limit for the metadata of one message. That of a recorded batch has about a kilobyte."""
_SEARCH_WORDS: Final = 131_072
"""Number of words that are searched at once: one megabyte."""


def _next_block(data: memoryview, start: int, owner: tuple[str, int] | None) -> Block | None:
    """The first complete block of this segment at `start` or later."""
    block = block_at(data, start)
    if block is not None and _belongs(block, owner):
        return block
    for offset in _likely_starts(data, start + 1):
        block = block_at(data, offset)
        # A payload may contain a recording, too; only blocks of this segment count.
        if block is not None and _belongs(block, owner):
            return block
    return None


def _likely_starts(data: memoryview, start: int) -> Iterator[int]:
    """Offsets at which a message may begin: a marker at a multiple of eight and a possible size."""
    offset = -(-start // 8) * 8
    while len(data) - offset >= 8:
        count = min(_SEARCH_WORDS, (len(data) - offset) // 8)
        words = np.frombuffer(data, np.uint64, count, offset)
        sizes = words >> np.uint64(32)
        is_likely = (
            (words & _MARK_BITS == _MARK_BITS) & (sizes >= 8) & (sizes <= _METADATA_BYTES_MAX)
        )
        for index in np.flatnonzero(is_likely).tolist():
            yield offset + 8 * index
        offset += 8 * count


def _belongs(block: Block, owner: tuple[str, int] | None) -> bool:
    return owner is None or (block.recording, block.segment) == owner


def _content(data: memoryview, block: Block) -> SegmentContent:
    try:
        rows = decode_block(data[block.start : block.stop], is_checked=False)
    except RecordingError:
        # The checksum is right, but the content is not a batch: no recorder wrote it.
        return damaged_content(block.start, block.stop)
    return batch_of_rows(rows, offset=block.start, size=block.stop - block.start, crc=block.crc)
