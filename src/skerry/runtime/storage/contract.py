"""The configuration and the interface of a storage.

Its calls block, so a node makes them in a separate thread.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from skerry.engine.persistence import StoredObject, StoredType, WriteBatch
from skerry.errors import StorageError
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
    """Where and how persistent objects are stored."""

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
        return self.sync_interval_ms * 1_000_000 if self.sync == SyncPolicy.INTERVAL else 0


FORMAT_VERSION: Final = 1
"""Version of the tables. A storage with another version is rejected unchanged."""


class Storage(Protocol):
    """Stored objects, for one node at a time. Every error is a StorageError."""

    @property
    def location(self) -> str:
        """Path or URL without password, for messages."""

    def meta(self) -> dict[str, int]:
        """The values in `meta` of all batches written so far."""

    def load(self) -> Iterator[StoredType | StoredObject]:
        """All types, then all objects. It reads lazily; nothing must be written meanwhile.

        Types without objects are left out.
        """

    def write(self, batch: WriteBatch) -> None:
        """Write the batch atomically, as durable as the sync policy requires."""

    def close(self) -> None:
        """Release the storage for other nodes."""


def failure(message: str, hint: str | None = None) -> StorageError:
    error = StorageError(message)
    error.hint = hint
    return error


def wrong_version(location: str, found: int) -> StorageError:
    """The error for tables of another version."""
    return failure(
        f"{location} has format {found}, this version of skerry reads format {FORMAT_VERSION}",
        "use the version of skerry that wrote it, or configure another storage",
    )


def text_of_subject(data: bytes) -> str:
    """A subject from its stored bytes. Databases reject some texts, so subjects are bytes there."""
    return data.decode("utf-8", "surrogatepass")
