"""The driver of a space: moves bytes between its connection and a stream, and lets callers wait.

It runs on one loop. The asyncio and the blocking space hold a session, and the session does not
refer to them: so a space without references is collected, and warns that it was not closed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import ssl
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from skerry.client.core.node_connection import NodeConnection
from skerry.client.core.node_subscription import NodeSubscription
from skerry.client.core.received_types import ReceivedType
from skerry.client.core.requests import timed_out
from skerry.client.core.settings import SpaceConfig
from skerry.client.core.space import SpaceCore
from skerry.client.core.states import (
    CallbackFailed,
    ClaimsChanged,
    ObjectSkipped,
    Refusal,
    SpaceState,
    StateChanged,
    TypeConflict,
    Unreadable,
)
from skerry.client.io.endpoint_opener import EndpointOpener
from skerry.errors import ConnectFailed, Disconnected, Refused, RequestTimedOut
from skerry.objects.base import Struct
from skerry.protocol.machine import Address, CloseReason, Connect, Disconnect
from skerry.runtime import request_spans
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.streams.socket_stream import Stream

_NODE: Final = Address("node", 0, is_stream=True)
_CLOSE_S_MAX: Final = 1.0
"""How long to wait at the end until the node has read what was sent."""
_PIECE_BYTES: Final = 64 * 1024
"""Published frames are written at the end of an iteration of the loop, or when there are so many
bytes: the node can read them meanwhile, and does not read more at once."""

log = logging.getLogger(__name__)


class Session:
    """One space on one loop."""

    def __init__(self, opener: EndpointOpener, config: SpaceConfig, *, lock: Any = None) -> None:
        self.connection = NodeConnection(
            node=_NODE,
            wire=opener.wire,
            rng=random.SystemRandom(),
            config=config,
            wall_offset_ns=wall_ns() - monotonic_ns(),
            lock=lock,
        )
        self.core = SpaceCore(self.connection)
        if lock is None:
            # With a lock, the loop runs on its own thread and does not wait for publishers.
            self.core.buffer.waiting.notify_every(_PIECE_BYTES)
        self.loop = asyncio.get_running_loop()
        self.state_listeners: list[Callable[[StateChanged], object]] = []
        self.refusal_listeners: list[Callable[[Refusal], object]] = []
        self.wakers: set[Callable[[], None]] = set()
        """Called when the space is closed and there are no more events."""
        self._tasks: set[asyncio.Task[None]] = set()
        """Asynchronous handlers that have not returned."""
        self._opener = opener
        self._opening: asyncio.Task[None] | None = None
        self._stream: _NodeStream | None = None
        self._streams: set[_NodeStream] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns: int | None = None
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._is_receiving = False
        self._is_secured = False
        """Whether a TLS stream was opened, and nothing was received on it yet."""
        self._has_written = False
        """Whether a publish of this iteration of the loop was already written."""
        self._is_bursting = False
        """Whether more than one object was published in the last iteration."""
        self._is_deferred = False
        """Whether publishes of this iteration are written at its end."""
        self._deferred_count = 0
        self.asked_names: frozenset[str] | None = None
        """The types for which the program itself asked last; empty for all types."""

    async def start(self, timeout: float) -> None:
        """Connect; raises ConnectFailed if that is not possible."""
        self.connection.start(monotonic_ns())
        self._wake()
        limit = None if self.core.config.is_patient else timeout
        try:
            await self.wait(
                lambda: self.connection.state is SpaceState.CONNECTED, limit, "the handshake"
            )
        except Disconnected as error:
            has_answered, is_secured = self.connection.is_refused, self._is_secured
            is_rejected = self.connection.is_rejected
            await self.close()
            if is_rejected:
                raise self._opener.refused(str(error)) from None
            raise self._opener.failed(
                str(error), has_answered=has_answered, is_secured=is_secured
            ) from None
        except RequestTimedOut:
            has_answered = self._stream is not None
            await self.close()
            raise self._opener.failed(
                f"no answer within {timeout} s", has_answered=has_answered
            ) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the space, and wait until its streams are closed."""
        self.core.close(monotonic_ns())
        self.write_output()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        for stream in list(self._streams):
            stream.transport.close()
        for stream in list(self._streams):
            try:
                await asyncio.wait_for(asyncio.shield(stream.is_gone), _CLOSE_S_MAX)
            except TimeoutError:
                stream.transport.abort()
                await stream.is_gone
        if self._timer is not None:
            self._timer.cancel()
        # They were cancelled when the space was closed; one of them may be the caller.
        tasks = self._tasks - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_S_MAX)

    def abandon(self, reason: str, lock: Any = None) -> None:
        """Do not use the session any more after a fork; its streams belong to the other process.

        The lock replaces the old one, which a thread of that process may hold for ever.
        """
        self.connection.failure = reason
        self.core.buffer.renew_lock(lock)

    # -- operations of both kinds of space

    async def hold(
        self, what: Any, *, where: Any, fields: Any, timeout: float | None
    ) -> tuple[NodeSubscription, ReceivedType]:
        """Store the current objects of a type; returns when all of them are here."""
        # Any: `core.hold` checks the arguments with a better error than a compiled function.
        is_pattern = isinstance(what, str) and what.startswith("/")
        if isinstance(what, str) and not is_pattern and self.core.types.class_named(what) is None:
            await self.request_types([what], timeout)
        subscription, shape = self.core.hold(what, monotonic_ns(), where=where, fields=fields)
        self.write_output()
        try:
            await self.wait(
                lambda: subscription.is_complete or bool(subscription.refusal),
                timeout,
                f"all objects of {shape.name}",
            )
        except BaseException:
            self.release(subscription)
            raise
        if subscription.refusal:
            self.release(subscription)
            raise Refused(f"the node refused {subscription.refusal}")
        return subscription, shape

    def release(self, subscription: NodeSubscription) -> None:
        """Undo a `hold`."""
        self.core.release(subscription, monotonic_ns())
        self.write_output()

    async def request_types(self, names: Iterable[str], timeout: float | None) -> None:
        """Request the node's types, or those with these names, and wait for them."""
        names = list(names)
        request = self.core.request_types(names, monotonic_ns())
        self.asked_names = frozenset(names)
        self.write_output()
        await self.wait(lambda: request.is_done, timeout, "the node's types")

    async def flush(self, timeout: float | None) -> None:
        """Wait until everything published so far has reached the node."""
        flush = self.core.flush(monotonic_ns())
        self.write_output()
        try:
            await self.wait(lambda: flush.is_done, timeout, "the node's answer")
        finally:
            self.connection.flushes.forget(flush)
        if flush.error is not None:
            raise flush.error

    async def request(self, obj: Struct, to: Any, timeout: Any) -> Struct | None:
        """Send a request to another program, and wait for its answer."""
        # Any: the core checks the arguments with a better error than a compiled function.
        with request_spans.sending(_type_name(obj), str(to)) as trace:
            return await self._request(obj, to, timeout, trace)

    async def _request(self, obj: Struct, to: Any, timeout: Any, trace: str) -> Struct | None:
        request = self.core.requests_and_claims.request(
            obj, monotonic_ns(), to=to, timeout_s=timeout, trace=trace
        )
        answered = self.loop.create_future()
        request.wake = lambda: None if answered.done() else answered.set_result(None)
        self.write_output()
        try:
            if not request.is_done:
                await asyncio.wait_for(answered, timeout)
        except TimeoutError:
            raise timed_out(request) from None
        finally:
            self.connection.requests.forget(request)
        if request.error is not None:
            raise request.error
        return request.answer

    async def drain(self, timeout: float | None) -> None:
        """Wait until at most half of `send_bytes_max` waits to be sent."""
        limit = self.core.config.send_bytes_max // 2
        await self.wait(
            lambda: self.core.waiting_bytes <= limit, timeout, "room in the send buffer"
        )

    async def wait_over(self) -> str:
        """Wait until the space is closed. Returns the reason."""
        await self.wait(lambda: self.connection.failure is not None, None, "the end of the space")
        return self.connection.failure or ""

    def begin_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until it is done, or the space is closed."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- waiting

    async def wait(self, condition: Callable[[], bool], timeout: float | None, what: str) -> None:
        """Wait until a condition holds; raises Disconnected if the space is closed."""
        if condition():
            return
        if self.connection.failure is not None:
            raise Disconnected(self.connection.failure)
        future = self.loop.create_future()
        entry = (condition, future)
        self._waiters.append(entry)
        try:
            await asyncio.wait_for(future, timeout)
        except TimeoutError:
            raise RequestTimedOut(f"timed out after {timeout} s waiting for {what}") from None
        finally:
            if entry in self._waiters:
                self._waiters.remove(entry)

    def _wake_waiters(self) -> None:
        for entry in list(self._waiters):
            condition, future = entry
            if future.done():
                continue
            if condition():
                future.set_result(None)
            elif self.connection.failure is not None:
                future.set_exception(Disconnected(self.connection.failure))

    # -- between connection and streams

    def write_soon(self) -> None:
        """Write what was published, now or at the end of this iteration of the loop.

        A program that publishes now and then does not wait for the end of the iteration. One that
        publishes a lot saves system calls, and wakes the node less often. The last iteration
        decides which it is.
        """
        if self._is_deferred:
            if len(self.core.buffer.waiting.frames) >= _PIECE_BYTES:
                self.write_output()
            return
        if self._is_bursting or self._has_written:
            self._is_bursting = self._is_deferred = True
            self._deferred_count = self.core.buffer.waiting.added_count
            self.loop.call_soon(self._end_burst)
            return
        self._has_written = True
        self.write_output()
        self.loop.call_soon(self._end_iteration)

    def _end_iteration(self) -> None:
        self._has_written = False

    def _end_burst(self) -> None:
        self._is_deferred = False
        # One object was published before this was scheduled.
        self._is_bursting = self.core.buffer.waiting.added_count > self._deferred_count
        self.write_output()

    def write_output(self) -> None:
        """Write the output of the connection, report its events, and set the timer."""
        if self._is_receiving:
            # Inside a callback: `received` does this after all callbacks have returned.
            return
        for transmit in self.connection.take_transmits():
            if isinstance(transmit, Connect):
                self._opening = self.loop.create_task(self._open())
            elif isinstance(transmit, Disconnect):
                stream, self._stream = self._stream, None
                if stream is not None:
                    stream.transport.close()
            elif self._stream is not None:
                self._stream.transport.write(transmit.data)
        for event in self.connection.take_events():
            self._report(event)
        if self._waiters:
            self._wake_waiters()
        self._set_timer()

    def opened(self, stream: _NodeStream) -> None:
        self._streams.add(stream)
        if self.connection.state is SpaceState.CLOSED:
            stream.transport.close()
            return
        self._stream = stream
        self._is_secured = self._opener.endpoint.is_secure
        self.connection.stream_opened(_NODE, monotonic_ns())
        self.write_output()

    def received(self, stream: _NodeStream, data: bytes) -> None:
        if stream is not self._stream:
            return
        self._is_secured = False
        self._is_receiving = True
        try:
            self.connection.receive(data, _NODE, monotonic_ns())
        finally:
            self._is_receiving = False
        # Most received bytes are objects, after which there is nothing to do.
        if self._waiters or self.connection.has_output():
            self.write_output()

    def skipped(self, stream: _NodeStream, size: int) -> None:
        """A message of so many bytes, above the limit, was dropped."""
        if stream is self._stream:
            self.connection.note_skipped("", size)
            self.write_output()

    def lost(self, stream: _NodeStream, error: Exception | None) -> None:
        """A stream was closed."""
        self._streams.discard(stream)
        if stream is self._stream:
            self._stream = None
            if error is not None:
                self.connection.explain(f"the connection broke: {_words(error)}")
            reason = CloseReason.ENDED if error is None else CloseReason.LOST
            self.connection.stream_closed(_NODE, reason, monotonic_ns())
            self.write_output()

    def paused(self, stream: _NodeStream, *, is_full: bool) -> None:
        """The write buffer of a stream is full, or has room again."""
        if stream is not self._stream:
            return
        if is_full:
            self.connection.pause()
        else:
            self.connection.resume()
            self.write_output()

    async def _open(self) -> None:
        try:
            await self._opener.open(_NodeStream(self))
        except (OSError, ConnectFailed) as error:
            if isinstance(error, TimeoutError):
                reason = CloseReason.TIMED_OUT
            else:
                reason = CloseReason.REFUSED
                self.connection.explain(_words(error))
            self.connection.stream_closed(_NODE, reason, monotonic_ns())
            self.write_output()

    def _set_timer(self) -> None:
        due_ns = self.connection.deadline_ns()
        if due_ns == self._timer_ns:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ns = due_ns
        if due_ns is not None:
            delay_s = max(due_ns - monotonic_ns(), 0) / 1e9
            self._timer = self.loop.call_later(delay_s, self._wake)

    def _wake(self) -> None:
        self._timer = self._timer_ns = None
        now_ns = monotonic_ns()
        self.connection.set_wall_offset(wall_ns() - now_ns, now_ns)
        self.connection.advance(now_ns)
        self.write_output()

    def _report(self, event: object) -> None:
        if isinstance(event, CallbackFailed):
            log.error("a callback failed", exc_info=event.error)
        elif isinstance(event, TypeConflict):
            message = "the node serves an incompatible definition of %s: %s"
            log.warning(message, event.name, event.difference)
        elif isinstance(event, Unreadable):
            log.error(
                "objects of %s cannot be decoded and are dropped: %s", event.name, event.detail
            )
        elif isinstance(event, ObjectSkipped):
            log.error(
                "dropped an object of %s of %d bytes, the limit is %d (receive_bytes_max)",
                event.name or "an unknown type",
                event.size,
                event.limit,
            )
        elif isinstance(event, ClaimsChanged):
            for callback in event.callbacks:
                callback()
        elif isinstance(event, Refusal):
            self.call_back(self.refusal_listeners, event)
        else:
            assert isinstance(event, StateChanged)
            self.call_back(self.state_listeners, event)
            if event.state is SpaceState.CLOSED:
                self._end_waiting()

    def _end_waiting(self) -> None:
        for waker in list(self.wakers):
            waker()
        current = asyncio.current_task(self.loop)
        for task in self._tasks:
            if task is not current:
                task.cancel()

    def call_back(self, listeners: list[Any], event: object) -> None:
        """Call listeners. The error of one is logged and does not affect the others."""
        for listener in list(listeners):
            try:
                listener(event)
            except BaseException as error:
                if not self.core.intake.is_sheltered and not isinstance(error, Exception):
                    raise
                # An error of the program does not end the space.
                log.exception("a callback failed")


class _NodeStream:
    """One stream to the node, and the user of its transport."""

    transport: Stream

    def __init__(self, session: Session) -> None:
        self._session = session
        self.is_gone: asyncio.Future[None] = session.loop.create_future()

    def opened(self, stream: Stream) -> None:
        self.transport = stream
        self._session.opened(self)

    def received(self, data: bytes) -> None:
        self._session.received(self, data)

    def skipped(self, size: int) -> None:
        self._session.skipped(self, size)

    def lost(self, error: Exception | None) -> None:
        if not self.is_gone.done():
            self.is_gone.set_result(None)
        self._session.lost(self, error)

    def paused(self, *, is_full: bool) -> None:
        self._session.paused(self, is_full=is_full)


def _type_name(obj: object) -> str:
    return obj.descriptor.name if isinstance(obj, Struct) else type(obj).__name__


def _words(error: BaseException) -> str:
    """A short text: that of the error number, since asyncio's text repeats the address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        # Its number is one of OpenSSL, and means something else among system errors.
        return f"TLS: {error.reason or error}".lower().replace("_", " ").replace("tls", "TLS", 1)
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
