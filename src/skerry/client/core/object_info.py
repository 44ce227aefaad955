"""Where an object came from: the facts a container keeps beside it, which do not travel."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.codec.hot_loops import ObjectState

__all__ = ["ObjectInfo", "info_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """Who made an object and who changed it last. Times are seconds since the epoch.

    What is known is what was seen: of an object that was there before we asked, the making is
    that of the last change. A message has no second change.
    """

    last_operation: str
    """`create`, `update` or `remove`."""
    created: float
    """When the publisher sent it."""
    created_from: int
    """Number of the client that published it; 1 is the node itself."""
    modified: float
    modified_from: int
    received: float
    """When the last change arrived here."""


def info_of(state: ObjectState) -> ObjectInfo:
    """The facts beside an object, from its state."""
    return ObjectInfo(
        last_operation=state.operation,
        created=state.created,
        created_from=state.created_from,
        modified=state.modified,
        modified_from=state.modified_from,
        received=state.received,
    )
