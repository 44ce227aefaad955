"""Metrics of programs with a few numbers, each without labels: the recorder and the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class NumberCollector(Collector):
    """Converts statistics to metrics. `texts` has the help text of each metric, and the name after
    `prefix`, without `_total`, is that of the attribute with its value.
    """

    def __init__(
        self, prefix: str, texts: Mapping[str, str], statistics: Callable[[], object]
    ) -> None:
        self._prefix = prefix
        self._texts = texts
        self._statistics = statistics

    def collect(self) -> Iterator[Metric]:
        """The metrics of one scrape."""
        now = self._statistics()
        for name, text in self._texts.items():
            value = getattr(now, name.removeprefix(self._prefix).removesuffix("_total"))
            yield metric_family(name, text, (), [((), value)])


def number_registry(
    prefix: str, texts: Mapping[str, str], statistics: Callable[[], object]
) -> CollectorRegistry:
    """The registry with the metrics of a program and its process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NumberCollector(prefix, texts, statistics))
    ProcessCollector(registry=registry)
    return registry


def metric_family(
    name: str,
    text: str,
    labels: Iterable[str],
    values: Iterable[tuple[tuple[str, ...], float]],
) -> Metric:
    """The metrics of one name, by label values: a counter if it ends with `_total`, or a gauge."""
    family: CounterMetricFamily | GaugeMetricFamily
    if name.endswith("_total"):
        family = CounterMetricFamily(name.removesuffix("_total"), text, labels=tuple(labels))
    else:
        family = GaugeMetricFamily(name, text, labels=tuple(labels))
    for label, value in values:
        family.add_metric(label, value)
    return family


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

    @property
    def is_failing(self) -> bool:
        return bool(self.trouble)


def recorder_registry(statistics: Callable[[], RecorderStatistics]) -> CollectorRegistry:
    """The registry with the metrics of a recorder and its process."""
    return number_registry("skerry_recorder_", RECORDER_METRICS, statistics)


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
    batches: int = 0
    rows: int = 0
    backlog_rows: int = 0
    rows_per_second: float = 0.0
    batch_seconds: float = 0.0
    last_batch_timestamp_seconds: float = 0.0
    """In seconds since 1970."""
    is_running: bool = False


def pipeline_registry(statistics: Callable[[], PipelineStatistics]) -> CollectorRegistry:
    """The registry with the metrics of a job and its process."""
    return number_registry("skerry_pipeline_", PIPELINE_METRICS, statistics)
