"""Completion of the names of types, as a shell asks for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.cli.program import COMPLETE_VARIABLE

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(
    clean_place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Complete:
    from skerry.cli.main import main

    def completed(*words: str) -> list[str]:
        monkeypatch.setenv(COMPLETE_VARIABLE, "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(["skerry", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        capsys.readouterr()
        assert main([]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return [line.partition(",")[2] for line in captured.out.split()]

    return completed


def test_types_of_the_files_are_completed(complete: Complete, types: Path) -> None:
    assert complete("get", "--types", str(types), "V") == ["Vessel"]
    assert complete("sub", "--types", str(types), "H") == ["Hail"]


def test_types_of_the_node_are_completed(complete: Complete, node: Any) -> None:
    types = skerry.define_types(
        "struct Vessel { 1: [key] uint32 mmsi; 2: Part p; }"
        " struct Part [substruct_only] { 1: int32 a; }"
    )
    with skerry.connect(node.place) as space:
        space.publish(types.Vessel(mmsi=1))
        space.flush()
    assert complete("pub", "Ves") == ["Vessel"]
    assert complete("get", "P") == []


def test_without_a_node_nothing_is_completed(complete: Complete, clean_place: Path) -> None:
    assert complete("get", "--node", f"uds:{clean_place}/none", "V") == []
    assert complete("get", "--node", "what", "V") == []


def test_commands_are_completed(complete: Complete) -> None:
    assert complete("do") == ["doctor"]
