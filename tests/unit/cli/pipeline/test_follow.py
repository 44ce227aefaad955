"""`skerry pipeline follow`, as a process that is stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_command_ends_orderly_on_sigterm(recordings: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "skerry", "pipeline", "follow", "--json"]
    options = ["--master", "local[1]", "--memory", "1g", "--recordings", str(recordings)]
    with subprocess.Popen(
        [*command, *options, "--tables", str(tmp_path / "lake"), "--metrics", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            said = [process.stderr.readline(), process.stderr.readline()]
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert "metrics at http://127.0.0.1:" in said[0]
    assert "following" in said[1]
    assert process.returncode == 0, err
    assert set(json.loads(out)) == {"rows", "batches", "backlog"}
    assert "stopping" in err
    assert "WARN" not in err, "the JVM talks to itself"
