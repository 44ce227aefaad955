"""What is left to do when clients are gone, done in slices.

A client may be in thousands of groups, have thousands of claims and definitions, and hundreds of
clients may leave together, when a computer is switched off. So all that is proportional to what a
client had is done step by step, and other clients have their turn between two slices. Until its
step comes, a client that is gone is still in its groups: what is delivered to it expires.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from skerry.engine.clients import Client
from skerry.engine.routing import Routing
from skerry.engine.services import Services
from skerry.engine.sweeps import Sweeps
from skerry.engine.types import Types
from skerry.limits import SELECT_SLICE_COUNT

if TYPE_CHECKING:
    from skerry.engine.node import NodeCore

__all__ = ["Departures"]

_SLOTS_PER_STEP: Final = 500
_LOOKS_PER_STEP: Final = 100
"""For how many looks it counts that so many updates expire which waited for the client."""


class Departures:
    """All clients that are gone and not forgotten yet."""

    def __init__(
        self, node: NodeCore, routing: Routing, services: Services, types: Types, sweeps: Sweeps
    ) -> None:
        self._node = node
        self._routing = routing
        self._services = services
        self._types = types
        self._sweeps = sweeps
        self._waiting: deque[Iterator[int]] = deque()
        """The steps of each client, of which each gives for how many looks it counts."""
        self._looks = SELECT_SLICE_COUNT
        self._is_busy = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def begin_turn(self) -> None:
        """Other clients had their turn."""
        self._looks = SELECT_SLICE_COUNT

    def begin(self, client: Client) -> None:
        """Forget a client that is gone, as far as this turn allows."""
        self._waiting.append(self._steps(client))
        self._go_on()

    def advance(self) -> None:
        """Do a slice of what is left."""
        self.begin_turn()
        self._go_on()

    def complete(self) -> None:
        """Do all that is left."""
        while self._waiting:
            self.advance()

    def _go_on(self) -> None:
        # A step may end another client, whose steps come after this.
        if self._is_busy:
            return
        self._is_busy = True
        while self._looks > 0 and self._waiting:
            cost = next(self._waiting[0], None)
            if cost is None:
                self._waiting.popleft()
                cost = 1
            self._looks -= cost
        self._is_busy = False

    def _steps(self, client: Client) -> Iterator[int]:
        while client.slots:
            client.slots.expire(_SLOTS_PER_STEP)
            yield _LOOKS_PER_STEP
        yield from self._routing.leaving(client)
        yield from self._services.leaving(client)
        now_ns = self._node.now_ns
        for name in client.lane.published:
            topic = self._types.topic(name)
            if topic is not None and topic.type.flags.cleanup and topic.is_cached:
                self._sweeps.clean_up(topic, client.client_id, self._node.wall_ns(now_ns))
        self._node.cache.left(client.client_id)
        self._node.shares.left(client.holder)
