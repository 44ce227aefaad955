"""What is recorded from now on, and before, until it is to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Final

from skerry.spark.jobs.loop import Loop, Progress
from skerry.spark.lake.lake import Lake

__all__ = ["DERIVED_INTERVAL_S", "INTERVAL_S", "follow"]

INTERVAL_S: Final = 1.0
"""From the start of one batch to that of the next, if there is something to do."""
DERIVED_INTERVAL_S: Final = 60.0
"""Derived tables have figures by the minute."""


def follow(
    lake: Lake,
    recordings: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    is_stopping: Callable[[], bool],
    on_progress: Callable[[Progress], None] | None = None,
    interval_s: float = INTERVAL_S,
    derived_interval_s: float = DERIVED_INTERVAL_S,
    batch_bytes: int | None = None,
    name: str = "pipeline",
) -> Progress:
    """Keep the tables up to date; by `name`, recorders see that they are followed."""
    loop = Loop(
        lake,
        recordings,
        batch_bytes=batch_bytes,
        follower=name,
        interval_s=interval_s,
        derived_interval_s=derived_interval_s,
    )
    return loop.run(on_progress=on_progress, is_stopping=is_stopping)
