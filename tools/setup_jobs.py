"""Programs that the set-up runs beside each other, and a line that shows what they do.

On a terminal the line is rewritten each half second, with the time. Elsewhere, as in the log of a
continuous build, a line is printed when a long part begins.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

PREFIX = "venv: "
REFRESH_S = 0.5
LARGE_MB = 20.0
"""Downloads from this size on are worth a line in a log."""
WIDTH = 100

STATES = (
    (re.compile(r"Downloading (?P<name>[\w.]+?)-\d\S* \((?P<size>[\d.]+ [kMG]B)\)"), "download"),
    (re.compile(r"Building wheel for (?P<name>(?!skerry)\S+)"), "unpack"),
    (re.compile(r"Installing collected packages: (?P<names>.+)"), "install"),
    (re.compile(r"running build_py"), "copy"),
    (re.compile(r"building 'skerry"), "compile"),
    (re.compile(r"creating '.*\.whl'"), "pack"),
)


class SetupFailed(Exception):
    """The set-up failed. The hint describes the remedy."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.hint = hint


class Job:
    """A program that runs in the background. Its output is kept for a failure."""

    def __init__(
        self, name: str, command: Sequence[str | Path], failure: str, env: dict[str, str]
    ) -> None:
        self.name = name
        self.state = "starting"
        self.output = ""
        self._failure = failure
        self._process = subprocess.Popen(
            command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def check(self) -> None:
        """Raise SetupFailed if the program has failed."""
        if self._process.wait() != 0:
            print(self.output, file=sys.stderr)
            raise SetupFailed(self._failure, "see the output of the failing program above")

    def stop(self) -> None:
        """End the program if it still runs."""
        self._process.terminate()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output += line
            found = state_of(line)
            if found is not None and found[0] != self.state:
                self.state, is_long = found
                if is_long and not is_terminal():
                    say(f"{self.name}: {self.state}")


def state_of(line: str) -> tuple[str, bool] | None:
    """What a line of output says about the progress, and whether that is worth a line in a log."""
    for pattern, kind in STATES:
        match = pattern.search(line)
        if match is None:
            continue
        if kind == "download":
            number, unit = match["size"].split()
            is_long = unit == "GB" or (unit == "MB" and float(number) >= LARGE_MB)
            return f"downloading {match['name']}, {match['size']}", is_long
        if kind == "unpack":
            return f"unpacking {match['name']}", False
        if kind == "install":
            return f"installing {len(match['names'].split(', '))} packages", True
        return {"copy": "translating to C", "compile": "compiling C", "pack": "packing"}[
            kind
        ], kind == "compile"
    return None


def finish(jobs: Sequence[Job], started_s: float) -> None:
    """Wait for all jobs and show their progress. If one fails, the others are ended."""
    try:
        while any(job.is_running for job in jobs):
            show(jobs, started_s)
            for job in jobs:
                if not job.is_running:
                    job.check()
            time.sleep(REFRESH_S)
        for job in jobs:
            job.check()
    except BaseException:
        for job in jobs:
            with contextlib.suppress(OSError):
                job.stop()
        raise
    finally:
        clear()


def show(jobs: Sequence[Job], started_s: float) -> None:
    if not is_terminal():
        return
    seconds = int(time.monotonic() - started_s)
    states = "; ".join(f"{job.name}: {job.state}" for job in jobs if job.is_running)
    text = f"{PREFIX}{seconds // 60}:{seconds % 60:02}  {states}"
    sys.stdout.write(f"\r\x1b[K{text[:WIDTH]}")
    sys.stdout.flush()


def clear() -> None:
    if is_terminal():
        sys.stdout.write("\r\x1b[K")
        sys.stdout.flush()


def is_terminal() -> bool:
    return sys.stdout.isatty()


def say(text: str) -> None:
    clear()
    print(f"{PREFIX}{text}", flush=True)
