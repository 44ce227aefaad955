"""The distributor for programs with threads.

A connection has one thread that reads from the socket and does what is due. Publishing is done by
whoever publishes, subscribers are called back by threads of their own or by the reading one. A
program with a loop of its own may do without any of these threads, and call `poll` instead.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
from time import monotonic_ns
from types import TracebackType
from typing import Any, Final, Self

from skerry.client.distributor.config import Config, Delivery, OnSlow, with_fields
from skerry.client.distributor.delivery_queue import OnBatch, OnEvent
from skerry.client.distributor.dispatch import OnUpdate
from skerry.client.distributor.endpoints import PublisherEnd, SubscriberEnd
from skerry.client.distributor.group_driver import GroupDriver
from skerry.client.distributor.management import Management
from skerry.client.distributor.plain_outgoing import Publish, publish_for_this_build
from skerry.client.distributor.report import ConnectionStatistics
from skerry.errors import LocalProtocolError
from skerry.protocol.distributor.events import SenderInfo
from skerry.protocol.distributor.sealing.seal import Seal

__all__ = ["BlockingGroupConnection", "Publisher", "Subscriber", "open_connection"]

_SLEEP_MS_MAX: Final = 1000.0

log = logging.getLogger(__name__)


def open_connection(
    group: str,
    *,
    config: Config | None = None,
    seal: Seal | None = None,
    is_polled: bool = False,
    **fields: Any,
) -> BlockingGroupConnection:
    """Join a group, `239.192.7.1:4711` or `[ff15::7:1]:4711`. Close it, or use it with `with`.

    Parameters are those of `config`, or its defaults, replaced by what is given by name. One that
    is polled has no threads; it does nothing but in `poll`, which has to be called all the time.
    """
    return BlockingGroupConnection(
        group, with_fields(config, fields), seal=seal, is_polled=is_polled
    )


class Publisher(PublisherEnd):
    """Publishes updates to the group; any thread may do so."""

    def __init__(self, junction: GroupDriver, on_event: OnEvent | None, delivery: Delivery) -> None:
        super().__init__(junction, on_event, delivery)
        self.publish: Publish = publish_for_this_build(junction)
        """`publish(subject, data)`: send an update, at once or with others in one datagram.

        It waits while the bandwidth limit is used up. LocalProtocolError for what cannot be
        published under, LimitExceeded for too much data.
        """

    def flush(self) -> None:
        """Send what is held back."""
        self._junction.flush()

    def close(self) -> None:
        """Publish nothing more. After the last publisher the group is told goodbye."""
        self.publish = _refuse
        super().close()


class Subscriber(SubscriberEnd):
    """Is told of updates that its patterns select, by its callbacks."""


class BlockingGroupConnection:
    """A group that was joined."""

    def __init__(
        self, group: str, config: Config, *, seal: Seal | None = None, is_polled: bool = False
    ) -> None:
        """See `open_connection`."""
        self._junction = junction = GroupDriver(group, config, seal=seal)
        try:
            self._management = Management(junction)
        except BaseException:
            junction.end()
            raise
        self._management_ns: int = self._management.due_ns
        # Sockets and not a pipe: once closed they refuse, where the number of a file may be another
        # one by then.
        self._sleeper, self._waker = socket.socketpair()
        self._sleeper.setblocking(False)
        self._waker.setblocking(False)
        junction.wake = self._wake
        self._sleeper_number = self._sleeper.fileno()
        self._poller = select.poll()
        self._poller.register(self._sleeper, select.POLLIN)
        self._wait = self._poller.poll
        self._is_reading = False
        self._is_cut_short = False
        self._driving: threading.Thread | None = None
        if not is_polled:
            self._driving = threading.Thread(target=self._run, name=junction.name, daemon=True)
            self._driving.start()

    @property
    def group(self) -> str:
        """The address of the group."""
        return self._junction.group.host

    @property
    def port(self) -> int:
        """Its port."""
        return self._junction.group.port

    @property
    def config(self) -> Config:
        """The parameters in use, with what was fitted to this computer."""
        return self._junction.fitted_config

    @property
    def management_port(self) -> int:
        """The port of the page with statistics; 0 if there is none."""
        return self._management.page_port

    def publisher(self, on_event: OnEvent | None = None) -> Publisher:
        """One who publishes; the group is told of it."""
        return Publisher(self._junction, on_event, "thread" if self._driving else "inline")

    def subscriber(
        self,
        on_update: OnUpdate | None = None,
        on_event: OnEvent | None = None,
        *,
        on_batch: OnBatch | None = None,
        delivery: Delivery | None = None,
        on_slow: OnSlow | None = None,
    ) -> Subscriber:
        """One who is told of updates, once it has added a subscription.

        `on_update(subject, data, tag, queue_length)` is called for each update, or `on_batch` with
        a list of (subject, data). With delivery "inline" callbacks are called by the thread that
        reads, so they have to be quick; otherwise by a thread of the subscriber.
        """
        config = self._junction.config
        return Subscriber(
            self._junction,
            on_update=on_update,
            on_event=on_event,
            on_batch=on_batch,
            delivery=delivery or (config.delivery if self._driving else "inline"),
            on_slow=on_slow or config.on_slow,
            read=self._junction.read_for_outlet,
        )

    def poll(self, timeout: float = 0.0) -> None:
        """Read, do what is due, and call back, for a connection that is polled.

        It waits for something to happen, up to `timeout` seconds; something need not be an update.
        """
        if self._driving is not None:
            raise LocalProtocolError("this connection has a thread; open it with is_polled=True")
        if not self._junction.is_over:
            self._step(timeout * 1e3)

    def statistics(self) -> ConnectionStatistics:
        """Counters, rates and queues."""
        return self._management.reporter.statistics()

    def senders(self) -> list[SenderInfo]:
        """The senders of the group that announced themselves, this one included."""
        return list(self.statistics().senders)

    def flush(self) -> None:
        """Send what is held back."""
        self._junction.flush()

    def close(self, *, linger: bool = True) -> None:
        """Leave the group. What was published is sent, and one who published stays for a moment to
        send again what others lost; without `linger` it does not.
        """
        self._junction.close()
        if not linger:
            self._is_cut_short = True
        if self._driving is None:
            self._finish()
        elif threading.current_thread() is not self._driving:
            self._wake()
            self._driving.join()
        for outlet in tuple(self._junction.router.outlets):
            outlet.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(linger=error is None)

    # -- the thread, or who polls

    def _wake(self) -> None:
        # It may be full, which wakes as well, or closed, when there is nobody to wake.
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def _run(self) -> None:
        try:
            self._drive()
        except Exception:  # a thread has no caller who could be told
            log.exception(
                "a multicast connection failed", extra={"connection": self._junction.name}
            )
        finally:
            self._end()

    def _finish(self) -> None:
        """The end of a connection that is polled; it may be in the middle of a `poll`."""
        if self._sleeper.fileno() >= 0:
            self._drive()
            self._end()

    def _drive(self) -> None:
        while not self._junction.is_over and not self._is_cut_short:
            self._step(_SLEEP_MS_MAX)

    def _step(self, sleep_ms_max: float) -> None:
        junction = self._junction
        if self._is_reading != junction.router.has_room:
            self._is_reading = not self._is_reading
            if self._is_reading:
                self._poller.register(junction.socket.fileno(), select.POLLIN)
            else:
                self._poller.unregister(junction.socket.fileno())
        due_ns = self._management_ns
        if junction.deadline_ns < due_ns:
            due_ns = junction.deadline_ns
        sleep_ms = (due_ns - monotonic_ns()) / 1e6
        if sleep_ms < 0.0:
            sleep_ms = 0.0
        elif sleep_ms > sleep_ms_max:
            sleep_ms = sleep_ms_max
        for number, _ in self._wait(sleep_ms):
            if number == self._sleeper_number:
                self._sleeper.recv(4096)
        now_ns = junction.hear()
        junction.run_inline()
        if junction.is_due(now_ns):
            junction.settle()
            junction.run_inline()
        if now_ns >= self._management_ns:
            self._management.advance(now_ns)
            self._management_ns = self._management.due_ns

    def _end(self) -> None:
        junction = self._junction
        junction.end()
        for outlet in tuple(junction.router.outlets):
            outlet.finish()
        junction.run_inline()
        self._management.close()
        self._waker.close()
        self._sleeper.close()


def _refuse(subject: str, _data: bytes) -> None:
    raise LocalProtocolError(f"the publisher is closed; nothing is published under {subject}")
