"""What takes recorded updates again, and what none of them takes."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from skerry.client.core.events import BYTES_NAME
from skerry.codec.envelope import Update
from skerry.recording.columns import DESCRIPTOR_TYPES
from skerry.schema.model import StructType

__all__ = ["ReplayTarget", "sent_ns_of", "unplayable"]


class ReplayTarget(Protocol):
    """Takes updates again."""

    left_out: Counter[str]
    """Updates that could not be played, by reason."""

    async def open(self) -> None: ...
    async def play(self, update: Update, type_: StructType | None) -> bool: ...  # not if left out
    async def begin_round(self) -> None: ...  # of a loop: what is there goes
    async def close(self, *, waits: bool = True) -> None: ...

    # When this returns all has arrived, as far as one can know. Who does not wait is told at once
    # that it did not.


def unplayable(update: Update, type_: StructType | None) -> str | None:
    """Why an update cannot be played as an object, if so."""
    if update.type_name in DESCRIPTOR_TYPES:
        return "only a node says this"
    if type_ is None:
        return "its type is not described"
    if type_.flags.internal and type_.name != BYTES_NAME:
        return "only a node says this"
    return None


def sent_ns_of(update: Update) -> int:
    """When it was sent; where nobody told that, when it came."""
    return update.sent_ns if update.sent_ns >= 0 else update.time_ns
