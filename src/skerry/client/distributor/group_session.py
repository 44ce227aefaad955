"""A connection to a multicast group, shared by its publishers and subscribers.

A hot module. The machine is used under one lock, which is held for a datagram or a batch of updates
and never while a callback runs. Publishers send on their own threads. One thread, or an asyncio
loop, drives the connection: it reads, and does what is due.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from random import Random
from time import monotonic_ns
from typing import Final

from skerry.client.distributor.config import Config
from skerry.client.distributor.delivery_queue import DeliveryQueue, OnEvent
from skerry.client.distributor.publish_buffer import PublishBuffer
from skerry.client.distributor.router import SubscriberRouter, SubscriberRoutes
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.receiving.link_quality import LinkReport
from skerry.protocol.machine import Address
from skerry.protocol.sealing.seal import Seal
from skerry.runtime.udp.group_driver import GroupDriver, host_name
from skerry.runtime.udp.interfaces import parse_group

_FOREVER_NS: Final = 1 << 62


class GroupSession:
    """A connection to a group. A thread or a loop calls `turn`, or its parts, to drive it."""

    def __init__(
        self,
        group: str,
        config: Config,
        *,
        seal: Seal | None = None,
        rng: Random | None = None,
        may_wait: bool = True,
    ) -> None:
        """Raises ConfigError for an invalid value, ConnectFailed if the group cannot be joined.

        With `may_wait` False publishing never waits; `publishing.is_waiting` is then true while
        updates wait for bandwidth.
        """
        if seal is None and config.key_file:
            # Imported here, since most programs do not need the library.
            from skerry.runtime.key_files import open_seal

            seal = open_seal(config.key_file, freshness_s=config.freshness_s)
        self.config = _with_host_name(config)
        self.driver = GroupDriver(
            Address(*parse_group(group)),
            self.config,
            rng=rng or Random(),
            seal=seal,
            trains=config.trains,
            hears_own=config.hears_own,
        )
        self.group = self.driver.group
        self.machine = self.driver.machine
        self.lock = threading.Lock()
        self.publishing = PublishBuffer(
            self.driver,
            self.lock,
            seal_bytes=seal.overhead_bytes if seal else 0,
            holdback_delay_ms=config.holdback_delay_ms,
            may_wait=may_wait,
        )
        self.router = SubscriberRouter(self.machine, self.lock)
        self.name = f"distributor {self.group.host}:{self.group.port}"
        """For threads and statistics."""
        self.deadline_ns = 0
        """When `turn` has something to do, at the latest."""
        self.is_over = False
        """Whether the machine has ended; the socket may be closed then."""
        self._acquire: Callable[[], object] = self.lock.acquire
        self._release: Callable[[], object] = self.lock.release
        self._filter_data()

    @property
    def fitted_config(self) -> Config:
        """The parameters in use, with the size of datagrams that was chosen."""
        return replace(self.config, segment_bytes=self.machine.segment_bytes)

    def set_waker(self, wake: Callable[[], None]) -> None:
        """Set the function that wakes the driving thread or loop. Any thread may call it."""
        self.publishing.wake = self.driver.wake = wake

    def wake(self) -> None:
        self.publishing.wake()

    # -- publishers

    def open_publisher(self, queue: DeliveryQueue) -> None:
        """Add a publisher, with the queue for its events."""
        publishing = self.publishing
        with self.lock:
            publishing.check_open()
            publishing.publisher_count += 1
            publishing.check_again(self.machine.checked_subjects)
            self.machine.open_publisher(monotonic_ns())
            self._filter_data()
            self.router.add(queue)
            self.driver.send_ready()
            self.wake()

    def close_publisher(self, queue: DeliveryQueue) -> None:
        """Remove a publisher, after its updates are sent."""
        publishing = self.publishing
        publishing.drain()
        with self.lock:
            if queue not in self.router.queues:
                return
            self.router.queues.remove(queue)
            publishing.publisher_count -= 1
            if not publishing.publisher_count:
                # From now on each update is checked, and rejected.
                publishing.check_again({})
            if not publishing.is_closing:
                self.machine.close_publisher(monotonic_ns())
                self.driver.send_ready()
                self.wake()

    # -- subscribers

    def open_subscriber(self, routes: SubscriberRoutes, queue: DeliveryQueue) -> None:
        """Add a subscriber, with the queue for its updates and events."""
        with self.lock:
            self.publishing.check_open()
            self.router.add_subscriber(routes, queue)
            self.wake()

    def close_subscriber(self, routes: SubscriberRoutes) -> None:
        with self.lock:
            self.router.remove_subscriber(routes)
            self._filter_data()
            self.wake()

    def subscribe(self, routes: SubscriberRoutes, pattern: str, tag: object) -> int:
        """Add a subscription. Returns its handle."""
        with self.lock:
            self.publishing.check_open()
            number = self.router.subscribe(routes, pattern, tag)
            self._filter_data()
            self.wake()
            return number

    def unsubscribe(self, routes: SubscriberRoutes, number: int) -> None:
        with self.lock:
            self.router.unsubscribe(routes, number)
            self._filter_data()
            self.wake()

    def tap(self, taker: OnEvent) -> None:
        """Call `taker` with all events of the machine; it is called with the lock held."""
        with self.lock:
            self.publishing.check_open()
            self.router.tap(taker)
            self._filter_data()
            self.wake()

    def take_links(self) -> list[LinkReport]:
        """The link quality of each sender since the last call, for senders with datagrams."""
        with self.lock:
            return self.machine.take_links()

    # -- driving

    def turn(self) -> int:
        """Read, do what is due, and put the results into the queues. Returns the time of that."""
        now_ns = self.receive()
        self.settle()
        return now_ns

    def receive(self) -> int:
        """The first half of a `turn`: read. `is_due` returns whether the other half is needed.

        A caller that delivers in between delivers updates as early as possible.
        """
        self._acquire()
        try:
            now_ns = monotonic_ns()
            if not self.is_over and self.router.has_room:
                self.driver.read(now_ns)
                self.is_over = self.router.route()
        finally:
            self._release()
        return now_ns

    def is_due(self, now_ns: int) -> bool:
        """Whether there is something to do before `deadline_ns`."""
        if now_ns >= self.deadline_ns or self.publishing.pending or self.machine.has_ready:
            return True
        due_ns = self.machine.deadline_ns()
        return due_ns is not None and due_ns < self.deadline_ns

    def settle(self) -> None:
        """The other half of a `turn`: do what is due."""
        self._acquire()
        try:
            if not self.is_over:
                now_ns = monotonic_ns()
                publishing = self.publishing
                publishing.take_pending(now_ns)
                self.machine.advance(now_ns)
                publishing.fit_segments()
                self.driver.send_ready()
                publishing.send_if_due(now_ns)
                self.is_over = self.router.route()
                self.deadline_ns = publishing.deadline_ns = self._next_ns(now_ns)
        finally:
            self._release()

    def run_inline(self) -> None:
        """Deliver to subscribers without a thread; only the driving thread may call this."""
        # A copy: a callback may open or close subscribers.
        for queue in self.router.queues[:]:
            if queue.is_inline and not queue.is_empty:
                queue.run()

    def read_for_queue(self) -> None:
        """A `turn` by the thread of a delivery queue, unless the driving thread delivers."""
        # Queues without a thread get their order from the driving thread.
        if not self.deadline_ns or any(queue.is_inline for queue in self.router.queues):
            return
        before_ns = self.deadline_ns
        self.turn()
        if self.deadline_ns < before_ns or self.is_over:
            # The driving thread sleeps too long, since it has not seen what was read here.
            self.wake()

    def close(self) -> None:
        """Begin to close: nothing more is published; `is_over` is set after the last repair."""
        with self.lock:
            publishing = self.publishing
            if publishing.is_closing:
                return
            now_ns = monotonic_ns()
            publishing.take_pending(now_ns)
            publishing.is_closing = self.router.is_closing = True
            publishing.check_again({})
            self.machine.close(now_ns)
            self.driver.send_ready()
            self.wake()

    def end(self) -> None:
        with self.lock:
            self.publishing.is_closing = self.is_over = self.router.is_closing = True
            self.publishing.check_again({})
            self.driver.close()

    def _next_ns(self, now_ns: int) -> int:
        if self.publishing.is_waiting:
            return self.machine.ready_ns(now_ns)
        return self.machine.deadline_ns() or _FOREVER_NS

    def _filter_data(self) -> None:
        self.driver.filter_data(is_wanted=self.router.has_subscriptions)


def _with_host_name(config: Config) -> Config:
    """The configuration with the name of this computer, unless another name is configured."""
    default = DistributorConfig()
    if config.host != default.host:
        return config
    return replace(config, host=host_name(config.control_bytes // 4) or default.host)
