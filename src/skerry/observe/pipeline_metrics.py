"""Metrics of the pipeline for Prometheus, made from its statistics for each scrape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry

from skerry.observe.number_metrics import number_registry

PIPELINE_METRICS: Final[Mapping[str, str]] = {
    "skerry_pipeline_batches_total": "Batches written to the tables.",
    "skerry_pipeline_rows_total": "Recorded rows in the written batches.",
    "skerry_pipeline_backlog_rows": "Recorded rows in sealed segments that are not written yet.",
    "skerry_pipeline_rows_per_second": "Rows per second of the last batch.",
    "skerry_pipeline_batch_seconds": "Duration of the last batch in seconds.",
    "skerry_pipeline_last_batch_timestamp_seconds": "Time of the last batch; 0 before the first.",
    "skerry_pipeline_is_running": "1 while the job runs, else 0.",
}
"""The metrics of the pipeline, and their help texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatistics:
    """A job of the pipeline at one instant."""

    batches: int = 0
    rows: int = 0
    backlog_rows: int = 0
    rows_per_second: float = 0.0
    batch_s: float = 0.0
    last_batch_s: float = 0.0
    """Wall time in seconds since 1970."""
    is_running: bool = False


def pipeline_registry(statistics: Callable[[], PipelineStatistics]) -> CollectorRegistry:
    """The registry with the metrics of a job and its process."""
    return number_registry(PIPELINE_METRICS, lambda: _numbers(statistics()))


def _numbers(now: PipelineStatistics) -> dict[str, float]:
    return {
        "skerry_pipeline_batches_total": now.batches,
        "skerry_pipeline_rows_total": now.rows,
        "skerry_pipeline_backlog_rows": now.backlog_rows,
        "skerry_pipeline_rows_per_second": now.rows_per_second,
        "skerry_pipeline_batch_seconds": now.batch_s,
        "skerry_pipeline_last_batch_timestamp_seconds": now.last_batch_s,
        "skerry_pipeline_is_running": int(now.is_running),
    }
