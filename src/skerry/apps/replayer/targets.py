"""The interface of playback targets, and updates that no target accepts."""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

from skerry.client.core.received_types import BYTES_NAME
from skerry.codec.envelope import Update
from skerry.recording.columns import DESCRIPTOR_TYPES
from skerry.schema.model import StructType

_NODE_ONLY: Final = "only a node publishes this type"


class ReplayTarget(Protocol):
    left_out: Counter[str]
    """Updates that could not be played, by reason."""

    async def open(self) -> None: ...
    async def play(self, update: Update, type_: StructType | None) -> bool: ...  # False: left out
    async def begin_round(self) -> None: ...  # of a loop: removes the objects of the last round
    async def close(self, *, waits: bool = True) -> None: ...

    # `close` returns when all updates have arrived, as far as the target can confirm it. Without
    # `waits`, it raises Disconnected at once if they have not.


def unplayable(update: Update, type_: StructType | None) -> str | None:
    """Why an update cannot be played as an object; None if it can."""
    if update.type_name in DESCRIPTOR_TYPES:
        return _NODE_ONLY
    if type_ is None:
        return "its type is not described"
    if type_.flags.internal and type_.name != BYTES_NAME:
        return _NODE_ONLY
    return None


def send_time_ns(update: Update) -> int:
    """The send time of an update, or the time of its row if the sender gave none."""
    return update.sent_ns if update.sent_ns >= 0 else update.time_ns
