"""What is recorded from now on, and before, until told to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike

from skerry.spark.jobs.stream import BATCH_ROWS, Progress, Stream
from skerry.spark.lake import Lake

__all__ = ["follow"]


def follow(
    lake: Lake,
    recordings: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    is_stopping: Callable[[], bool],
    on_progress: Callable[[Progress], None] | None = None,
    interval_s: float = 5.0,
    batch_rows: int = BATCH_ROWS,
    name: str = "pipeline",
) -> Progress:
    """Keep the tables up to date; by `name`, recorders see that they are followed."""
    stream = Stream(lake, recordings, batch_rows=batch_rows, follower=name)
    trigger = {"processingTime": f"{max(1, round(interval_s * 1000))} milliseconds"}
    return stream.run(trigger, on_progress=on_progress, is_stopping=is_stopping)
