"""Metrics of the pipeline."""

from __future__ import annotations

from skerry.observe.metrics import written
from skerry.observe.pipeline_metrics import (
    PIPELINE_METRICS,
    PipelineCollector,
    PipelineStatistics,
    pipeline_registry,
)


def test_every_metric_is_made_and_no_other() -> None:
    made = {metric.name for metric in PipelineCollector(PipelineStatistics).collect()}
    assert made == {name.removesuffix("_total") for name in PIPELINE_METRICS}


def test_numbers_of_one_scrape_are_those_of_the_job() -> None:
    now = PipelineStatistics(batches=3, rows=1000, backlog_rows=50, batch_s=1.5, is_running=True)
    text = written(pipeline_registry(lambda: now)).decode()
    assert "skerry_pipeline_batches_total 3.0" in text
    assert "skerry_pipeline_rows_total 1000.0" in text
    assert "skerry_pipeline_backlog_rows 50.0" in text
    assert "skerry_pipeline_batch_seconds 1.5" in text
    assert "skerry_pipeline_is_running 1.0" in text
