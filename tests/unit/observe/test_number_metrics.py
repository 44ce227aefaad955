"""Metrics of a program with a few numbers."""

from __future__ import annotations

import pytest

from skerry.observe.metrics import scrape
from skerry.observe.number_metrics import NumberCollector, number_registry

TEXTS = {"skerry_cups_total": "Cups that were drunk.", "skerry_cups_waiting": "Cups on the table."}


def test_names_with_total_are_counters() -> None:
    numbers = {"skerry_cups_total": 3.0, "skerry_cups_waiting": 2}
    text = scrape(number_registry(TEXTS, lambda: numbers)).decode()
    assert "# TYPE skerry_cups_total counter" in text
    assert "# HELP skerry_cups_waiting Cups on the table." in text
    assert "skerry_cups_total 3.0" in text
    assert "skerry_cups_waiting 2.0" in text
    assert "process_start_time_seconds" in text, "and so is the process"


def test_missing_number_is_an_error() -> None:
    with pytest.raises(KeyError):
        list(NumberCollector(TEXTS, dict).collect())
