"""Section `recorder` of the configuration: how recordings are made."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.apps.node.config import split_place
from skerry.apps.node.recording_config import check_queue_bytes
from skerry.limits import RECORDER_QUEUE_BYTES_MAX
from skerry.runtime.recordings.config import RecordingConfig

__all__ = ["RecorderConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderConfig(RecordingConfig):
    """Section `recorder`: what `skerry record` does unless it is told otherwise."""

    space: str = "local"
    """Name of the space in the rows: that of the system, or `local` for a node alone."""
    queue_bytes_max: int = RECORDER_QUEUE_BYTES_MAX
    """Bytes of rows that may wait for the disk. Past it new updates are dropped, and a gap row
    says which."""
    metrics: str = "off"
    """HOST:PORT of a page for metrics and health, or `off`."""

    def __post_init__(self) -> None:
        RecordingConfig.__post_init__(self)
        check_queue_bytes(self.queue_bytes_max)
        if not self.space:
            raise ValueError("space is empty: rows of several spaces could not be told apart")
        if self.metrics != "off":
            split_place(self.metrics)
