"""Metrics of programs with a few numbers: the recorder and the pipeline."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from skerry.observe.metrics import scrape
from skerry.observe.number_metrics import (
    PIPELINE_METRICS,
    RECORDER_METRICS,
    NumberCollector,
    PipelineStatistics,
    RecorderStatistics,
    number_registry,
    pipeline_registry,
    recorder_registry,
)

TEXTS = {"skerry_cups_total": "Cups that were drunk.", "skerry_cups_waiting": "Cups on the table."}


def test_names_with_total_are_counters() -> None:
    now = SimpleNamespace(cups=3.0, cups_waiting=2)
    text = scrape(number_registry("skerry_", TEXTS, lambda: now)).decode()
    assert "# TYPE skerry_cups_total counter" in text
    assert "# HELP skerry_cups_waiting Cups on the table." in text
    assert "skerry_cups_total 3.0" in text
    assert "skerry_cups_waiting 2.0" in text
    assert "process_start_time_seconds" in text, "and so is the process"


def test_missing_number_is_an_error() -> None:
    with pytest.raises(AttributeError):
        list(NumberCollector("skerry_", TEXTS, object).collect())


def test_every_metric_of_a_recorder_is_made_and_no_other() -> None:
    made = {metric.name for metric in recorder_registry(RecorderStatistics).collect()}
    ours = {name for name in made if name.startswith("skerry_")}
    assert ours == {name.removesuffix("_total") for name in RECORDER_METRICS}


def test_numbers_of_one_scrape_are_those_of_the_recorder() -> None:
    now = RecorderStatistics(updates=7, rows=9, queued_bytes=11, trouble="no room")
    text = scrape(recorder_registry(lambda: now)).decode()
    assert "skerry_recorder_updates_total 7.0" in text
    assert "skerry_recorder_rows_total 9.0" in text
    assert "skerry_recorder_queued_bytes 11.0" in text
    assert "skerry_recorder_is_failing 1.0" in text


def test_every_metric_of_the_pipeline_is_made_and_no_other() -> None:
    made = {metric.name for metric in pipeline_registry(PipelineStatistics).collect()}
    ours = {name for name in made if name.startswith("skerry_")}
    assert ours == {name.removesuffix("_total") for name in PIPELINE_METRICS}


def test_numbers_of_one_scrape_are_those_of_the_job() -> None:
    now = PipelineStatistics(
        batches=3, rows=1000, backlog_rows=50, batch_seconds=1.5, is_running=True
    )
    text = scrape(pipeline_registry(lambda: now)).decode()
    assert "skerry_pipeline_batches_total 3.0" in text
    assert "skerry_pipeline_rows_total 1000.0" in text
    assert "skerry_pipeline_backlog_rows 50.0" in text
    assert "skerry_pipeline_batch_seconds 1.5" in text
    assert "skerry_pipeline_is_running 1.0" in text
