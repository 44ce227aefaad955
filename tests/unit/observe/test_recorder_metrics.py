"""Metrics of a recorder."""

from __future__ import annotations

from skerry.observe.metrics import scrape
from skerry.observe.recorder_metrics import (
    RECORDER_METRICS,
    RecorderStatistics,
    _numbers,
    recorder_registry,
)


def test_every_metric_is_made_and_no_other() -> None:
    made = {metric.name for metric in recorder_registry(RecorderStatistics).collect()}
    ours = {name for name in made if name.startswith("skerry_")}
    assert ours == {name.removesuffix("_total") for name in RECORDER_METRICS}
    assert _numbers(RecorderStatistics()).keys() == RECORDER_METRICS.keys()


def test_numbers_of_one_scrape_are_those_of_the_recorder() -> None:
    now = RecorderStatistics(updates=7, rows=9, queued_bytes=11, trouble="no room")
    text = scrape(recorder_registry(lambda: now)).decode()
    assert "skerry_recorder_updates_total 7.0" in text
    assert "skerry_recorder_rows_total 9.0" in text
    assert "skerry_recorder_queued_bytes 11.0" in text
    assert "skerry_recorder_is_failing 1.0" in text
