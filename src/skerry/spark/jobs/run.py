"""All there is, then end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike

from skerry.spark.jobs.stream import BATCH_ROWS, Progress, Stream
from skerry.spark.lake import Lake

__all__ = ["run_all"]


def run_all(
    lake: Lake,
    recordings: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    on_progress: Callable[[Progress], None] | None = None,
    is_stopping: Callable[[], bool] | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Progress:
    """Bring everything that is recorded and sealed into the tables; goes on where it was left."""
    stream = Stream(lake, recordings, batch_rows=batch_rows)
    return stream.run({"availableNow": True}, on_progress=on_progress, is_stopping=is_stopping)
