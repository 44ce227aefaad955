"""The distributor for programs with threads. A hot module.

A connection has one thread that reads from the socket and does what is due. Publishers send on
their own threads. Callbacks of subscribers run on a thread of the subscriber or on the reading
thread. A program with a loop of its own may use none of these threads, and call `poll` instead.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
from collections.abc import Callable
from time import monotonic_ns
from typing import Any, Final, Self

from skerry.client.distributor.config import Config, Delivery, OnSlow, with_fields
from skerry.client.distributor.connection_base import (
    GroupConnectionBase,
    PublisherBase,
    SubscriberBase,
)
from skerry.client.distributor.delivery_queue import OnBatch, OnEvent
from skerry.client.distributor.dispatch import OnUpdate
from skerry.client.distributor.group_session import GroupSession
from skerry.errors import LocalProtocolError
from skerry.protocol.sealing.seal import Seal

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

    Parameters are those of `config`, or its defaults, replaced by `fields`. A polled connection has
    no threads: it works only inside `poll`, which has to be called continually.
    """
    return BlockingGroupConnection(
        group, with_fields(config, fields), seal=seal, is_polled=is_polled
    )


class Publisher(PublisherBase):
    """Publishes updates to the group. Any thread may use it."""

    def __init__(self, session: GroupSession, on_event: OnEvent | None, delivery: Delivery) -> None:
        super().__init__(session, on_event, delivery)
        self.publish: Callable[[str, bytes], None] = session.publishing.publish
        """`publish(subject, data)`: send an update, at once or with others in one datagram.

        Waits while the bandwidth limit is used up. Raises LocalProtocolError for an invalid
        subject, LimitExceeded for too much data.
        """

    def close(self) -> None:
        """Stop publishing. After the last publisher, the connection announces its departure."""
        self.publish = _refuse
        super().close()


class Subscriber(SubscriberBase):
    """Receives the updates that its patterns select, by callbacks."""


class BlockingGroupConnection(GroupConnectionBase):
    """A connection to a multicast group."""

    def __init__(
        self, group: str, config: Config, *, seal: Seal | None = None, is_polled: bool = False
    ) -> None:
        """See `open_connection`."""
        super().__init__(group, config, seal, True)
        self._management_ns: int = self._management.due_ns
        # Sockets and not a pipe: a closed socket object raises an error, while the descriptor of a
        # closed pipe may belong to another file by then.
        self._sleeper, self._waker = socket.socketpair()
        self._sleeper.setblocking(False)
        self._waker.setblocking(False)
        self._session.set_waker(self._wake)
        self._sleeper_number = self._sleeper.fileno()
        self._poller = select.poll()
        self._poller.register(self._sleeper, select.POLLIN)
        self._wait = self._poller.poll
        self._is_reading = False
        self._skips_linger = False
        self._driving: threading.Thread | None = None
        if not is_polled:
            self._driving = threading.Thread(target=self._run, name=self._session.name, daemon=True)
            self._driving.start()

    def publisher(self, on_event: OnEvent | None = None) -> Publisher:
        """A new publisher, which is announced to the group."""
        return Publisher(self._session, on_event, "thread" if self._driving else "inline")

    def subscriber(
        self,
        on_update: OnUpdate | None = None,
        on_event: OnEvent | None = None,
        *,
        on_batch: OnBatch | None = None,
        delivery: Delivery | None = None,
        on_slow: OnSlow | None = None,
    ) -> Subscriber:
        """A new subscriber, which receives updates after it has added a subscription.

        `on_update(subject, data, tag, queue_length)` is called for each update, or `on_batch` with
        a list of (subject, data). With delivery "inline" the reading thread calls the callbacks, so
        they have to be quick; otherwise a thread of the subscriber does.
        """
        config = self._session.config
        session = self._session
        delivery = delivery or (config.delivery if self._driving else "inline")
        on_slow = on_slow or config.on_slow
        return Subscriber(
            session, on_update, on_event, on_batch, delivery, on_slow, session.read_for_queue
        )

    def poll(self, timeout: float = 0.0) -> None:
        """Read, do what is due, and call callbacks, for a polled connection.

        Waits up to `timeout` seconds for an event, which need not be an update.
        """
        if self._driving is not None:
            raise LocalProtocolError("this connection has a thread; open it with is_polled=True")
        if not self._session.is_over:
            self._step(timeout * 1e3)

    def close(self, *, linger: bool = True) -> None:
        """Leave the group, after all updates are sent. A connection that has published waits for a
        moment to repair losses of receivers, unless `linger` is False.
        """
        self._session.close()
        if not linger:
            self._skips_linger = True
        if self._driving is None:
            self._finish()
        elif threading.current_thread() is not self._driving:
            self._wake()
            self._driving.join()
        for queue in tuple(self._session.router.queues):
            queue.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _at: object) -> None:
        self.close(linger=error is None)

    # -- driving: by the thread, or by `poll`

    def _wake(self) -> None:
        # A full buffer wakes as well, and a closed one has no thread to wake.
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def _run(self) -> None:
        try:
            self._drive()
        except Exception:  # a thread has no caller that could handle it
            log.exception("a multicast connection failed", extra={"connection": self._session.name})
        finally:
            self._end()

    def _finish(self) -> None:
        """Close a polled connection; the caller may be a callback inside `poll`."""
        if self._sleeper.fileno() >= 0:
            self._drive()
            self._end()

    def _drive(self) -> None:
        while not self._session.is_over and not self._skips_linger:
            self._step(_SLEEP_MS_MAX)

    def _step(self, sleep_ms_max: float) -> None:
        session = self._session
        if self._is_reading != session.router.has_room:
            self._is_reading = not self._is_reading
            if self._is_reading:
                self._poller.register(session.driver.socket.fileno(), select.POLLIN)
            else:
                self._poller.unregister(session.driver.socket.fileno())
        due_ns = self._management_ns
        if session.deadline_ns < due_ns:
            due_ns = session.deadline_ns
        sleep_ms = (due_ns - monotonic_ns()) / 1e6
        if sleep_ms < 0.0:
            sleep_ms = 0.0
        elif sleep_ms > sleep_ms_max:
            sleep_ms = sleep_ms_max
        for number, _ in self._wait(sleep_ms):
            if number == self._sleeper_number:
                self._sleeper.recv(4096)
        now_ns = session.receive()
        session.run_inline()
        if session.is_due(now_ns):
            session.settle()
            session.run_inline()
        if now_ns >= self._management_ns:
            self._management.advance(now_ns)
            self._management_ns = self._management.due_ns

    def _end(self) -> None:
        session = self._session
        session.end()
        for queue in tuple(session.router.queues):
            queue.finish()
        session.run_inline()
        self._management.close()
        self._waker.close()
        self._sleeper.close()


def _refuse(subject: str, _data: bytes) -> None:
    raise LocalProtocolError(f"the publisher is closed; nothing is published under {subject}")
