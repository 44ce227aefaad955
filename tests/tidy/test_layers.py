"""Layers: the contracts of the import linter speak of all there is, and the picture shows them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def contracts(root: Path) -> dict[str, Any]:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    rows = settings["tool"]["importlinter"]["contracts"]
    return {row["name"]: row for row in rows}


def parts_of_the_package(sources: list[Any]) -> set[str]:
    return {source.parts[0] for source in sources if source.parts} - {"__main__"}


def test_the_picture_shows_the_layers_that_are_checked(
    root: Path, contracts: dict[str, Any], sources: list[Any]
) -> None:
    there = parts_of_the_package(sources)
    rows = [re.findall(r"\w+", row) for row in contracts["imports point down"]["layers"]]
    layers = [present for row in rows if (present := [name for name in row if name in there])]
    text = (root / "docs" / "decisions" / "layers.md").read_text(encoding="utf-8")
    picture = re.search(r"```text\n(.*?)```", text, re.DOTALL)
    assert picture is not None
    assert [row.split() for row in picture[1].splitlines()] == layers


def test_nothing_but_the_test_kit_is_left_out_where_its_use_is_forbidden(
    contracts: dict[str, Any], sources: list[Any]
) -> None:
    contract = contracts["the test kit is for `skerry sim` and for tests"]
    listed = {name.removeprefix("skerry.") for name in contract["source_modules"]}
    assert listed == parts_of_the_package(sources) - {"testing"}


def test_all_protocols_are_independent_of_each_other(
    contracts: dict[str, Any], sources: list[Any]
) -> None:
    packages = {
        source.name
        for source in sources
        if source.is_package and source.parts[:-1] == ("protocol",)
    }
    layers = contracts["protocols do not import each other"]["layers"]
    named = {f"skerry.protocol.{name}" for layer in layers for name in layer.split(" | ")}
    assert named == packages
