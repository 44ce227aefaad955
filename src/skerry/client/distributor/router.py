"""Who of a connection gets what: updates to the subscribers that want them, events to all.

All of it is called with the lock of the connection held, but for `SubscriberRoutes.find`.
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

__all__ = [
    "DISTRIBUTOR_ROUTE_COUNT_MAX",
    "GroupSubscription",
    "SubscriberRouter",
    "SubscriberRoutes",
]

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
"""Events that must not go unheard."""

log = logging.getLogger(__name__)


class GroupSubscription:
    """A pattern of one subscriber, with the tag its updates are delivered with."""

    def __init__(self, routes: SubscriberRoutes, tag: object) -> None:
        self.routes = routes
        self.tag = tag


class SubscriberRoutes(Routes):
    """The subscriptions of one subscriber."""

    def __init__(self, router: SubscriberRouter) -> None:
        super().__init__()
        self._router = router
        self.handles: dict[int, PatternHandle] = {}
        self.outlet: DeliveryQueue | None = None
        self._added_count = 0

    def add(self, handle: PatternHandle) -> None:
        """A subscription more."""
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
        """Subscriptions came or went."""
        self.known.clear()
        # Of several only one may be left, but updates for the others may still wait.
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
        """That of the connection, for those who do not hold it."""
        self.outlets: list[DeliveryQueue] = []
        self._subscribers: list[SubscriberRoutes] = []
        self._split: dict[str, list[SubscriberRoutes]] = {}
        self.route_count_max = DISTRIBUTOR_ROUTE_COUNT_MAX
        """Subjects whose subscribers are remembered."""
        self.is_closing = False
        """The machine has ended all subscriptions by itself."""
        self._tap: OnEvent | None = None

    @property
    def subscriber_count(self) -> int:
        """How many subscribers there are."""
        return len(self._subscribers)

    @property
    def has_subscriptions(self) -> bool:
        """Whether anybody wants anything."""
        return self._tap is not None or any(routes.handles for routes in self._subscribers)

    @property
    def has_room(self) -> bool:
        """Whether there is room for what would be read."""
        # Asked at every turn, so without a generator.
        for outlet in self.outlets:  # noqa: SIM110
            if outlet.is_full:
                return False
        return True

    # -- who there is

    def tap(self, taker: OnEvent) -> None:
        """Somebody takes all there is as the machine tells it, with senders and numbers."""
        self._machine.number_updates()
        self._machine.subscribe("/...", None, monotonic_ns())
        self._tap = taker

    def enter(self, outlet: DeliveryQueue) -> None:
        """Somebody comes, and hears of the senders that are known."""
        self.route()
        self.outlets.append(outlet)
        for found in self._machine.known_senders():
            outlet.put_event(found)

    def enter_subscriber(self, routes: SubscriberRoutes, outlet: DeliveryQueue) -> None:
        """A subscriber comes."""
        routes.outlet = outlet
        self._subscribers.append(routes)
        self.enter(outlet)

    def leave_subscriber(self, routes: SubscriberRoutes) -> None:
        """A subscriber goes, if it is there."""
        self._unsubscribe_all(routes)
        if routes in self._subscribers:
            assert routes.outlet is not None
            self._subscribers.remove(routes)
            self.outlets.remove(routes.outlet)

    def subscribe(self, routes: SubscriberRoutes, pattern: str, tag: object) -> int:
        """A subscription more; gives its handle."""
        if routes not in self._subscribers or (routes.outlet and routes.outlet.is_cut):
            raise LocalProtocolError("the subscriber is closed")
        handle = self._machine.subscribe(pattern, GroupSubscription(routes, tag), monotonic_ns())
        routes.add(handle)
        self._changed(routes)
        return handle.number

    def unsubscribe(self, routes: SubscriberRoutes, number: int) -> None:
        """A subscription less."""
        handle = routes.handles.pop(number, None)
        if handle is None:
            raise LocalProtocolError(f"there is no subscription {number}")
        if not self.is_closing:
            self._machine.unsubscribe(handle)
        self._changed(routes)

    def subscriptions(self, subject: str) -> list[GroupSubscription]:
        """Those that select a subject."""
        return [s for s in self._machine.match(subject) if isinstance(s, GroupSubscription)]

    # -- what comes

    def route(self) -> bool:
        """Put what the machine tells into the outlets. Whether it told the end of all."""
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

    # -- inside

    def _route_event(self, event: MachineEvent) -> None:
        is_heard = self._tap is not None
        for outlet in self.outlets:
            outlet.put_event(event)
            is_heard = is_heard or outlet.on_event is not None
        if isinstance(event, _NOTABLE) and not is_heard:
            log.warning("trouble in a multicast group", extra={"event": repr(event)})

    def _route_updates(self, updates: Updates) -> None:
        # A tap takes all there is, and then not all of it is for the only subscriber.
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
        outlet = routes.outlet
        assert outlet is not None
        outlet.put_updates(updates)
        if outlet.is_cut and routes.handles:
            self._unsubscribe_all(routes)

    def _unsubscribe_all(self, routes: SubscriberRoutes) -> None:
        if not self.is_closing:
            for handle in routes.handles.values():
                self._machine.unsubscribe(handle)
        routes.handles.clear()
        self._changed(routes)

    def _changed(self, routes: SubscriberRoutes) -> None:
        # Updates that were read and not yet routed are for those who were there.
        self.route()
        routes.changed()
        self._split.clear()
