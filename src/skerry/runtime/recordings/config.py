"""What can be configured about a recording."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from skerry.limits import (
    RECORDING_BATCH_MS_MAX,
    RECORDING_BATCH_ROW_COUNT_MAX,
    RECORDING_SEGMENT_BYTES_MAX,
)

__all__ = ["Durability", "RecordingConfig"]


class Durability(enum.Enum):
    """What a power cut can take. A crash of the recorder takes one batch at most."""

    NONE = "none"
    """Whatever the operating system has not written yet: some tens of seconds."""
    INTERVAL = "interval"
    """What came since the last sync."""
    BATCH = "batch"
    """The batch that was being written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingConfig:
    """How a recording is written and how much of it is kept."""

    batch_rows: int = 8192
    """Rows after which a batch is written."""
    batch_ms: int = 200
    """Time after which it is written with fewer."""
    durability: Durability = Durability.INTERVAL
    sync_interval_s: float = 1.0
    """Time from one sync to the next, with `interval`."""
    segment_bytes: int = 64 * 1024 * 1024
    """Size at which a segment is sealed."""
    seal_s: float = 60.0
    """Age at which a segment is sealed when nobody follows."""
    seal_followed_s: float = 2.0
    """The same when somebody does, who sees no more than sealed segments."""
    keep_s: float = 0.0
    """Segments whose newest row is older are dropped; 0 keeps them."""
    keep_bytes: int = 0
    """The oldest segments are dropped when all sealed ones have more bytes; 0 keeps them."""

    def __post_init__(self) -> None:
        _check("batch_rows", self.batch_rows, 1, RECORDING_BATCH_ROW_COUNT_MAX)
        _check("batch_ms", self.batch_ms, 1, RECORDING_BATCH_MS_MAX)
        _check("segment_bytes", self.segment_bytes, 1, RECORDING_SEGMENT_BYTES_MAX)
        for name in ("sync_interval_s", "seal_s", "seal_followed_s"):
            if not 0 < getattr(self, name) <= _DAY_S:
                raise ValueError(f"{name} is {getattr(self, name)}, not above 0 and up to {_DAY_S}")
        for name in ("keep_s", "keep_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, which is below 0")


_DAY_S = 86_400


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}, not {low} to {high}")
