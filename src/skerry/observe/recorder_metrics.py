"""Metrics of a recorder for Prometheus, made from its statistics for each scrape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry

from skerry.observe.number_metrics import number_registry

RECORDER_METRICS: Final[Mapping[str, str]] = {
    "skerry_recorder_updates_total": "Updates received.",
    "skerry_recorder_rows_total": "Rows written, including descriptions of types and gaps.",
    "skerry_recorder_bytes_total": "Bytes written.",
    "skerry_recorder_gaps_total": "Gaps recorded.",
    "skerry_recorder_lost_rows_total": "Rows dropped: the disk was full, failed or too slow.",
    "skerry_recorder_disconnects_total": "Times the connection to the node was lost.",
    "skerry_recorder_dropped_segments_total": "Segments dropped for their age or size.",
    "skerry_recorder_queued_bytes": "Bytes of rows waiting to be written.",
    "skerry_recorder_is_failing": "1 while the last attempt to write failed, else 0.",
}
"""The metrics of a recorder, and their help texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderStatistics:
    """The counters of a recorder at one instant."""

    updates: int = 0
    rows: int = 0
    bytes: int = 0
    gaps: int = 0
    lost_rows: int = 0
    disconnects: int = 0
    dropped_segments: int = 0
    queued_bytes: int = 0
    trouble: str = ""
    """Why the last attempt to write failed; empty if it succeeded."""


def recorder_registry(statistics: Callable[[], RecorderStatistics]) -> CollectorRegistry:
    """The registry with the metrics of a recorder and its process."""
    return number_registry(RECORDER_METRICS, lambda: _numbers(statistics()))


def _numbers(now: RecorderStatistics) -> dict[str, float]:
    return {
        "skerry_recorder_updates_total": now.updates,
        "skerry_recorder_rows_total": now.rows,
        "skerry_recorder_bytes_total": now.bytes,
        "skerry_recorder_gaps_total": now.gaps,
        "skerry_recorder_lost_rows_total": now.lost_rows,
        "skerry_recorder_disconnects_total": now.disconnects,
        "skerry_recorder_dropped_segments_total": now.dropped_segments,
        "skerry_recorder_queued_bytes": now.queued_bytes,
        "skerry_recorder_is_failing": int(bool(now.trouble)),
    }
