"""Creates the routes of types, and keeps count of the subject patterns that may select each type.

To compute the default subject of an object takes longer than the rest of its delivery. So a route
computes it only while some pattern may select default subjects of its type.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from skerry.client.core.known_types import KnownTypes
from skerry.client.core.received_types import ReceivedType
from skerry.client.core.stores import is_protocol, may_select
from skerry.client.core.type_route import Target, TypeRoute
from skerry.client.core.update_intake import UpdateIntake
from skerry.protocol.access.connection import HANDSHAKE
from skerry.protocol.patterns import PatternHandle

DIRECT: Final = frozenset({"SkerryClaimed", "SkerryRequest", "SkerryResponse"})
"""Types that the node sends to one client as an answer, and never to a group."""

SERVICES: Final = DIRECT | {
    "DotsCacheInfo",
    "DotsEcho",
    "EnumDescriptorData",
    "SkerryRefusal",
    "StructDescriptorData",
}
"""Types whose messages the space itself processes."""


class RouteTable:
    def __init__(self, intake: UpdateIntake, types: KnownTypes) -> None:
        self._intake = intake
        self._types = types
        self._patterns: Counter[str] = Counter()
        """Subject patterns that have subscribers, or that the node may still send updates of."""
        self._selected_by: Counter[str] = Counter()
        """How many of them may select objects of each type that has a route."""

    def of_type(self, shape: ReceivedType) -> TypeRoute:
        """The route of a type; it is created if there is none."""
        route = self._intake.routes.get(shape.name)
        if route is None:
            # A pattern may select any type, even those of the handshake.
            is_service = shape.name in SERVICES or shape.name in HANDSHAKE
            route = self._intake.routes[shape.name] = TypeRoute(shape, is_service)
            self._intake.changed()
            self._selected_by[shape.name] = sum(
                count * may_select(pattern, shape) for pattern, count in self._patterns.items()
            )
            route.has_patterns = self._selected_by[shape.name] > 0
            route.changed()
            if self._intake.pattern_count > 0 and self._types.is_narrow(shape.name):
                self.narrowed(shape.name)
        return route

    def of_name(self, name: str) -> TypeRoute | None:
        """The route of a type, if it is subscribed or a pattern may select its objects."""
        route = self._intake.routes.get(name)
        if route is None and self._intake.pattern_count > 0:
            shape = self._types.main_shape(name)
            if shape is not None and not is_protocol(shape):
                route = self.of_type(shape)
        return route

    def redefined(self, name: str) -> None:
        """Use a further definition of a type."""
        for route in (*self._intake.routes.values(), *self._intake.conditions.values()):
            if route.shape.name == name:
                route.redefined()

    def narrowed(self, name: str) -> None:
        """Examine each object of a type, since it may have values that the program cannot read."""
        route = self._intake.routes.get(name)
        if route is not None:
            route.is_service = True
            route.redefined()

    def add_target(self, pattern: str, target: Target) -> PatternHandle:
        """Deliver to a target what a pattern selects, which may be objects of any type."""
        handle = self._intake.patterns.add(pattern, target)
        is_first = self._intake.pattern_count == 0
        self._intake.pattern_count = len(self._intake.patterns)
        if is_first:
            for name in list(self._types.by_name):
                self.of_name(name)
                if self._types.is_narrow(name):
                    # For a pattern the node need not know the program's definition.
                    self.narrowed(name)
        return handle

    def remove_target(self, handle: PatternHandle) -> None:
        self._intake.patterns.remove(handle)
        self._intake.pattern_count = len(self._intake.patterns)

    def count_pattern(self, pattern: str, change: int) -> None:
        """Count a pattern that is subscribed (1) or was left (-1)."""
        self._patterns[pattern] += change
        if not self._patterns[pattern]:
            del self._patterns[pattern]
        for route in self._intake.routes.values():
            if may_select(pattern, route.shape):
                self._selected_by[route.shape.name] += change
                route.has_patterns = self._selected_by[route.shape.name] > 0
                route.changed()
