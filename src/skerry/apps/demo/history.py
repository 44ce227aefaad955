"""The past of the demo: a real recorder, and at the end what Spark makes of its recording.

Both are processes, as everything in the demo. What is not installed is left out with a word.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from skerry.apps.demo.stage import DemoProgram, DemoStage
from skerry.client.api.sync import Space

__all__ = ["RECORDER_NAME", "DemoHistory", "missing_extra"]

RECORDER_NAME: Final = "skerry-record"
"""What a recorder calls itself at its node."""
_PIPELINE_S_MAX: Final = 600.0
"""Spark on a busy computer, starting from nothing."""
_NEEDS: Final = {"recording": ("pyarrow",), "spark": ("pyspark", "deltalake", "pyarrow")}


def missing_extra(name: str) -> str:
    """What is to be installed for it, in words; empty if it is there."""
    missing = [package for package in _NEEDS[name] if find_spec(package) is None]
    return f"{', '.join(missing)} is not installed: it takes skerry[{name}]" if missing else ""


class DemoHistory:
    """Records the tour into a folder, and asks what is in it. `tell` hears what comes of it."""

    def __init__(self, stage: DemoStage, folder: Path, *, tell: Callable[[str], None]) -> None:
        self._stage = stage
        self._tell = tell
        self.recording = folder / "recording"
        self.tables = folder / "tables"
        self.page = folder / "report.html"
        self._recorder: DemoProgram | None = None

    @property
    def is_recording(self) -> bool:
        """Whether there is a recorder."""
        return self._recorder is not None

    def start(self, endpoint: str) -> None:
        """Begin to record, if that can be done."""
        missing = missing_extra("recording")
        if missing:
            self._tell(f"nothing is recorded: {missing}")
            return
        self.recording.parent.mkdir(parents=True, exist_ok=True)
        words = ("record", "--to", str(self.recording), "--node", endpoint, "--json")
        self._recorder = self._stage.start("recorder", "-m", "skerry", *words)
        self._tell(f"recorder: process {self._recorder.number}")

    def is_heard(self, space: Space) -> bool:
        """Whether the recorder has joined everything at the node."""
        clients = space.container("DotsClient").values()
        return not self.is_recording or any(
            client.name == RECORDER_NAME and "/..." in (client.subscribedTypes or ())
            for client in clients
        )

    def end(self) -> tuple[int, dict[str, Any]]:
        """End the recorder: its exit code, and what it said it did."""
        assert self._recorder is not None
        code = self._recorder.end()
        lines = self._recorder.lines()
        return code, lines[-1] if lines else {}

    def verify(self) -> dict[str, Any]:
        """What a look at every byte of the recording gives."""
        (line,) = self._ask("verify", "record", "verify", str(self.recording))
        return line

    def build(self) -> dict[str, Any]:
        """Make tables of the recording; what was done."""
        places = ("--recordings", str(self.recording), "--tables", str(self.tables))
        (line,) = self._ask("pipeline run", "pipeline", "run", *places)
        return line

    def report(self) -> list[dict[str, Any]]:
        """Write the page; the figures in it."""
        words = ("--tables", str(self.tables), "--to", str(self.page))
        return self._ask("pipeline report", "pipeline", "report", *words)

    def state_at(self, type_name: str, instant_ns: int) -> list[dict[str, Any]]:
        """All objects of a type as they were at an instant."""
        words = ("--tables", str(self.tables), "--type", type_name, "--at", str(instant_ns))
        return self._ask("pipeline asof", "pipeline", "asof", *words)

    def _ask(self, name: str, *words: str) -> list[dict[str, Any]]:
        program = self._stage.start(name, "-m", "skerry", *words, "--json")
        program.finish(_PIPELINE_S_MAX)
        return program.lines()
