"""Configuration of a recording."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from skerry.limits import (
    RECORDING_BATCH_MS_MAX,
    RECORDING_BATCH_ROW_COUNT_MAX,
    RECORDING_SEGMENT_BYTES_MAX,
)


class Durability(enum.Enum):
    """What a power cut can lose. A crash of the recorder loses one batch at most."""

    NONE = "none"
    """Everything the operating system has not written yet: some tens of seconds."""
    INTERVAL = "interval"
    """The rows written since the last sync."""
    BATCH = "batch"
    """The batch that is being written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingConfig:
    batch_rows: int = 8192
    """Number of rows after which a batch is written."""
    batch_ms: int = 200
    """Time after which a batch is written with fewer rows."""
    durability: Durability = Durability.INTERVAL
    sync_interval_s: float = 1.0
    """Time from one sync to the next, with `interval`."""
    segment_bytes: int = 64 * 1024 * 1024
    seal_s: float = 60.0
    """Age at which a segment is sealed when the recording has no followers."""
    seal_followed_s: float = 2.0
    """Age at which a segment is sealed when it has: followers only see sealed segments."""
    keep_s: float = 0.0
    """Segments whose newest row is older are dropped; 0 keeps all."""
    keep_bytes: int = 0
    """The oldest segments are dropped when the sealed ones exceed this size; 0 keeps all."""

    def __post_init__(self) -> None:
        _check("batch_rows", self.batch_rows, 1, RECORDING_BATCH_ROW_COUNT_MAX)
        _check("batch_ms", self.batch_ms, 1, RECORDING_BATCH_MS_MAX)
        _check("segment_bytes", self.segment_bytes, 1, RECORDING_SEGMENT_BYTES_MAX)
        for name in ("sync_interval_s", "seal_s", "seal_followed_s"):
            if not 0 < getattr(self, name) <= _DAY_S:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; it must be above 0 and at most {_DAY_S}"
                )
        for name in ("keep_s", "keep_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")


_DAY_S = 86_400


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}; it must be {low} to {high}")
