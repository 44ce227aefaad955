"""Metrics of the pipeline."""

from __future__ import annotations

from skerry.observe.metrics import scrape
from skerry.observe.pipeline_metrics import (
    PIPELINE_METRICS,
    PipelineStatistics,
    _numbers,
    pipeline_registry,
)


def test_every_metric_is_made_and_no_other() -> None:
    made = {metric.name for metric in pipeline_registry(PipelineStatistics).collect()}
    ours = {name for name in made if name.startswith("skerry_")}
    assert ours == {name.removesuffix("_total") for name in PIPELINE_METRICS}
    assert _numbers(PipelineStatistics()).keys() == PIPELINE_METRICS.keys()


def test_numbers_of_one_scrape_are_those_of_the_job() -> None:
    now = PipelineStatistics(batches=3, rows=1000, backlog_rows=50, batch_s=1.5, is_running=True)
    text = scrape(pipeline_registry(lambda: now)).decode()
    assert "skerry_pipeline_batches_total 3.0" in text
    assert "skerry_pipeline_rows_total 1000.0" in text
    assert "skerry_pipeline_backlog_rows 50.0" in text
    assert "skerry_pipeline_batch_seconds 1.5" in text
    assert "skerry_pipeline_is_running 1.0" in text
