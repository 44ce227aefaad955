"""The result of a benchmark: rows that compare a figure of ours with that of a peer.

A benchmark is a file in `micro/` (one module) or `macro/` (throughput, latency) with a function
`run() -> list[Row]`. `make bench` calls it twice, in a process with the compiled build and in one
with the uncompiled build. Goals apply to the compiled build only, so a benchmark does not depend on
the build. Measure ours and theirs in turns (`best_of`), because the machine is shared: ratios
within one run are comparable, figures of two runs are not.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Row", "best_of", "row_as_json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One comparison. `ratio` is ours / theirs. Without a peer, `goal` applies to ours itself."""

    name: str
    ours: float
    unit: str
    """Unit of both figures, such as `ns`, `us`, `1/s`, `MB`."""
    theirs: float | None = None
    peer: str = ""
    goal: float | None = None
    is_less_better: bool = False
    """Whether the goal is an upper bound (times, sizes) instead of a lower one (rates)."""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.theirs if self.theirs else None

    @property
    def is_met(self) -> bool | None:
        """Whether the goal was reached. None without a goal."""
        if self.goal is None:
            return None
        figure = self.ours if self.ratio is None else self.ratio
        return figure <= self.goal if self.is_less_better else figure >= self.goal


def row_as_json(row: Row, mode: str) -> dict[str, Any]:
    """A row of `results/latest.json`. The uncompiled build has no goals."""
    has_goal = mode == "compiled"
    return {
        "name": row.name,
        "mode": mode,
        "ours": row.ours,
        "theirs": row.theirs,
        "peer": row.peer,
        "unit": row.unit,
        "ratio": row.ratio,
        "goal": row.goal if has_goal else None,
        "met": row.is_met if has_goal else None,
    }


def best_of(
    *functions: Callable[[], object], seconds: float = 2.0, batch_ns_min: int = 5_000_000
) -> list[float]:
    """CPU nanoseconds per call of each function, the best of many batches run in turns.

    The best is the one that others on the machine disturbed least.
    """
    counts = [_batch_count(function, batch_ns_min) for function in functions]
    best = [float("inf")] * len(functions)
    stop_ns = time.perf_counter_ns() + int(seconds * 1e9)
    while time.perf_counter_ns() < stop_ns:
        for index, (function, count) in enumerate(zip(functions, counts, strict=True)):
            best[index] = min(best[index], _batch_ns(function, count) / count)
    return best


def _batch_count(function: Callable[[], object], batch_ns_min: int) -> int:
    count = 1
    while _batch_ns(function, count) < batch_ns_min:
        count *= 2
    return count


def _batch_ns(function: Callable[[], object], count: int) -> int:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        started_ns = time.process_time_ns()
        for _ in range(count):
            function()
        return time.process_time_ns() - started_ns
    finally:
        if was_enabled:
            gc.enable()
