"""The quick start: the code blocks of the page, with a running node."""

from __future__ import annotations

import os
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "start" / "index.md"
SNIPPETS = runpy.run_path(str(ROOT / "tests" / "tidy" / "test_snippets.py"))
NEEDS_NODE = ("run beside a node", "not run: needs the node; the tests of programs run it")

pytestmark = pytest.mark.slow


@pytest.fixture
def beside_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A node at its default endpoints, in temporary folders."""
    monkeypatch.chdir(tmp_path)
    for name in ("SKERRY_ENDPOINT", "DOTS_ENDPOINT", "DOTS_AUTH_SECRET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SKERRY_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "run").mkdir(mode=0o700)
    place = f"uds:{tmp_path}/run/node.sock"
    with subprocess.Popen(
        [sys.executable, "-m", "skerry", "node", "run", "--listen", place, "--metrics", "off"],
        stderr=subprocess.PIPE,
        text=True,
    ) as node:
        try:
            assert node.stderr is not None
            assert "listens at" in node.stderr.readline()
            yield
        finally:
            node.terminate()


def test_first_steps_go_as_the_page_says(beside_node: None) -> None:
    ran = 0
    for block in SNIPPETS["blocks"](PAGE):
        if block.mark.startswith("file: "):
            Path(block.mark.removeprefix("file: ")).write_text(block.text, encoding="utf-8")
        elif block.mark in NEEDS_NODE:
            ran += 1
            run(block)
    assert ran >= 4


def run(block: Any) -> None:
    if block.language == "python":
        Path("page.py").write_text(block.text, encoding="utf-8")
        subprocess.run([sys.executable, "-W", "error", "page.py"], check=True, timeout=60)
        return
    for command, expected in SNIPPETS["commands"](block.text):
        arguments = command.replace("skerry ", f"{shlex.quote(sys.executable)} -m skerry ", 1)
        done = subprocess.run(
            arguments,
            shell=True,
            capture_output=True,
            text=True,
            env={**os.environ, "NO_COLOR": "1"},
            timeout=60,
        )
        where = f"{PAGE.name}:{block.line}: {command}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, where
        assert not expected or SNIPPETS["matches"](done.stdout, expected), where
