"""Carries values between the machine of a connection, its socket, and the application.

All of the machine is used under one lock, which is held for a datagram or a batch of updates and
never while a callback runs. Whoever publishes sends; whoever drives (a thread, or a loop of
asyncio) reads, and does what is due.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from skerry.client.distributor.config import Config
from skerry.client.distributor.dispatch import Routes
from skerry.client.distributor.outgoing import Outgoing
from skerry.client.distributor.outlet import Outlet
from skerry.errors import LocalProtocolError, WouldBlock
from skerry.limits import DISTRIBUTOR_ROUTE_COUNT_MAX
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import Connection as Machine
from skerry.protocol.distributor.events import (
    CommunicationFailed,
    ConnectionClosed,
    Delivered,
    Direction,
    IdentityTaken,
    Nagging,
    SendersRefused,
    UpdatesLost,
)
from skerry.protocol.distributor.identity import address_bytes, draw_identity
from skerry.protocol.distributor.messages import RETRANSMISSION, UPDATE, UPDATE_HEADER_BYTES
from skerry.protocol.distributor.sealing import Seal
from skerry.protocol.machine import Address, Event
from skerry.protocol.patterns import PatternHandle
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.interfaces import parse_group
from skerry.runtime.multicast import MulticastSocket, SenderNumber

__all__ = ["Carrier", "SubscriberRoutes", "Subscription"]

_READ_COUNT_MAX: Final = 16
"""Calls of the kernel in one go; a few hundred datagrams, before others have their turn."""
_MS: Final = 1_000_000
_FOREVER_NS: Final = 1 << 62
_NOTABLE: Final = (CommunicationFailed, IdentityTaken, Nagging, SendersRefused, UpdatesLost)
"""Events that must not go unheard."""

log = logging.getLogger(__name__)


class Subscription:
    """A pattern of one subscriber, with the tag its updates are delivered with."""

    def __init__(self, routes: SubscriberRoutes, tag: object) -> None:
        self.routes = routes
        self.tag = tag


class SubscriberRoutes(Routes):
    """The subscriptions of one subscriber."""

    def __init__(self, carrier: Carrier) -> None:
        super().__init__()
        self._carrier = carrier
        self.handles: dict[int, PatternHandle] = {}
        self.outlet: Outlet | None = None

    def find(self, subject: str) -> list[object]:
        with self._carrier.lock:
            tags = [s.tag for s in self._carrier.subscriptions(subject) if s.routes is self]
            if len(self.known) >= DISTRIBUTOR_ROUTE_COUNT_MAX:
                self.known.clear()
            self.known[subject] = tags
        return tags

    def changed(self) -> None:
        """Subscriptions came or went."""
        self.known.clear()
        subscriptions = [handle.value for handle in self.handles.values()]
        self.is_single = len(subscriptions) == 1
        if self.is_single:
            (only,) = subscriptions
            assert isinstance(only, Subscription)
            self.tag = only.tag


class Carrier(Outgoing):
    """A connection, driven by somebody else."""

    def __init__(
        self,
        group: str,
        config: Config,
        *,
        seal: Seal | None = None,
        rng: Random | None = None,
        may_wait: bool = True,
    ) -> None:
        """ConfigError for what cannot be used, ConnectFailed if the group cannot be joined.

        With `may_wait` False publishing never waits, and `is_waiting` tells when it should.
        """
        self.group = Address(*parse_group(group))
        self.socket = MulticastSocket(
            self.group,
            interface=config.interface,
            ttl=config.ttl,
            loopback=config.loopback,
            buffer_bytes=config.socket_buffer_bytes,
            trains=config.trains,
        )
        try:
            self.config = _fitted(config, self.socket)
            self._number = None if config.sender_id else SenderNumber(config.sender_id_first)
        except BaseException:
            self.socket.close()
            raise
        rng = rng or Random()
        self.machine = Machine(
            group=self.group,
            identity=draw_identity(
                address=address_bytes(self.socket.interface.address or "0.0.0.0"),
                sender_id=self._number.value if self._number else config.sender_id,
                process_id=os.getpid(),
                wall_ms=wall_ns() // _MS,
                rng=rng,
            ),
            rng=rng,
            now_ns=monotonic_ns(),
            config=self.config,
            seal=seal,
        )
        overhead = UPDATE_HEADER_BYTES + (seal.overhead_bytes if seal else 0) + 1024 + 16
        super().__init__({}, max(0, self.config.segment_bytes - overhead))
        self.lock = threading.Lock()
        self.wake: Callable[[], None] = lambda: None
        """Makes whoever drives look again; may be called by any thread, with the lock held."""
        self.outlets: list[Outlet] = []
        self._subscribers: list[SubscriberRoutes] = []
        self._split: dict[str, list[SubscriberRoutes]] = {}
        self._may_wait = may_wait
        self._failures: dict[Direction, str] = {}
        self._hears_data = True
        self._update_hearing()
        self.deadline_ns = 0
        """When `turn` has something to do, at the latest."""
        self.is_waiting = False
        """Updates wait for bandwidth."""
        self.is_closing = False
        self.is_over = False
        """The machine is done; the socket may be closed."""
        self.publisher_count = 0

    # -- publishing

    def publish_unusual(self, subject: str, data: bytes) -> None:
        if type(data) is not bytes:
            raise TypeError(f"data to publish is bytes and not {type(data).__name__}")
        while True:
            with self.lock:
                self._check_open()
                now_ns = monotonic_ns()
                is_done = self._take_pending(now_ns)
                if is_done:
                    try:
                        self.machine.publish(subject, data, now_ns)
                    except WouldBlock:
                        is_done = False
                ready_ns = self.machine.ready_ns(now_ns)
                self._after_publishing(now_ns)
            if is_done:
                return
            self._wait_until(ready_ns)

    def drain(self) -> None:
        while True:
            with self.lock:
                now_ns = monotonic_ns()
                is_done = self._take_pending(now_ns)
                ready_ns = now_ns if is_done else self.machine.ready_ns(now_ns)
                self._after_publishing(now_ns)
            if is_done or not self._may_wait:
                return
            self._wait_until(ready_ns)

    def flush(self) -> None:
        """Send what is held back."""
        self.drain()
        with self.lock:
            self.is_held = False
            self.machine.flush(monotonic_ns())
            self._send_ready()

    def open_publisher(self, outlet: Outlet) -> None:
        """One publisher more."""
        with self.lock:
            self._check_open()
            self.publisher_count += 1
            self.checked = self.machine.checked_subjects
            self.machine.open_publisher(monotonic_ns())
            self._enter(outlet)

    def close_publisher(self, outlet: Outlet) -> None:
        """One publisher less; what it published is sent."""
        self.drain()
        with self.lock:
            if outlet not in self.outlets:
                return
            self.outlets.remove(outlet)
            self.publisher_count -= 1
            if not self.publisher_count:
                # From now on each update is an unusual case, and is refused.
                self.checked = {}
            self.machine.close_publisher(monotonic_ns())
            self._send_ready()
            self.wake()

    # -- subscribing

    def open_subscriber(self, routes: SubscriberRoutes, outlet: Outlet) -> None:
        """One subscriber more."""
        with self.lock:
            self._check_open()
            routes.outlet = outlet
            self._subscribers.append(routes)
            self._enter(outlet)

    def close_subscriber(self, routes: SubscriberRoutes) -> None:
        """One subscriber less."""
        with self.lock:
            for handle in routes.handles.values():
                self.machine.unsubscribe(handle)
            routes.handles.clear()
            if routes in self._subscribers:
                assert routes.outlet is not None
                self._subscribers.remove(routes)
                self.outlets.remove(routes.outlet)
            self._subscriptions_changed(routes)

    def subscribe(self, routes: SubscriberRoutes, pattern: str, tag: object) -> int:
        """A subscription more; gives its handle."""
        with self.lock:
            self._check_open()
            if routes not in self._subscribers:
                raise LocalProtocolError("the subscriber is closed")
            handle = self.machine.subscribe(pattern, Subscription(routes, tag))
            routes.handles[handle.number] = handle
            self._subscriptions_changed(routes)
            return handle.number

    def unsubscribe(self, routes: SubscriberRoutes, number: int) -> None:
        """A subscription less."""
        with self.lock:
            handle = routes.handles.pop(number, None)
            if handle is None:
                raise LocalProtocolError(f"there is no subscription {number}")
            self.machine.unsubscribe(handle)
            self._subscriptions_changed(routes)

    def subscriptions(self, subject: str) -> list[Subscription]:
        """Those that select a subject; call it with the lock held."""
        return [s for s in self.machine.match(subject) if isinstance(s, Subscription)]

    # -- for who drives it

    def turn(self) -> None:
        """Read what is there, do what is due, and put what comes of it into the outlets."""
        with self.lock:
            if self.is_over:
                return
            now_ns = monotonic_ns()
            self._take_pending(now_ns)
            if not any(outlet.is_full for outlet in self.outlets):
                self._read(now_ns)
            self.machine.advance(now_ns)
            self._after_publishing(now_ns)
            self._route()
            self.deadline_ns = self._deadline_ns(now_ns)

    def run_inline(self) -> None:
        """Deliver to those who are called by whoever drives; to be called by nobody else."""
        for outlet in tuple(self.outlets):
            if outlet.is_inline and not outlet.is_empty:
                outlet.run()

    def read_for_outlet(self) -> None:
        """A `turn` by the thread of an outlet, if nobody is at it already."""
        # Outlets without a thread have their order from the one who drives.
        if not self.deadline_ns or any(outlet.is_inline for outlet in self.outlets):
            return
        self.turn()

    def close(self) -> None:
        """Begin to end: nothing more is taken; `is_over` tells when the last request is served."""
        with self.lock:
            if self.is_closing:
                return
            now_ns = monotonic_ns()
            self._take_pending(now_ns)
            self.is_closing = True
            self.checked = {}
            self.machine.close(now_ns)
            self._send_ready()
            self.wake()

    def end(self) -> None:
        """Leave the group."""
        with self.lock:
            self.is_closing = self.is_over = True
            self.checked = {}
            self.socket.close()
            if self._number is not None:
                self._number.close()

    # -- inside

    def _check_open(self) -> None:
        if self.is_closing:
            raise LocalProtocolError("the connection is closed")

    def _take_pending(self, now_ns: int) -> bool:
        """Hand pending updates to the machine. False if some have to wait for bandwidth."""
        self.is_held = False
        count = len(self.pending)
        if not count:
            self.is_waiting = False
            return True
        if not self.publisher_count:
            # Published by somebody who was just closing.
            del self.pending[:count]
            return True
        taken = self.machine.publish_many(self.pending, 0, now_ns)
        del self.pending[:taken]
        self.is_waiting = taken < count
        return not self.is_waiting

    def _after_publishing(self, now_ns: int) -> None:
        self._send_ready()
        if self.machine.is_holding:
            self.is_held = True
            if self.deadline_ns > now_ns + (self.config.holdback_delay_ms + 1) * _MS:
                self.wake()

    def _send_ready(self) -> None:
        datagrams = self.machine.take_datagrams()
        if not datagrams:
            return
        try:
            self.socket.send_all(datagrams)
        except OSError as error:
            self._failed(Direction.SEND, error)
        else:
            self._failures.pop(Direction.SEND, None)

    def _read(self, now_ns: int) -> None:
        receive, take = self.socket.receive, self.machine.receive
        try:
            for _ in range(_READ_COUNT_MAX):
                datagrams, source = receive()
                for datagram in datagrams:
                    take(datagram, source, now_ns)
        except BlockingIOError:
            self._failures.pop(Direction.RECEIVE, None)
        except OSError as error:
            self._failed(Direction.RECEIVE, error)

    def _failed(self, direction: Direction, error: OSError) -> None:
        """Told once, until it works again or something else is wrong."""
        reason = error.strerror or str(error)
        if self._failures.get(direction) != reason:
            self._failures[direction] = reason
            self.machine.failed(direction, reason)
            self.wake()

    def _deadline_ns(self, now_ns: int) -> int:
        if self.is_waiting:
            return self.machine.ready_ns(now_ns)
        return self.machine.deadline_ns() or _FOREVER_NS

    def _wait_until(self, ready_ns: int) -> None:
        """The publisher pauses; whoever reads does not."""
        if not self._may_wait:
            raise WouldBlock("the bandwidth is used up; wait for `drain`")
        _pause((ready_ns - monotonic_ns()) / 1e9)

    # -- to the outlets

    def _enter(self, outlet: Outlet) -> None:
        self._route()
        self.outlets.append(outlet)
        for found in self.machine.known_senders():
            outlet.put_event(found)
        self._send_ready()
        self.wake()

    def _route(self) -> None:
        for event in self.machine.take_events():
            if isinstance(event, Delivered):
                self._route_updates(event.updates)
            else:
                if isinstance(event, ConnectionClosed):
                    self.is_over = True
                self._route_event(event)

    def _route_event(self, event: Event) -> None:
        is_heard = False
        for outlet in self.outlets:
            outlet.put_event(event)
            is_heard = is_heard or outlet.on_event is not None
        if isinstance(event, _NOTABLE) and not is_heard:
            log.warning("trouble in a multicast group", extra={"event": repr(event)})

    def _route_updates(self, updates: list[tuple[str, bytes]]) -> None:
        if len(self._subscribers) == 1:
            self._give(self._subscribers[0], updates)
            return
        shares: dict[SubscriberRoutes, list[tuple[str, bytes]]] = {}
        for update in updates:
            subscribers = self._split.get(update[0])
            if subscribers is None:
                subscribers = self._find_subscribers(update[0])
            for routes in subscribers:
                share = shares.get(routes)
                if share is None:
                    share = shares[routes] = []
                share.append(update)
        for routes, share in shares.items():
            self._give(routes, share)

    def _find_subscribers(self, subject: str) -> list[SubscriberRoutes]:
        if len(self._split) >= DISTRIBUTOR_ROUTE_COUNT_MAX:
            self._split.clear()
        found = list(dict.fromkeys(s.routes for s in self.subscriptions(subject)))
        self._split[subject] = found
        return found

    def _give(self, routes: SubscriberRoutes, updates: list[tuple[str, bytes]]) -> None:
        outlet = routes.outlet
        assert outlet is not None
        outlet.put_updates(updates)
        if outlet.is_cut and routes.handles:
            for handle in routes.handles.values():
                self.machine.unsubscribe(handle)
            routes.handles.clear()
            self._subscriptions_changed(routes)

    def _subscriptions_changed(self, routes: SubscriberRoutes) -> None:
        # Updates that were read and not yet routed are for those who were there.
        self._route()
        routes.changed()
        self._split.clear()
        self._update_hearing()
        self.wake()

    def _update_hearing(self) -> None:
        """Where nobody listens, data is dropped by the kernel: mostly our own, which comes back."""
        hears_data = any(routes.handles for routes in self._subscribers)
        if hears_data != self._hears_data:
            self._hears_data = hears_data
            self.socket.drop_kinds(*(() if hears_data else (UPDATE, RETRANSMISSION)))


def _fitted(config: Config, made: MulticastSocket) -> Config:
    """The configuration with what depends on this computer."""
    default = DistributorConfig()
    if config.host == default.host:
        name = socket.gethostname()
        config = replace(config, host=name.encode()[: config.control_bytes // 4].decode("ascii", "ignore") or default.host)
    if config.segment_bytes == default.segment_bytes and made.sends_trains:
        # In trains small datagrams cost no more, and a lost frame costs one and not all.
        config = replace(config, segment_bytes=min(config.segment_bytes, made.datagram_bytes_max))
    return config


def _pause(seconds: float) -> None:
    if seconds > 0:
        threading.Event().wait(seconds)
