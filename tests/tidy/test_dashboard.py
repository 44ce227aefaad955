"""The dashboard for Grafana: its metrics and labels exist, and it shows every kind of program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from skerry.observe.metrics import GROUP_METRICS, METRICS
from skerry.observe.number_metrics import PIPELINE_METRICS, RECORDER_METRICS
from skerry.observe.system_metrics import SYSTEM_METRICS

PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
"""Metrics that the Prometheus client makes."""


@pytest.fixture(scope="module")
def panels() -> list[Any]:
    page = Path(__file__).resolve().parents[2] / "examples" / "grafana" / "skerry.json"
    return list(json.loads(page.read_text(encoding="utf-8"))["panels"])


def expressions(panels: list[Any]) -> list[str]:
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def test_each_metric_of_the_dashboard_exists(panels: list[Any]) -> None:
    known = {*METRICS, *GROUP_METRICS, *SYSTEM_METRICS, *RECORDER_METRICS, *PIPELINE_METRICS}
    found = {
        name.removesuffix("_bucket")
        for text in expressions(panels)
        for name in re.findall(r"\b(?:skerry|process)_\w+", text)
    }
    assert found - known - PROCESS == set()
    for metrics in (METRICS, SYSTEM_METRICS, RECORDER_METRICS, PIPELINE_METRICS):
        assert found & set(metrics)


def test_each_label_of_the_dashboard_exists(panels: list[Any], root: Path) -> None:
    labels: dict[str, set[str]] = {}
    page = (root / "docs/reference/metrics.md").read_text(encoding="utf-8")
    for name, cell in re.findall(r"^\| `(\w+)` \| \w+ \|([^|]*)\|", page, re.MULTILINE):
        labels[name] = set(re.findall(r"`(\w+)`", cell))
    for text in expressions(panels):
        by = re.search(r"by \((\w+)\)", text)
        (name, *_) = re.findall(r"\b(?:skerry|process)_\w+", text)
        if by is not None and by[1] not in ("le", "instance"):
            assert by[1] in labels[name], text


def test_panels_have_distinct_numbers_and_do_not_overlap(panels: list[Any]) -> None:
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
