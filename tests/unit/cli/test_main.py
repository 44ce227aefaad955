"""The program begins with so little that it can be interrupted at any time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from skerry.cli import main as module
from skerry.cli import program

INTERRUPTED = """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
while True:
    pass
"""


def test_an_interruption_between_commands_is_a_quiet_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "run", interrupt)
    assert module.main([]) == program.FAILED
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_an_interruption_while_modules_are_imported_gives_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(INTERRUPTED)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "skerry", "version"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=60,
        # A shell starts background jobs with SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_the_commands_are_found_here_too() -> None:
    assert module.COMMANDS is program.COMMANDS
    assert module.skerry is program.skerry
    with pytest.raises(AttributeError, match="has no attribute 'COMANDS'"):
        module.COMANDS  # type: ignore[attr-defined]  # noqa: B018  # that is the point
