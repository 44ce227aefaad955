"""What can be configured about stored objects."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from skerry.limits import STORAGE_INTERVAL_MS_MAX

__all__ = ["StorageConfig", "SyncPolicy"]


class SyncPolicy(enum.Enum):
    """When an object counts as stored, which is when a flush is answered."""

    COMMIT = "commit"
    """Each batch is on the disk before it counts."""
    INTERVAL = "interval"
    """The same, but batches are gathered: at most one in each interval."""
    NONE = "none"
    """A batch counts once the operating system has it. It survives the end of the node, and of a
    power cut all but the last moments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig:
    """Where and how persistent objects are stored."""

    url: str = field(default="", repr=False)
    """`sqlite:PATH`, `postgresql://...`, or `none`; empty means a file in the folder for state."""
    sync: SyncPolicy = SyncPolicy.COMMIT
    sync_interval_ms: int = 100
    """Least time from one batch to the next, with `interval`."""

    def __post_init__(self) -> None:
        if not 1 <= self.sync_interval_ms <= STORAGE_INTERVAL_MS_MAX:
            raise ValueError(
                f"sync_interval_ms is {self.sync_interval_ms}, not 1 to {STORAGE_INTERVAL_MS_MAX}"
            )

    @property
    def interval_ns(self) -> int:
        """What the journal is to be given."""
        return self.sync_interval_ms * 1_000_000 if self.sync == SyncPolicy.INTERVAL else 0
