"""Command lines run in this process, without the configuration of the user."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pytest

from skerry.cli.main import main


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def clean_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with no configuration around."""
    for name in list(os.environ):
        if name.startswith(("SKERRY_", "DOTS_")) and name != "SKERRY_TEST_MODE":
            monkeypatch.delenv(name)
    for name in ("NO_COLOR", "FORCE_COLOR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SKERRY_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(clean_place: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs `skerry` with the arguments given."""

    def run_command(*arguments: str | Path) -> Done:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Done(code=code, out=captured.out, err=captured.err)

    return run_command


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Gives a standard input that has this to read, and then ends."""
    opened: list[TextIO] = []

    def feed(content: bytes) -> None:
        reading, writing = os.pipe()
        # The pipe is not read yet, but has room for all of it.
        assert os.write(writing, content) == len(content)
        os.close(writing)
        opened.append(os.fdopen(reading))
        monkeypatch.setattr("sys.stdin", opened[-1])

    yield feed
    for stream in opened:
        stream.close()


@pytest.fixture
def types(clean_place: Path) -> Path:
    """A type file."""
    path = clean_place / "fleet.dots"
    path.write_text(
        "enum Kind { 1: ferry, 2: tug }\n"
        "struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; 4: Kind kind; }\n"
        "struct Leg [persistent] { 1: [key] string from; 2: [key] Kind kind; 3: bool done; }\n"
        "struct Hail [cached=false] { 1: string text; }\n"
    )
    return path


@pytest.fixture
def node(clean_place: Path, live_node: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A running node, which is the default of commands."""
    monkeypatch.setenv("SKERRY_ENDPOINT", live_node.place)
    return live_node
