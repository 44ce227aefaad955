"""Merges everything that is recorded into the tables, then ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike

from skerry.spark.jobs.loop import Loop, Progress
from skerry.spark.lake.lake import Lake


def run_all(
    lake: Lake,
    recordings: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    on_progress: Callable[[Progress], None] | None = None,
    is_stopping: Callable[[], bool] | None = None,
    batch_bytes: int | None = None,
) -> Progress:
    """Merge all sealed segments into the tables, starting after the last committed batch."""
    loop = Loop(lake, recordings, batch_bytes=batch_bytes)
    return loop.run(on_progress=on_progress, is_stopping=is_stopping)
