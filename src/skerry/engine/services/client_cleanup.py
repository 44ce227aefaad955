"""Cleanup after clients that disconnected, in slices.

A client may be in thousands of groups and have thousands of claims and definitions, and hundreds
of clients may disconnect together, when a computer is switched off. So work that is proportional
to what a client had is done step by step, and other clients have their turn between two slices.
Until its memberships are removed, updates are still delivered to the client and expire at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from skerry.engine.clients import Client
from skerry.engine.connections.service_host import ServiceHost
from skerry.engine.dispatch.routing import Routing
from skerry.engine.services.node_services import NodeServices
from skerry.engine.types.type_table import TypeTable
from skerry.limits import SELECT_SLICE_COUNT

_SLOTS_PER_STEP: Final = 500
_WORK_PER_STEP: Final = 100
"""Work units for the expiry of so many updates that were queued for the client."""


class ClientCleanup:
    def __init__(
        self,
        node: ServiceHost,
        routing: Routing,
        services: NodeServices,
        types: TypeTable,
    ) -> None:
        self._node = node
        self._routing = routing
        self._services = services
        self._types = types
        self._waiting: deque[Iterator[int]] = deque()
        """The steps of each client; each step returns the work units that it took."""
        self._work_left = SELECT_SLICE_COUNT
        self._is_busy = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def begin_turn(self) -> None:
        """Start another turn, after other clients had theirs."""
        self._work_left = SELECT_SLICE_COUNT

    def begin(self, client: Client) -> None:
        """Clean up after a client that disconnected, as far as this turn allows."""
        self._waiting.append(self._steps(client))
        self._go_on()

    def advance(self) -> None:
        """Do one slice of the remaining work."""
        self.begin_turn()
        self._go_on()

    def complete(self) -> None:
        """Do all remaining work."""
        while self._waiting:
            self.advance()

    def _go_on(self) -> None:
        # A step may disconnect another client, whose steps follow.
        if self._is_busy:
            return
        self._is_busy = True
        while self._work_left > 0 and self._waiting:
            cost = next(self._waiting[0], None)
            if cost is None:
                self._waiting.popleft()
                cost = 1
            self._work_left -= cost
        self._is_busy = False

    def _steps(self, client: Client) -> Iterator[int]:
        while client.slots:
            client.slots.expire(_SLOTS_PER_STEP)
            yield _WORK_PER_STEP
        yield from self._routing.leaving(client)
        yield from self._services.leaving(client)
        clock = self._node.clock
        wall_ns = clock.wall_ns(clock.now_ns)
        for name in client.queue.source.published:
            # Only a type whose objects are removed with the client needs a topic.
            topic = self._types.topic(name) if self._types.is_cleaned_up(name) else None
            if topic is not None:
                self._node.bulk_removals.clean_up(topic, client.client_id, wall_ns)
            yield 1 + self._types.take_work()
        self._node.cache.quotas.client_left(client.client_id)
        self._node.shares.left(client.holder)
