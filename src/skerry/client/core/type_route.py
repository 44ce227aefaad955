"""The subscribers and the store of one type in a space. This module is compiled."""

from __future__ import annotations

from typing import Any

from skerry.client.core.received_types import ReceivedType
from skerry.client.core.type_store import TypeStore
from skerry.codec.hot_loops import RouteVersion


class Target:
    """A callback of a subscription, and the class whose objects it receives."""

    def __init__(self, callback: Any, shape: ReceivedType | None) -> None:
        self.callback: Any = callback
        self.shape: ReceivedType | None = shape
        """None if the subscription names no class; it then receives the class of each type."""
        self.is_open: bool = True


class TypeRoute:
    """Where updates of one type, or of one filtered subscription, are stored and delivered.

    After each change of an attribute, `changed` must be called.
    """

    def __init__(self, shape: ReceivedType, is_service: bool) -> None:
        self.shape: ReceivedType = shape
        self.is_service: bool = is_service
        """Whether the space itself examines each object."""
        self.is_condition: bool = False
        """Whether it belongs to a filtered subscription, to which subject patterns do not apply."""
        self.store: TypeStore | None = TypeStore(shape) if shape.is_cached else None
        self.gate: RouteVersion | None = None
        """Shut to invalidate what is cached for headers of this route; None if nothing is."""
        self.has_patterns: bool = False
        """Whether a subject pattern may select objects with a default subject. To compute that
        takes longer than the rest of the delivery."""
        self.is_joined: bool = False
        """Whether the whole type is subscribed, and not only what patterns select."""
        # Both lists are replaced and never changed in place: a callback may subscribe or close
        # while the list is being iterated.
        self.targets: list[Target] = []
        self.filters: list[Any] = []
        """Filtered subscriptions that are evaluated here, because the node has no filters."""

    def redefined(self) -> None:
        """Use a further definition of the type, by which its objects may now be stored."""
        if self.store is None and self.shape.is_cached:
            self.store = TypeStore(self.shape)
        self.changed()

    def changed(self) -> None:
        """Invalidate what is cached for headers."""
        if self.gate is not None:
            self.gate.shut()
