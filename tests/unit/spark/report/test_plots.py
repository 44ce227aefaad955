"""Plots that take their colours from the page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from skerry.spark.report.findings import Latency, Line, TimeSteps
from skerry.spark.report.plots import COLORS, latency_plot, loss_plot, rates_plot

pytestmark = pytest.mark.slow
STEPS = TimeSteps(first=1_789_992_000, count=4, seconds=1)


def checked(svg: str) -> ET.Element:
    """It is one element that fits any width and knows no colour of its own."""
    element = ET.fromstring(svg)
    assert "width" not in element.attrib
    assert "height" not in element.attrib
    assert element.attrib["viewBox"]
    assert element.attrib["role"] == "img"
    assert not re.search(r"#01020|#01021", svg), "a colour was not replaced"
    return element


def texts(element: ET.Element) -> list[str]:
    return ["".join(found.itertext()) for found in element.iter("{http://www.w3.org/2000/svg}text")]


def test_each_line_has_its_colour() -> None:
    lines = [Line(name=f"type {n}", values=(1.0, 2.0, n, 4.0)) for n in range(8)]
    svg = rates_plot(lines, STEPS)
    checked(svg)
    assert all(f"var({color})" in svg for color in COLORS)


def test_names_are_in_titles_only_and_are_nothing_but_text() -> None:
    svg = rates_plot([Line(name="<script>$x^2$</script>", values=(1, 2, 3, 4))], STEPS)
    element = checked(svg)
    assert "<script" not in svg
    assert not [text for text in texts(element) if "x^2" in text]
    assert "<script>$x^2$</script>: 2/s" in titles(element)[1]


def titles(element: ET.Element) -> list[str]:
    """What is shown where the mouse stands, from left to right."""
    svg = "{http://www.w3.org/2000/svg}"
    (group,) = (g for g in element.iter(f"{svg}g") if g.get("class") == "hover")
    strips = list(group)
    edges = [float(strip.attrib["x"]) for strip in strips]
    assert edges == sorted(edges)
    return [strip.findtext(f"{svg}title") or "" for strip in strips]


def test_values_are_shown_on_hover() -> None:
    latency = Latency(
        p50=(1.0, None, 1.0, 1.5),
        p90=(2.0, None, 2.0, 2.5),
        p99=(3.0, None, 3.0, 4.0),
        is_exact=True,
    )
    first, second, *_ = titles(checked(latency_plot(latency, STEPS)))
    assert first.splitlines() == [
        "2026-09-21 12:00:00",
        "median: 1 ms",
        "p90: 2 ms",
        "p99: 3 ms",
    ]
    assert second == "2026-09-21 12:00:01"
    assert titles(checked(loss_plot([0, 7, 0, 1], STEPS)))[1].endswith("7 missing")


def test_single_step_is_drawn() -> None:
    steps = TimeSteps(first=1_789_992_000, count=1, seconds=1)
    checked(rates_plot([Line(name="a", values=(5,))], steps))
    checked(latency_plot(Latency(p50=(1.0,), p90=(2.0,), p99=(3.0,), is_exact=True), steps))
    checked(loss_plot([7], steps))


def test_latency_is_missing_in_steps_without_updates() -> None:
    latency = Latency(
        p50=(1.0, None, 1.0, 1.5),
        p90=(2.0, None, 2.0, 2.5),
        p99=(3.0, None, 3.0, 4.0),
        is_exact=True,
    )
    element = checked(latency_plot(latency, STEPS))
    assert "milliseconds" in texts(element)


def test_few_slow_moments_do_not_hide_the_others() -> None:
    slow = Latency(p50=(1.0,) * 4, p90=(2.0,) * 4, p99=(3.0, 3.0, 3.0, 9000.0), is_exact=True)
    assert "1k" in " ".join(texts(checked(latency_plot(slow, STEPS)))), "the scale is by decades"
    behind = Latency(p50=(-5.0,) * 4, p90=(-2.0,) * 4, p99=(0.0,) * 4, is_exact=True)
    checked(latency_plot(behind, STEPS))


def test_equal_findings_make_equal_plots() -> None:
    assert loss_plot([0, 3, 0, 0], STEPS) == loss_plot([0, 3, 0, 0], STEPS)
