"""The recording of the demo, and the tables that the pipeline makes of it.

Recorder and pipeline are separate processes. If a package is not installed, they are skipped.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from skerry.apps.demo.processes import DemoProcess, DemoProcesses
from skerry.client.api.sync import Space
from skerry.errors import RecordingError

_MARK: Final = "made-by-skerry-demo"
"""File in the folder of a tour."""
RECORDER_NAME: Final = "skerry-record"
"""Client name of a recorder."""
_PIPELINE_S_MAX: Final = 600.0
"""Time limit of a pipeline command, for Spark on a busy computer."""
_NEEDS: Final = {"recording": ("pyarrow",), "spark": ("pyspark", "deltalake", "pyarrow")}


def missing_extra(name: str) -> str:
    """A message about packages to install for an extra; empty if all are installed."""
    missing = [package for package in _NEEDS[name] if find_spec(package) is None]
    return f"{', '.join(missing)} not installed; install skerry[{name}]" if missing else ""


class DemoHistory:
    """Records the tour into a folder, and queries the recording. `report` receives messages."""

    def __init__(
        self, processes: DemoProcesses, folder: Path, *, report: Callable[[str], None]
    ) -> None:
        self._processes = processes
        self._report = report
        self.recording = folder / "recording"
        self.tables = folder / "tables"
        self.page = folder / "report.html"
        self._recorder: DemoProcess | None = None

    @property
    def is_recording(self) -> bool:
        return self._recorder is not None

    def start(self, endpoint: str) -> None:
        """Start the recorder if its packages are installed. What an earlier tour left is removed;
        RecordingError if the folder contains a recording or tables of something else."""
        missing = missing_extra("recording")
        if missing:
            self._report(f"no recording: {missing}")
            return
        self._remove_former()
        arguments = ("record", "--to", str(self.recording), "--node", endpoint, "--json")
        self._recorder = self._processes.start("recorder", "-m", "skerry", *arguments)
        self._report(f"recorder: process {self._recorder.number}")

    def _remove_former(self) -> None:
        """Remove the files of the tour before, which the mark in the folder shows to be such."""
        folder = self.recording.parent
        folder.mkdir(parents=True, exist_ok=True)
        former = [path for path in (self.recording, self.tables, self.page) if path.exists()]
        mark = folder / _MARK
        if former and not mark.exists():
            error = RecordingError(f"{former[0]} exists and is not of a tour; nothing was removed")
            error.hint = "name another folder with --keep"
            raise error
        mark.write_text("Made by `skerry demo`, which replaces the files here.\n", encoding="utf-8")
        for path in former:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def is_subscribed(self, space: Space) -> bool:
        """Whether the recorder has subscribed to all subjects at the node."""
        clients = space.container("DotsClient").values()
        return not self.is_recording or any(
            client.name == RECORDER_NAME and "/..." in (client.subscribedTypes or ())
            for client in clients
        )

    def end(self) -> tuple[int, dict[str, Any]]:
        """Stop the recorder; returns its exit code and its summary."""
        assert self._recorder is not None
        code = self._recorder.end()
        lines = self._recorder.lines()
        return code, lines[-1] if lines else {}

    def verify(self) -> dict[str, Any]:
        """Check every byte of the recording; returns the report."""
        (line,) = self._run("verify", "record", "verify", str(self.recording))
        return line

    def build(self) -> dict[str, Any]:
        """Make tables of the recording; returns the summary."""
        arguments = ("--recordings", str(self.recording), "--tables", str(self.tables))
        (line,) = self._run("pipeline run", "pipeline", "run", *arguments)
        return line

    def report(self) -> list[dict[str, Any]]:
        """Write the report; returns its figures."""
        arguments = ("--tables", str(self.tables), "--to", str(self.page))
        return self._run("pipeline report", "pipeline", "report", *arguments)

    def state_at(self, type_name: str, instant_ns: int) -> list[dict[str, Any]]:
        """The state of all objects of a type at a time."""
        arguments = ("--tables", str(self.tables), "--type", type_name, "--at", str(instant_ns))
        return self._run("pipeline asof", "pipeline", "asof", *arguments)

    def _run(self, name: str, *arguments: str) -> list[dict[str, Any]]:
        program = self._processes.start(name, "-m", "skerry", *arguments, "--json")
        program.finish(_PIPELINE_S_MAX)
        return program.lines()
