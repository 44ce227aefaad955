"""`skerry completion`: a script that the shell takes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_asks_skerry_for_completions(run: Run, shell: str) -> None:
    done = run("completion", shell)
    assert done.code == 0
    assert f"_SKERRY_COMPLETE={shell}_complete" in done.out
    assert "%(" not in done.out


def test_bash_takes_its_script(run: Run) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    script = run("completion", "bash").out
    told = subprocess.run(
        [bash, "-c", f"{script}\ncomplete -p skerry"], capture_output=True, text=True
    )
    assert "_skerry_completion" in told.stdout, told.stderr


def test_unknown_shell_is_wrong_use(run: Run) -> None:
    assert run("completion", "tcsh").code == 2
