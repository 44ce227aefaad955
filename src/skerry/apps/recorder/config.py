"""Section `recorder` of the configuration."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.apps.node.config import check_queue_bytes, split_host_port
from skerry.limits import RECORDER_QUEUE_BYTES_MAX
from skerry.runtime.recordings.config import RecordingConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderConfig(RecordingConfig):
    """Section `recorder`: the defaults of `skerry record`."""

    space: str = "local"
    """Name of the space in the rows: the name of the system, or `local` for a single node."""
    queue_bytes_max: int = RECORDER_QUEUE_BYTES_MAX
    """Bytes of rows that may wait for the disk. Above it, new updates are dropped, and a gap row
    states which."""
    metrics: str = "off"
    """HOST:PORT of the pages for metrics and health, or `off`."""

    def __post_init__(self) -> None:
        RecordingConfig.__post_init__(self)
        check_queue_bytes(self.queue_bytes_max)
        if not self.space:
            raise ValueError("space is empty: rows of several spaces could not be distinguished")
        if self.metrics != "off":
            split_host_port(self.metrics)
