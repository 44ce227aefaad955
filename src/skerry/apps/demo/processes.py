"""The processes of the demo and their temporary folder, which end with the demo.

Every process is started in a separate session, so that Ctrl-C reaches only the tour. If the tour is
killed, the system sends SIGTERM to the processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, Final

from skerry.closing import Closing
from skerry.errors import StartFailed, StopTimedOut

_START_S_MAX: Final = 30.0
_END_S_MAX: Final = 15.0

_LAUNCH: Final = """\
import ctypes, os, sys
try:
    ctypes.CDLL(None).prctl(1, 15)  # SIGTERM when the parent ends
except (AttributeError, OSError):
    pass  # not on Linux
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)  # The parent ended before the call.
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


class DemoProcess:
    """A process of the demo, and the JSON lines it has written."""

    def __init__(
        self, name: str, arguments: list[str], *, folder: Path, environ: dict[str, str]
    ) -> None:
        self.name = name
        self._lines: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._has_ended = False
        self._log = folder / f"{name.replace(' ', '-')}.log"
        launch = [sys.executable, "-S", "-c", _LAUNCH, str(os.getpid())]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*launch, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environ,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def number(self) -> int:
        return self._process.pid

    def events(self, kind: str) -> list[dict[str, Any]]:
        with self._changed:
            return [line for line in self._lines if line.get("event") == kind]

    def lines(self) -> list[dict[str, Any]]:
        with self._changed:
            return list(self._lines)

    def wait_event(
        self,
        kind: str,
        fits: Callable[[dict[str, Any]], bool] = lambda _line: True,
        *,
        after: int = 0,
        timeout_s: float = _START_S_MAX,
    ) -> dict[str, Any]:
        """Wait for a line of a kind that `fits`, after the first `after`; StartFailed if none."""
        end_s = monotonic() + timeout_s
        with self._changed:
            while True:
                found = [line for line in self._lines if line.get("event") == kind][after:]
                fitting = next((line for line in found if fits(line)), None)
                if fitting is not None:
                    return fitting
                if self._has_ended or not self._changed.wait(end_s - monotonic()):
                    raise StartFailed(
                        f"{self.name} did not report {kind!r} within {timeout_s:g} s;"
                        f" {self._last_log_line()}"
                    )

    def send_order(self, order: str) -> None:
        """Send an order, unless the process has ended."""
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            return
        with suppress(BrokenPipeError):  # `wait_event` reports a process that has ended.
            self._process.stdin.write(f"{order}\n")
            self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process, and wait until it has ended."""
        self._process.kill()
        self._wait_exit(_END_S_MAX)

    def end(self) -> int:
        """Send SIGTERM, and return the exit code; StopTimedOut if the process does not end."""
        self.send_order("end")
        self._process.terminate()
        return self._wait_exit(_END_S_MAX)

    def wait_end(self) -> int:
        """Send the order `end`, and return the exit code; StopTimedOut if it does not end."""
        self.send_order("end")
        return self._wait_exit(_END_S_MAX)

    def finish(self, timeout_s: float) -> None:
        """Wait until the process ends; StartFailed if it failed, StopTimedOut after `timeout_s`."""
        code = self._wait_exit(timeout_s)
        if code != 0:
            raise StartFailed(f"{self.name} failed with {code}; {self._last_log_line()}")

    def ensure_ended(self) -> None:
        """Kill the process if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._wait_exit(_END_S_MAX)

    def _wait_exit(self, timeout_s: float) -> int:
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise StopTimedOut(f"{self.name} did not end within {timeout_s:.0f} s") from None
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _last_log_line(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"last line of its log: {lines[-1]}" if lines else "its log is empty"


class DemoProcesses(Closing):
    """The processes of the demo and their temporary folder; leaving the body removes all."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="skerry-demo-")
        self._programs: list[DemoProcess] = []
        self.path = Path(self._folder.name)

    def start(self, name: str, *arguments: str) -> DemoProcess:
        """Start a Python program; `arguments` follow `python` on its command line."""
        environ = {name: value for name, value in os.environ.items() if _is_inherited(name)}
        environ |= {
            "SKERRY_RUNTIME_DIR": str(self.path / "run"),
            "SKERRY_STATE_DIR": str(self.path / "state"),
            "PYTHONUNBUFFERED": "1",
        }
        program = DemoProcess(name, list(arguments), folder=self.path, environ=environ)
        self._programs.append(program)
        return program

    def close(self) -> None:
        try:
            for program in reversed(self._programs):
                program.ensure_ended()
        finally:
            self._folder.cleanup()


def _is_inherited(name: str) -> bool:
    """Whether a variable is passed on: the demo must not use the node or files of the user."""
    return name == "SKERRY_TEST_MODE" or not name.startswith(("SKERRY_", "DOTS_"))
