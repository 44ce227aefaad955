"""Segments with bytes that are not those that were written.

Typed rows pass over a damaged batch; what is missing is said in `raw`. So each segment is checked
before, by a walk over its bytes, where there are many by the executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from skerry.recording.index import NO_CRC, Segment
from skerry.runtime.recordings.blocks import read_blocks
from skerry.runtime.recordings.reader import is_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["damaged_segments", "is_damaged"]

_BYTES_HERE_MAX: Final = 64 * 1024 * 1024
"""So much is checked sooner by the driver than by a job."""


def damaged_segments(spark: SparkSession, segments: Sequence[Segment]) -> set[str]:
    """Names of the segments that have a damaged batch."""
    if sum(segment.byte_count for segment in segments) <= _BYTES_HERE_MAX:
        return {segment.name for segment in segments if is_damaged(segment)}
    context = spark.sparkContext
    found = context.parallelize(segments, len(segments)).filter(is_damaged).collect()
    return {segment.name for segment in found}


def is_damaged(segment: Segment) -> bool:
    """Whether a batch of the segment is damaged; RecordingError if there is no such file."""
    blocks = read_blocks(segment, segment.batches)
    return not all(noted.crc != NO_CRC and is_whole(block, noted) for noted, block in blocks)
