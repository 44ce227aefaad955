"""Puts received updates into the queues of their subscribers, and events into all queues.

A hot module. All methods except `SubscriberRoutes.find` are called with the connection's lock held.
"""

from __future__ import annotations

import logging
import threading
from time import monotonic_ns
from typing import Final

from skerry.client.distributor.delivery_queue import DeliveryQueue, OnEvent
from skerry.client.distributor.dispatch import Routes
from skerry.errors import LocalProtocolError
from skerry.protocol.distributor.connection import GroupConnection as Machine
from skerry.protocol.distributor.events import (
    CommunicationFailed,
    ConnectionClosed,
    IdentityTaken,
    Nagging,
    SendersRefused,
    StartUnknown,
    TooLargeForJava,
    UpdatesLost,
)
from skerry.protocol.distributor.receiving.deliveries import DeliveryBatch
from skerry.protocol.distributor.receiving.updates import Pairs, Updates
from skerry.protocol.machine import MachineEvent
from skerry.protocol.patterns import PatternHandle

DISTRIBUTOR_ROUTE_COUNT_MAX: Final = 65_536
"""Subjects for which the subscribers and their tags are cached. Beyond it the cache is cleared."""

_NOTABLE: Final = (
    CommunicationFailed,
    IdentityTaken,
    Nagging,
    SendersRefused,
    StartUnknown,
    TooLargeForJava,
    UpdatesLost,
)
"""Events that are logged if no callback receives them."""

log = logging.getLogger(__name__)


class GroupSubscription:
    """A pattern of one subscriber, and the tag of its updates."""

    def __init__(self, routes: SubscriberRoutes, tag: object) -> None:
        self.routes = routes
        self.tag = tag


class SubscriberRoutes(Routes):
    def __init__(self, router: SubscriberRouter) -> None:
        super().__init__()
        self._router = router
        self.handles: dict[int, PatternHandle] = {}
        self.queue: DeliveryQueue | None = None
        self._added_count = 0

    def add(self, handle: PatternHandle) -> None:
        self._added_count += 1
        self.handles[handle.number] = handle

    def find(self, subject: str) -> list[object]:
        with self._router.lock:
            tags = [s.tag for s in self._router.subscriptions(subject) if s.routes is self]
            if len(self.known) >= self._router.route_count_max:
                self.known.clear()
            self.known[subject] = tags
        return tags

    def changed(self) -> None:
        """Forget cached routes after a change of subscriptions."""
        self.known.clear()
        # After a removal one may be left, but updates for the others may still wait.
        self.is_single = len(self.handles) == self._added_count == 1
        if self.is_single:
            (only,) = self.handles.values()
            assert isinstance(only.value, GroupSubscription)
            self.tag = only.value.tag


class SubscriberRouter:
    """The publishers and subscribers of a connection."""

    def __init__(self, machine: Machine, lock: threading.Lock) -> None:
        self._machine = machine
        self.lock = lock
        self.queues: list[DeliveryQueue] = []
        self._subscribers: list[SubscriberRoutes] = []
        self._split: dict[str, list[SubscriberRoutes]] = {}
        self.route_count_max = DISTRIBUTOR_ROUTE_COUNT_MAX
        """Limit of cached subjects."""
        self.is_closing = False
        """Whether the machine has ended all subscriptions."""
        self._tap: OnEvent | None = None

    @property
    def subscriber_count(self) -> int:
        return len(self._subscribers)

    @property
    def has_subscriptions(self) -> bool:
        """Whether there is any subscription, or a tap."""
        return self._tap is not None or any(routes.handles for routes in self._subscribers)

    @property
    def has_room(self) -> bool:
        """Whether no queue is full, so that datagrams may be read."""
        # Called in every turn, so without a generator.
        for queue in self.queues:  # noqa: SIM110
            if queue.is_full:
                return False
        return True

    # -- publishers and subscribers

    def tap(self, taker: OnEvent) -> None:
        """Call `taker` with all events of the machine, with senders and sequence numbers."""
        self._machine.number_updates()
        self._machine.subscribe("/...", None, monotonic_ns())
        self._tap = taker

    def add(self, queue: DeliveryQueue) -> None:
        """Add a queue, and report the known senders to it."""
        self.route()
        self.queues.append(queue)
        for found in self._machine.known_senders():
            queue.put_event(found)

    def add_subscriber(self, routes: SubscriberRoutes, queue: DeliveryQueue) -> None:
        routes.queue = queue
        self._subscribers.append(routes)
        self.add(queue)

    def remove_subscriber(self, routes: SubscriberRoutes) -> None:
        """Remove a subscriber, unless it was removed before."""
        self._unsubscribe_all(routes)
        if routes in self._subscribers:
            assert routes.queue is not None
            self._subscribers.remove(routes)
            self.queues.remove(routes.queue)

    def subscribe(self, routes: SubscriberRoutes, pattern: str, tag: object) -> int:
        """Add a subscription. Returns its handle."""
        if routes not in self._subscribers or (routes.queue and routes.queue.is_cut):
            raise LocalProtocolError("the subscriber is closed")
        handle = self._machine.subscribe(pattern, GroupSubscription(routes, tag), monotonic_ns())
        routes.add(handle)
        self._changed(routes)
        return handle.number

    def unsubscribe(self, routes: SubscriberRoutes, number: int) -> None:
        """Remove a subscription."""
        handle = routes.handles.pop(number, None)
        if handle is None:
            raise LocalProtocolError(f"there is no subscription {number}")
        if not self.is_closing:
            self._machine.unsubscribe(handle)
        self._changed(routes)

    def subscriptions(self, subject: str) -> list[GroupSubscription]:
        return [s for s in self._machine.match(subject) if isinstance(s, GroupSubscription)]

    # -- received updates and events

    def route(self) -> bool:
        """Put the events of the machine into the queues. Returns whether the machine has ended."""
        is_over = False
        for event in self._machine.take_batches():
            if isinstance(event, DeliveryBatch):
                if self._tap is not None:
                    self._tap(event.event())
                if self._subscribers:
                    self._route_updates(event.batch)
            else:
                if self._tap is not None:
                    self._tap(event)
                is_over = is_over or isinstance(event, ConnectionClosed)
                self._route_event(event)
        return is_over

    def _route_event(self, event: MachineEvent) -> None:
        is_received = self._tap is not None
        for queue in self.queues:
            queue.put_event(event)
            is_received = is_received or queue.on_event is not None
        if isinstance(event, _NOTABLE) and not is_received:
            log.warning("trouble in a multicast group", extra={"event": repr(event)})

    def _route_updates(self, updates: Updates) -> None:
        # A tap subscribes to everything, so not all updates are for the only subscriber.
        if len(self._subscribers) == 1 and self._tap is None:
            self._give(self._subscribers[0], updates)
            return
        shares: dict[SubscriberRoutes, Pairs] = {}
        for update in updates.pairs():
            subscribers = self._split.get(update[0])
            if subscribers is None:
                subscribers = self._find_subscribers(update[0])
            for routes in subscribers:
                share = shares.get(routes)
                if share is None:
                    share = shares[routes] = []
                share.append(update)
        for routes, share in shares.items():
            self._give(routes, Updates(share))

    def _find_subscribers(self, subject: str) -> list[SubscriberRoutes]:
        if len(self._split) >= self.route_count_max:
            self._split.clear()
        found = list(dict.fromkeys(s.routes for s in self.subscriptions(subject)))
        self._split[subject] = found
        return found

    def _give(self, routes: SubscriberRoutes, updates: Updates) -> None:
        queue = routes.queue
        assert queue is not None
        queue.put_updates(updates)
        if queue.is_cut and routes.handles:
            self._unsubscribe_all(routes)

    def _unsubscribe_all(self, routes: SubscriberRoutes) -> None:
        if not self.is_closing:
            for handle in routes.handles.values():
                self._machine.unsubscribe(handle)
        routes.handles.clear()
        self._changed(routes)

    def _changed(self, routes: SubscriberRoutes) -> None:
        # Updates that were read before the change are for the subscribers at that time.
        self.route()
        routes.changed()
        self._split.clear()
