"""The interface of every storage. Its calls block, so a node makes them in a separate thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from skerry.engine.persistence import StoredObject, StoredType, WriteBatch
from skerry.errors import StorageError

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
