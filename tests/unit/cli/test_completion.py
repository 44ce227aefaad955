"""`skerry completion`, and completion of type names as a shell requests it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.cli.program import COMPLETE_VARIABLE

Complete = Callable[..., list[str]]
Run = Callable[..., Any]


@pytest.fixture
def complete(
    clean_place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Complete:
    from skerry.cli.main import main

    def completed(*arguments: str) -> list[str]:
        monkeypatch.setenv(COMPLETE_VARIABLE, "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(["skerry", *arguments]))
        monkeypatch.setenv("COMP_CWORD", str(len(arguments)))
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


def test_a_wrong_endpoint_does_not_stand_for_the_default_node(
    complete: Complete, node: Any
) -> None:
    types = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; }")
    with skerry.connect(node.place) as space:
        space.publish(types.Vessel(mmsi=1))
        space.flush()
    assert complete("get", "V") == ["Vessel"]
    assert complete("get", "--node", "what", "V") == []
    assert complete("get", "--context", "what", "V") == []


def test_commands_are_completed(complete: Complete) -> None:
    assert complete("do") == ["doctor"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_calls_skerry_for_completions(run: Run, shell: str) -> None:
    done = run("completion", shell)
    assert done.code == 0
    assert f"_SKERRY_COMPLETE={shell}_complete" in done.out
    assert "%(" not in done.out


def test_bash_accepts_its_script(run: Run) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    script = run("completion", "bash").out
    result = subprocess.run(
        [bash, "-c", f"{script}\ncomplete -p skerry"], capture_output=True, text=True
    )
    assert "_skerry_completion" in result.stdout, result.stderr


def test_unknown_shell_is_a_usage_error(run: Run) -> None:
    assert run("completion", "tcsh").code == 2
