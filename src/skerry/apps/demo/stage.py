"""Where the demo plays: a folder of its own, and the processes in it, which all end with it.

Every process is started in a session of its own, so that Ctrl-C reaches the tour alone, and is told
by the system to end should the tour be killed.
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
from types import TracebackType
from typing import Any, Final, Self

from skerry.errors import StartFailed, StopTimedOut

__all__ = ["DemoProgram", "DemoStage"]

_START_S_MAX: Final = 30.0
_END_S_MAX: Final = 15.0

_LAUNCH: Final = """\
import ctypes, os, sys
try:
    ctypes.CDLL(None).prctl(1, 15)  # SIGTERM when who started us is gone
except (AttributeError, OSError):
    pass  # not on Linux
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)  # gone before we asked
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


class DemoProgram:
    """One process, and the lines that it said."""

    def __init__(
        self, name: str, words: list[str], *, folder: Path, environ: dict[str, str]
    ) -> None:
        self.name = name
        self._heard: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._is_silent = False
        self._log = folder / f"{name.replace(' ', '-')}.log"
        launch = [sys.executable, "-S", "-c", _LAUNCH, str(os.getpid())]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*launch, *words],
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
        """Of the process."""
        return self._process.pid

    def said(self, what: str) -> list[dict[str, Any]]:
        """All lines of a kind so far."""
        with self._changed:
            return [line for line in self._heard if line.get("say") == what]

    def lines(self) -> list[dict[str, Any]]:
        """All lines so far."""
        with self._changed:
            return list(self._heard)

    def wait_said(
        self,
        what: str,
        fits: Callable[[dict[str, Any]], bool] = lambda _line: True,
        *,
        after: int = 0,
        timeout_s: float = _START_S_MAX,
    ) -> dict[str, Any]:
        """The first line of a kind that fits, not counting `after` of them; StartFailed if none."""
        end_s = monotonic() + timeout_s
        with self._changed:
            while True:
                found = [line for line in self._heard if line.get("say") == what][after:]
                fitting = next((line for line in found if fits(line)), None)
                if fitting is not None:
                    return fitting
                if self._is_silent or not self._changed.wait(end_s - monotonic()):
                    raise StartFailed(f"{self.name} did not say {what!r}; {self._last_words()}")

    def tell(self, order: str) -> None:
        """Give an order; who is gone does not hear it."""
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            return
        with suppress(BrokenPipeError):  # who is dead shows by what it does not say
            self._process.stdin.write(f"{order}\n")
            self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it without a word, and wait until it is gone."""
        self._process.kill()
        self._gone(_END_S_MAX)

    def end(self) -> int:
        """Ask it to end, and give its exit code; StopTimedOut if it does not."""
        self.tell("end")
        self._process.terminate()
        return self._gone(_END_S_MAX)

    def wait_end(self) -> int:
        """Tell it to end, and give its exit code; StopTimedOut if it does not."""
        self.tell("end")
        return self._gone(_END_S_MAX)

    def finish(self, timeout_s: float) -> None:
        """Wait until it is done by itself; StartFailed if it failed, StopTimedOut if it is not."""
        code = self._gone(timeout_s)
        if code != 0:
            raise StartFailed(f"{self.name} failed with {code}; {self._last_words()}")

    def abandon(self) -> None:
        """Make sure that it is gone."""
        if self._process.poll() is None:
            self._process.kill()
        self._gone(_END_S_MAX)

    def _gone(self, timeout_s: float) -> int:
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
                self._heard.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self._is_silent = True
            self._changed.notify_all()

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"its last words: {lines[-1]}" if lines else "it left no word"


class DemoStage:
    """A folder for the demo, and its programs. All of them are gone when the body is left."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="skerry-demo-")
        self._programs: list[DemoProgram] = []
        self.path = Path(self._folder.name)

    def start(self, name: str, *words: str) -> DemoProgram:
        """Start a Python program: what comes after `python`."""
        environ = {name: value for name, value in os.environ.items() if _is_harmless(name)}
        environ |= {
            "SKERRY_RUNTIME_DIR": str(self.path / "run"),
            "SKERRY_STATE_DIR": str(self.path / "state"),
            "PYTHONUNBUFFERED": "1",
        }
        program = DemoProgram(name, list(words), folder=self.path, environ=environ)
        self._programs.append(program)
        return program

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        try:
            for program in reversed(self._programs):
                program.abandon()
        finally:
            self._folder.cleanup()


def _is_harmless(name: str) -> bool:
    """Whether a variable may stay: the demo is not to use the node or files of who runs it."""
    return name == "SKERRY_TEST_MODE" or not name.startswith(("SKERRY_", "DOTS_"))
