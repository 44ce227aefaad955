"""Carries values between the machine of a connection, its socket, and the application.

All of the machine is used under one lock, which is held for a datagram or a batch of updates and
never while a callback runs. Whoever publishes sends; whoever drives (a thread, or a loop of
asyncio) reads, and does what is due.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from random import Random
from time import monotonic_ns
from typing import Final

from skerry.client.distributor.config import Config
from skerry.client.distributor.delivery_queue import DeliveryQueue, OnEvent
from skerry.client.distributor.outgoing import PublishBuffer
from skerry.client.distributor.router import SubscriberRouter, SubscriberRoutes
from skerry.errors import LocalProtocolError, WouldBlock
from skerry.limits import DISTRIBUTOR_BATCH_BYTES
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection as Machine
from skerry.protocol.distributor.events import Direction
from skerry.protocol.distributor.identity import SenderIdentity, address_bytes, draw_identity
from skerry.protocol.distributor.messages import (
    RETRANSMISSION,
    UPDATE,
    UPDATE_HEADER_BYTES,
    DatagramHeader,
)
from skerry.protocol.distributor.receiving.link_quality import Link
from skerry.protocol.distributor.sealing.seal import Seal
from skerry.protocol.distributor.wire import wire_of
from skerry.protocol.machine import Address
from skerry.runtime.clock import wall_ns
from skerry.runtime.udp.interfaces import parse_group
from skerry.runtime.udp.multicast import MulticastSocket, SenderNumber

__all__ = ["GroupDriver"]

_READ_COUNT_MAX: Final = 16
"""Calls of the kernel in one go, before others have their turn."""
_READ_BYTES_MAX: Final = 250_000
"""The same in bytes: no more than stays in the cache of a processor until it is delivered."""
_MORE_BYTES: Final = 32_000
_ALONE_NS: Final = 200_000
"""After a pause like this, less than so many bytes probably are all there is to read. Whoever
drives is told if not, and asking costs as much as reading."""
_MS: Final = 1_000_000
_DATA: Final = (UPDATE, RETRANSMISSION)
_FOREVER_NS: Final = 1 << 62
_BACKLOG_NS: Final = 50_000_000
"""The longest sleep of a publisher before it checks again whether its update is sent."""


class GroupDriver(PublishBuffer):
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
        if seal is None and config.key_file:
            # Only who seals pays for the library.
            from skerry.runtime.key_files import open_seal

            seal = open_seal(config.key_file, freshness_s=config.freshness_s)
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
            self.config = _fitted(config)
            self._number = None if config.sender_id else SenderNumber(config.sender_id_first)
        except BaseException:
            self.socket.close()
            raise
        rng = rng or Random()
        self.machine = Machine(
            group=self.group,
            identity=draw_identity(
                address=_address(self.socket),
                sender_id=self._number.value if self._number else config.sender_id,
                process_id=os.getpid(),
                wall_ms=wall_ns() // _MS,
                rng=rng,
            ),
            rng=rng,
            now_ns=monotonic_ns(),
            config=self.config,
            seal=seal,
            segment_bytes=self.socket.segment_bytes,
            wall_offset_ns=wall_ns() - monotonic_ns(),
            hears_own=self.config.hears_own,
        )
        # Between head and data of an update stands its length.
        self._overhead_bytes = UPDATE_HEADER_BYTES + (seal.overhead_bytes if seal else 0) + 4
        small_bytes_max = self.machine.segment_bytes - self._overhead_bytes
        super().__init__(self.machine.packer, {}, small_bytes_max)
        self.lock = threading.Lock()
        self._acquire: Callable[[], object] = self.lock.acquire
        self._release: Callable[[], object] = self.lock.release
        self.wake: Callable[[], None] = lambda: None
        """Makes whoever drives look again; may be called by any thread, with the lock held."""
        self.router = SubscriberRouter(self.machine, self.lock)
        self._may_wait = may_wait
        self._failures: dict[Direction, str] = {}
        self._own: tuple[SenderIdentity | None, bytes] = None, b""
        self._dropped: tuple[bytes, ...] = ()
        self._read_ns = 0
        self._hears_own = self.config.hears_own
        # A millisecond more, so that nobody is woken for nothing.
        self._holdback_ns = (self.config.holdback_delay_ms + 1) * _MS
        self.name = f"distributor {self.group.host}:{self.group.port}"
        """For threads and statistics."""
        self.deadline_ns = 0
        """When `turn` has something to do, at the latest."""
        self.is_waiting = False
        """Updates wait for bandwidth."""
        self.is_closing = False
        self.is_over = False
        """The machine is done; the socket may be closed."""
        self.publisher_count = 0
        self._update_hearing()

    @property
    def fitted_config(self) -> Config:
        """The parameters in use, with the size of datagrams that was chosen."""
        return replace(self.config, segment_bytes=self.machine.segment_bytes)

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
                break
            self._wait_until(ready_ns)
        if len(data) > self.small_bytes_max:
            self._send_backlog()

    def publish_one(self, head: bytes, data: bytes) -> None:
        self._acquire()
        try:
            now_ns = monotonic_ns()
            is_done = not self.pending
            if is_done:
                try:
                    self.packer.publish_cut(head, data, now_ns)
                except WouldBlock:
                    is_done = False
            if is_done:
                self._after_publishing(now_ns)
            else:
                self.pending.extend((head + len(data).to_bytes(4, "big"), data))
        finally:
            self._release()
        if not is_done:
            self.drain()

    def drain(self) -> None:
        while True:
            with self.lock:
                now_ns = monotonic_ns()
                is_done = self._take_pending(now_ns)
                ready_ns = now_ns if is_done else self.machine.ready_ns(now_ns)
                self._after_publishing(now_ns)
            if is_done:
                return
            if not self._may_wait:
                # Whoever drives will hand it over.
                self.wake()
                return
            self._wait_until(ready_ns)

    def ready_ns(self) -> int:
        """When there is bandwidth again."""
        with self.lock:
            return self.machine.ready_ns(monotonic_ns())

    def flush(self) -> None:
        """Send what is held back."""
        if not self.pending and not self.packer.count and not self.machine.has_ready:
            return
        self.drain()
        with self.lock:
            self.pending_count_max = 0
            self.machine.flush(monotonic_ns())
            self._send_ready()

    def open_publisher(self, outlet: DeliveryQueue) -> None:
        """One publisher more."""
        with self.lock:
            self._check_open()
            self.publisher_count += 1
            self.check_anew(self.machine.checked_subjects)
            self.machine.open_publisher(monotonic_ns())
            self._update_hearing()
            self.router.enter(outlet)
            self._send_ready()
            self.wake()

    def close_publisher(self, outlet: DeliveryQueue) -> None:
        """One publisher less; what it published is sent."""
        self.drain()
        with self.lock:
            if outlet not in self.router.outlets:
                return
            self.router.outlets.remove(outlet)
            self.publisher_count -= 1
            if not self.publisher_count:
                # From now on each update is an unusual case, and is refused.
                self.check_anew({})
            if not self.is_closing:
                self.machine.close_publisher(monotonic_ns())
                self._send_ready()
                self.wake()

    # -- subscribing

    def open_subscriber(self, routes: SubscriberRoutes, outlet: DeliveryQueue) -> None:
        """One subscriber more."""
        with self.lock:
            self._check_open()
            self.router.enter_subscriber(routes, outlet)
            self.wake()

    def close_subscriber(self, routes: SubscriberRoutes) -> None:
        """One subscriber less."""
        with self.lock:
            self.router.leave_subscriber(routes)
            self._update_hearing()
            self.wake()

    def subscribe(self, routes: SubscriberRoutes, pattern: str, tag: object) -> int:
        """A subscription more; gives its handle."""
        with self.lock:
            self._check_open()
            number = self.router.subscribe(routes, pattern, tag)
            self._update_hearing()
            self.wake()
            return number

    def unsubscribe(self, routes: SubscriberRoutes, number: int) -> None:
        """A subscription less."""
        with self.lock:
            self.router.unsubscribe(routes, number)
            self._update_hearing()
            self.wake()

    def tap(self, taker: OnEvent) -> None:
        """Let somebody take all there is, as the machine tells it; called with the lock held."""
        with self.lock:
            self._check_open()
            self.router.tap(taker)
            self._update_hearing()
            self.wake()

    def take_links(self) -> list[Link]:
        """What became of the datagrams of each sender since the last call, where any came."""
        with self.lock:
            return self.machine.take_links()

    # -- for who drives it

    def wake_up(self) -> None:
        """`wake`, whatever that is by then."""
        self.wake()

    def turn(self) -> int:
        """Read what is there, do what is due, and put what comes of it into the outlets.

        Gives the time at which it did so.
        """
        now_ns = self.hear()
        self.settle()
        return now_ns

    def hear(self) -> int:
        """The first half of a `turn`: read what is there. `is_due` tells if the other is needed.

        Who delivers in between has the updates as early as can be.
        """
        self._acquire()
        try:
            now_ns = monotonic_ns()
            if not self.is_over and self.router.has_room:
                self._read(now_ns)
                self.is_over = self.router.route()
        finally:
            self._release()
        return now_ns

    def is_due(self, now_ns: int) -> bool:
        """Whether there is anything to do but to wait until `deadline_ns`."""
        if now_ns >= self.deadline_ns or self.pending or self.machine.has_ready:
            return True
        due_ns = self.machine.deadline_ns()
        return due_ns is not None and due_ns < self.deadline_ns

    def settle(self) -> None:
        """The other half of a `turn`: do what is due."""
        self._acquire()
        try:
            if not self.is_over:
                now_ns = monotonic_ns()
                self._take_pending(now_ns)
                self.machine.advance(now_ns)
                self.small_bytes_max = self.machine.segment_bytes - self._overhead_bytes
                self._send_ready()
                self._after_publishing(now_ns)
                self.is_over = self.router.route()
                self.deadline_ns = self._deadline_ns(now_ns)
        finally:
            self._release()

    def run_inline(self) -> None:
        """Deliver to those who are called by whoever drives; to be called by nobody else."""
        # A copy: a callback may open or close others.
        for outlet in self.router.outlets[:]:
            if outlet.is_inline and not outlet.is_empty:
                outlet.run()

    def read_for_outlet(self) -> None:
        """A `turn` by the thread of an outlet, if nobody is at it already."""
        # Outlets without a thread have their order from the one who drives.
        if not self.deadline_ns or any(outlet.is_inline for outlet in self.router.outlets):
            return
        before_ns = self.deadline_ns
        self.turn()
        if self.deadline_ns < before_ns or self.is_over:
            # Whoever drives sleeps until then, and has not seen what was read here.
            self.wake()

    def close(self) -> None:
        """Begin to end: nothing more is taken; `is_over` tells when the last request is served."""
        with self.lock:
            if self.is_closing:
                return
            now_ns = monotonic_ns()
            self._take_pending(now_ns)
            self.is_closing = self.router.is_closing = True
            self.check_anew({})
            self.machine.close(now_ns)
            self._send_ready()
            self.wake()

    def end(self) -> None:
        """Leave the group."""
        with self.lock:
            self.is_closing = self.is_over = self.router.is_closing = True
            self.check_anew({})
            self.socket.close()
            if self._number is not None:
                self._number.close()

    # -- inside

    def _check_open(self) -> None:
        if self.is_closing:
            raise LocalProtocolError("the connection is closed")

    def _take_pending(self, now_ns: int) -> bool:
        """Hand pending updates to the machine. False if some have to wait for bandwidth."""
        self.pending_count_max = 0
        count = len(self.pending)
        if not count:
            self.is_waiting = False
            return True
        if not self.publisher_count:
            # Published by somebody who was just closing.
            del self.pending[:count]
            return True
        self.set_batch(1, len(self.pending[0]) + len(self.pending[1]))
        taken = self.machine.publish_pieces(self.pending, now_ns)
        del self.pending[:taken]
        self.is_waiting = taken < count
        return not self.is_waiting

    def _after_publishing(self, now_ns: int) -> None:
        machine = self.machine
        if not machine.may_send_later(DISTRIBUTOR_BATCH_BYTES):
            self._send_ready()
        if machine.is_holding:
            self.pending_count_max = self.batch_count_max
            if self.deadline_ns > now_ns + self._holdback_ns:
                self.wake()

    def _send_backlog(self) -> None:
        """After a large update: send the backlog, or leave it to the thread that drives."""
        # There may be events to report.
        self.wake()
        while self._may_wait and self.machine.has_backlog and not self.is_over:
            with self.lock:
                now_ns = monotonic_ns()
                self.machine.advance(now_ns)
                self._send_ready()
                due_ns = self.machine.deadline_ns() or now_ns
            _pause(min(due_ns - monotonic_ns(), _BACKLOG_NS) / 1e9)

    def _send_ready(self) -> None:
        if not self.machine.has_ready:
            return
        datagrams = self.machine.take_datagrams()
        if self.is_over:
            return
        try:
            self.socket.send_all(datagrams)
        except OSError as error:
            self._failed(Direction.SEND, error)
        else:
            if self._failures:
                self._failures.pop(Direction.SEND, None)

    def _read(self, now_ns: int) -> None:
        # Called by their names, and not by names of their own: compiled, that is a call of C.
        made, machine = self.socket, self.machine
        own = b"" if self._hears_own else self._own_bytes()
        is_alone = now_ns - self._read_ns > _ALONE_NS
        self._read_ns = now_ns
        try:
            left_bytes = _READ_BYTES_MAX
            for _ in range(_READ_COUNT_MAX):
                data, size, source = made.receive()
                left_bytes -= len(data)
                if own and data[4:16] == own and data[2] in _DATA:
                    # All datagrams that came at once are of one sender, and of one kind.
                    continue
                machine.receive_segments(data, size, source, now_ns)
                if left_bytes <= 0 or (is_alone and len(data) < _MORE_BYTES):
                    break
        except BlockingIOError:
            pass  # That was all.
        except OSError as error:
            self._failed(Direction.RECEIVE, error)
            return
        if self._failures:
            self._failures.pop(Direction.RECEIVE, None)

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

    def _update_hearing(self) -> None:
        """Data that nobody wants is dropped by the kernel: mostly our own, which comes back."""
        if not self.router.has_subscriptions:
            dropped: tuple[bytes, ...] = (b"",)
        else:
            dropped = () if self.config.hears_own else (self._own_bytes(),)
        if dropped != self._dropped and not self.is_over:
            self._dropped = dropped
            self.socket.drop_kinds(*(_DATA if dropped else ()), sender=b"".join(dropped))

    def _own_bytes(self) -> bytes:
        """By what a datagram is told as one of ours."""
        mine = self.machine.identity
        if self._own[0] is mine:
            return self._own[1]
        start = mine.start(self.config.dialect)
        header = DatagramHeader(
            kind=UPDATE,
            address=mine.address,
            sender_id=mine.sender_id,
            start=start,
            application_id=mine.application_id,
        )
        self._own = mine, wire_of(self.config.dialect).header(header)[4:16]
        return self._own[1]


def _address(made: MulticastSocket) -> bytes:
    address = made.interface.address
    return address_bytes(address) if address else bytes(4)


def _fitted(config: Config) -> Config:
    """The configuration with what depends on this computer."""
    default = DistributorConfig()
    if config.host == default.host:
        name = socket.gethostname().encode("ascii", "ignore")[: config.control_bytes // 4]
        config = replace(config, host=name.decode() or default.host)
    return config


def _pause(seconds: float) -> None:
    if seconds > 0:
        threading.Event().wait(seconds)
