"""Keeps the tables up to date with recordings that are being written, until it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Final

from skerry.spark.jobs.loop import Loop, Progress
from skerry.spark.lake.lake import Lake

INTERVAL_S: Final = 1.0
"""Minimum time from the start of one batch to the start of the next."""
DERIVED_INTERVAL_S: Final = 60.0
"""Derived tables have figures by the minute, so a shorter interval gains nothing."""


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
    """Keep the tables up to date until `is_stopping` returns true.

    Recorders see `name` as the name of a follower, and do not delete segments it has not read.
    """
    loop = Loop(
        lake,
        recordings,
        batch_bytes=batch_bytes,
        follower=name,
        interval_s=interval_s,
        derived_interval_s=derived_interval_s,
    )
    return loop.run(on_progress=on_progress, is_stopping=is_stopping)
