"""What every storage does. It blocks, so a running node leaves it to the thread of its keeper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from skerry.engine.persistence import StoredObject, StoredType, WriteBatch
from skerry.errors import StorageError

__all__ = ["FORMAT_VERSION", "Storage", "failure", "text_of_subject", "wrong_version"]

FORMAT_VERSION: Final = 1
"""Of the tables. A storage with another one is not touched."""


class Storage(Protocol):
    """Objects on a disk, for one node at a time. Every fault is a StorageError."""

    @property
    def place(self) -> str:
        """Where it is, for messages; without a password."""

    def meta(self) -> dict[str, int]:
        """The small values that came with the batches."""

    def load(self) -> Iterator[StoredType | StoredObject]:
        """All objects, and before them their types. It reads as it goes; nobody writes meanwhile.

        A type that has no objects any more binds nobody, so it is left out.
        """

    def write(self, batch: WriteBatch) -> None:
        """Write all of the batch, as durable as the sync policy says, or nothing of it."""

    def close(self) -> None:
        """Let another node have it."""


def failure(message: str, hint: str | None = None) -> StorageError:
    """The error with that message and advice."""
    error = StorageError(message)
    error.hint = hint
    return error


def wrong_version(place: str, found: int) -> StorageError:
    """The error for tables of another format."""
    return failure(
        f"{place} has format {found}, this skerry reads format {FORMAT_VERSION}",
        "use the skerry that wrote it, or name another place for the storage",
    )


def text_of_subject(data: bytes) -> str:
    """A subject from its stored bytes. They are kept as bytes since databases refuse some texts."""
    return data.decode("utf-8", "surrogatepass")
