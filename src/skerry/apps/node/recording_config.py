"""Section `node.recording` of the configuration."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.limits import RECORDER_QUEUE_BYTES_MAX
from skerry.runtime.recordings.config import RecordingConfig

__all__ = ["NodeRecordingConfig", "check_queue_bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecordingConfig(RecordingConfig):
    """Section `node.recording`: the recording that a node makes of its own updates."""

    folder: str = ""
    """Folder of the recording; empty for no recording."""
    queue_bytes_max: int = RECORDER_QUEUE_BYTES_MAX
    """Bytes of rows that may wait for the disk. Above it, new updates are dropped, and a gap row
    states which."""

    def __post_init__(self) -> None:
        RecordingConfig.__post_init__(self)
        check_queue_bytes(self.queue_bytes_max)


def check_queue_bytes(size: int) -> None:
    """Raise ValueError unless `size` is within the bounds."""
    if not 1 <= size <= RECORDER_QUEUE_BYTES_MAX:
        raise ValueError(f"queue_bytes_max is {size}, not 1 to {RECORDER_QUEUE_BYTES_MAX}")
