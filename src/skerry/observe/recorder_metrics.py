"""Metrics of a recorder in the text form of Prometheus, made from its numbers when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry

from skerry.observe.number_metrics import number_registry

__all__ = ["RECORDER_METRICS", "RecorderStatistics", "recorder_registry"]

RECORDER_METRICS: Final[Mapping[str, str]] = {
    "skerry_recorder_updates_total": "Updates that came.",
    "skerry_recorder_rows_total": "Rows that were written, those of types and gaps included.",
    "skerry_recorder_bytes_total": "Bytes of these.",
    "skerry_recorder_gaps_total": "Gaps that were recorded.",
    "skerry_recorder_lost_rows_total": "Rows dropped: the disk was full, failed or too slow.",
    "skerry_recorder_disconnects_total": "How often the connection to the node was lost.",
    "skerry_recorder_dropped_segments_total": "Segments dropped for their age or size.",
    "skerry_recorder_queued_bytes": "Bytes of rows that wait to be written.",
    "skerry_recorder_is_failing": "1 while the last attempt to write failed, else 0.",
}
"""Every metric of a recorder, and its help text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderStatistics:
    """A recorder at one instant."""

    updates: int = 0
    rows: int = 0
    bytes: int = 0
    gaps: int = 0
    lost_rows: int = 0
    disconnects: int = 0
    dropped_segments: int = 0
    queued_bytes: int = 0
    trouble: str = ""
    """Why the last attempt to write failed; empty when it did not."""


def recorder_registry(statistics: Callable[[], RecorderStatistics]) -> CollectorRegistry:
    """All metrics of a recorder and its process, of which a scrape is made."""
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
