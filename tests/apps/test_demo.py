"""The guided tour as a program: guarantees are kept, and nothing is left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skerry.apps.demo.tour import STEP_COUNT
from tests import captures

pytestmark = pytest.mark.slow

_CHANCE = r"^ +request \d"
"""The line about a request whose handler is gone: the node may notice that before the request."""


def demo(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "skerry", "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"},
    )


def processes(arguments: str) -> list[int]:
    """Numbers of the processes that name a process of the tour."""
    return [int(number) for number in re.findall(r"process (\d+)", arguments)]


def assert_gone(numbers: list[int], folder: Path) -> None:
    assert numbers
    for number in numbers:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
    assert list(folder.glob("skerry-demo-*")) == []


def finished(process: subprocess.Popen[str], **options: Any) -> tuple[str, str]:
    try:
        return process.communicate(timeout=600, **options)
    finally:
        process.kill()
        process.communicate()


def test_guarantees_are_kept_and_nothing_is_left(tmp_path: Path) -> None:
    kept = tmp_path / "build" / "demo"
    arguments = ("--seconds", "1", "--headless", "--vessels", "5", "--keep", str(kept))
    process = demo(tmp_path, "--no-spark", *arguments)
    out, err = finished(process)
    assert process.returncode == 0, out + err
    # As on a terminal, where both are one.
    before, heading, after = err.replace(f"{tmp_path}/", "").partition("guarantees:\n")
    text = before + heading + out + after
    captures.compare("demo", text, without=_CHANCE)
    assert "recording: build/demo/recording" in text
    assert "BROKEN" not in out
    assert len(re.findall(r"^kept  ", out, re.MULTILINE)) == 15
    assert re.findall(r"^(\d+)\. ", err, re.MULTILINE)[-1] == str(STEP_COUNT)
    assert "all nodes of a system have one picture" in out
    assert "a killed node is dead for all others, which elect another one" in out
    assert "a restarted node returns with a new id" in out
    assert "confirmed objects survive kill -9 of the node" in out
    assert "only updates that were lost with the node are missing in the recording" in out
    assert_gone(processes(err), tmp_path)


def test_one_signal_ends_the_tour_in_order(tmp_path: Path) -> None:
    process = demo(tmp_path, "--no-spark", "--seconds", "0", "--headless", "--vessels", "3")
    assert process.stderr is not None
    err = ""
    for line in process.stderr:
        err += line
        if line.startswith("6. "):
            break
    process.send_signal(signal.SIGTERM)
    out, rest = finished(process)
    assert process.returncode == 0, out + rest
    assert "stopping; once more to interrupt\n" in rest
    assert "all programs end in order" in out
    assert "no system: the tour was stopped" in rest
    assert_gone(processes(err + rest), tmp_path)


def test_second_signal_ends_it_at_once_with_all_processes(tmp_path: Path) -> None:
    process = demo(tmp_path, "--no-spark", "--seconds", "0", "--headless", "--vessels", "3")
    assert process.stderr is not None
    err = ""
    for line in process.stderr:
        err += line
        if line.startswith("3. "):
            break
    process.send_signal(signal.SIGINT)
    for line in process.stderr:
        err += line
        if "once more" in line:
            break
    process.send_signal(signal.SIGINT)
    _, rest = finished(process)
    assert process.returncode == 1
    assert "error: interrupted" in rest
    assert_gone(processes(err + rest), tmp_path)
