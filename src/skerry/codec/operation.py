"""What an update did to an object, as subscribers see it."""

from __future__ import annotations

from enum import StrEnum


class Operation(StrEnum):
    """What an update did. Each is equal to its text, so `event.operation == "create"` holds."""

    CREATE = "create"
    """The object did not exist for this subscriber, or it is a message."""
    UPDATE = "update"
    REMOVE = "remove"
