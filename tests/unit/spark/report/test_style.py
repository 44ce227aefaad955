"""The style of the page."""

from __future__ import annotations

import re

from skerry.spark.report.plots import COLORS
from skerry.spark.report.style import STYLE


def test_all_colours_are_in_the_light_and_the_dark_theme() -> None:
    day, _, night = STYLE.partition("prefers-color-scheme: dark")
    used = {*re.findall(r"var\((--[\w-]+)\)", STYLE), *COLORS} - {"--share"}
    for name in used:
        assert f"{name}:" in day
        assert f"{name}:" in night.split("}")[0], name


def test_nothing_is_loaded() -> None:
    assert "url(" not in STYLE
    assert "@import" not in STYLE
