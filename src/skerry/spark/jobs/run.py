"""All there is, then end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike

from skerry.spark.jobs.loop import Loop, Progress
from skerry.spark.lake.lake import Lake

__all__ = ["run_all"]


def run_all(
    lake: Lake,
    recordings: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    on_progress: Callable[[Progress], None] | None = None,
    is_stopping: Callable[[], bool] | None = None,
    batch_bytes: int | None = None,
) -> Progress:
    """Bring everything that is recorded and sealed into the tables; goes on where it was left."""
    loop = Loop(lake, recordings, batch_bytes=batch_bytes)
    return loop.run(on_progress=on_progress, is_stopping=is_stopping)
