"""Configuration of stored objects."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from skerry.limits import STORAGE_INTERVAL_MS_MAX


class SyncPolicy(enum.Enum):
    """When an object counts as stored, and a flush is answered."""

    COMMIT = "commit"
    """When its batch is on the disk."""
    INTERVAL = "interval"
    """When its batch is on the disk, with at most one batch per interval."""
    NONE = "none"
    """When the operating system has its batch. It survives a crash of the node, but a power cut may
    lose the last moments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig:
    url: str = field(default="", repr=False)
    """`sqlite:PATH`, `postgresql://...`, or `none`; empty means a file in the state folder."""
    sync: SyncPolicy = SyncPolicy.COMMIT
    sync_interval_ms: int = 100
    """Minimum time between two batches, with `interval`."""

    def __post_init__(self) -> None:
        if not 1 <= self.sync_interval_ms <= STORAGE_INTERVAL_MS_MAX:
            raise ValueError(
                f"sync_interval_ms is {self.sync_interval_ms};"
                f" it must be 1 to {STORAGE_INTERVAL_MS_MAX}"
            )

    @property
    def interval_ns(self) -> int:
        """The interval for the journal."""
        return self.sync_interval_ms * 1_000_000 if self.sync == SyncPolicy.INTERVAL else 0
