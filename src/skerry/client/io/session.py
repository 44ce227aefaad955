"""A space on real streams: carries bytes between its machine and the node, and lets others wait.

It runs on one loop. The asyncio and the blocking space are two faces of it, which it does not know:
a space that nobody holds any more can go, and says that it was not closed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import ssl
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from skerry.client.core.events import ReceivedType
from skerry.client.core.requests import timed_out
from skerry.client.core.space import SpaceConfig, SpaceCore
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
from skerry.client.core.subscriptions import SubscribedType
from skerry.client.io.endpoint_opener import EndpointOpener
from skerry.errors import ConnectFailed, Disconnected, Refused, RequestTimedOut
from skerry.objects.base import Struct
from skerry.protocol.machine import Address, CloseReason, Connect, Disconnect
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.streams.socket_stream import Stream

__all__ = ["Session"]

_NODE: Final = Address("node", 0, is_stream=True)
_LAST_WORDS_S: Final = 1.0
"""How long the node may take to read what was said before the end."""
_PIECE_BYTES: Final = 64 * 1024
"""What is published in one turn of the loop goes out at its end, or when it is so much: the node
can read it meanwhile, and takes no more at once."""

log = logging.getLogger(__name__)


class Session:
    """One space on one loop."""

    def __init__(self, opener: EndpointOpener, config: SpaceConfig, *, lock: Any = None) -> None:
        self.core = SpaceCore(
            node=_NODE,
            wire=opener.wire,
            rng=random.SystemRandom(),
            config=config,
            wall_offset_ns=wall_ns() - monotonic_ns(),
            lock=lock,
        )
        if lock is None:
            # With one, the loop has a thread of its own and does not wait for who publishes.
            self.core.buffer.waiting.notify_every(_PIECE_BYTES)
        self.loop = asyncio.get_running_loop()
        self.state_listeners: list[Callable[[StateChanged], object]] = []
        self.refusal_listeners: list[Callable[[Refusal], object]] = []
        self.wakers: set[Callable[[], None]] = set()
        """Called when there will be no more events."""
        self._tasks: set[asyncio.Task[None]] = set()
        """Handlers that were not done at once."""
        self._opener = opener
        self._opening: asyncio.Task[None] | None = None
        self._line: _Line | None = None
        self._lines: set[_Line] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns: int | None = None
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._is_receiving = False
        self._is_secured = False
        """Whether a stream inside TLS was opened, and brought nothing yet."""
        self._has_carried = False
        """Whether something that was published in this turn of the loop is out already."""
        self._is_bursting = False
        """Whether more than one thing was published in the last turn."""
        self._is_ending = False
        """Whether what this turn publishes goes out at its end."""
        self._turn_count = 0

    async def start(self, timeout: float) -> None:
        """Connect; ConnectFailed when that cannot be done."""
        self.core.start(monotonic_ns())
        self._wake()
        limit = None if self.core.config.is_patient else timeout
        try:
            await self.wait(lambda: self.core.state is SpaceState.CONNECTED, limit, "the handshake")
        except Disconnected as error:
            is_met, is_secured = self.core.is_refused, self._is_secured
            is_rejected = self.core.is_rejected
            await self.close()
            if is_rejected:
                raise self._opener.refused(str(error)) from None
            raise self._opener.failed(str(error), is_met=is_met, is_secured=is_secured) from None
        except RequestTimedOut:
            is_met = self._line is not None
            await self.close()
            raise self._opener.failed(f"no answer within {timeout} s", is_met=is_met) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Say goodbye, and wait until the streams are closed."""
        self.core.close(monotonic_ns())
        self.carry()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        for line in list(self._lines):
            line.stream.close()
        for line in list(self._lines):
            try:
                await asyncio.wait_for(asyncio.shield(line.is_gone), _LAST_WORDS_S)
            except TimeoutError:
                line.stream.abort()
                await line.is_gone
        if self._timer is not None:
            self._timer.cancel()
        # They were cancelled as the space ended; one of them may be who closes it.
        tasks = self._tasks - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_WORDS_S)

    def abandon(self, reason: str, lock: Any = None) -> None:
        """Use it no more, and leave its streams to whom they belong: another process.

        The lock takes the place of the one that a thread of that process may hold for ever.
        """
        self.core.failure = reason
        self.core.buffer.renew_lock(lock)

    # -- what both kinds of space do

    async def hold(
        self,
        what: Any,
        *,
        where: Any,
        fields: Any,
        timeout: float | None,
    ) -> tuple[SubscribedType, ReceivedType]:
        """Keep the current objects of a type here; all of them are when this returns."""
        # What these have to be is said there, in better words than a compiled function has.
        is_pattern = isinstance(what, str) and what.startswith("/")
        if isinstance(what, str) and not is_pattern and self.core.types.class_named(what) is None:
            await self.request_types([what], timeout)
        interest, shape = self.core.hold(what, monotonic_ns(), where=where, fields=fields)
        self.carry()
        try:
            await self.wait(
                lambda: interest.is_complete or bool(interest.refusal),
                timeout,
                f"all objects of {shape.name}",
            )
        except BaseException:
            self.release(interest)
            raise
        if interest.refusal:
            self.release(interest)
            raise Refused(f"the node refused {interest.refusal}")
        return interest, shape

    def release(self, interest: SubscribedType) -> None:
        """Somebody does not need the objects any more."""
        self.core.release(interest, monotonic_ns())
        self.carry()

    async def request_types(self, names: Iterable[str], timeout: float | None) -> None:
        """Ask the node for its types, or for those with these names."""
        request = self.core.request_types(names, monotonic_ns())
        self.carry()
        await self.wait(lambda: request.is_done, timeout, "the node's types")

    async def flush(self, timeout: float | None) -> None:
        """Until everything published so far has reached the node."""
        flush = self.core.flush(monotonic_ns())
        self.carry()
        try:
            await self.wait(lambda: flush.is_done, timeout, "the node's answer")
        finally:
            self.core.give_up(flush)
        if flush.error is not None:
            raise flush.error

    async def request(self, obj: Struct, to: Any, timeout: Any) -> Struct | None:
        """Ask another program, and wait for its answer."""
        # What these have to be is said there, in better words than a compiled function has.
        request = self.core.request(obj, monotonic_ns(), to=to, timeout_s=timeout)
        answered = self.loop.create_future()
        request.wake = lambda: None if answered.done() else answered.set_result(None)
        self.carry()
        try:
            if not request.is_done:
                await asyncio.wait_for(answered, timeout)
        except TimeoutError:
            raise timed_out(request) from None
        finally:
            self.core.forget_request(request)
        if request.error is not None:
            raise request.error
        return request.answer

    async def drain(self, timeout: float | None) -> None:
        """Until at most half of what may wait to be sent does."""
        limit = self.core.config.send_bytes_max // 2
        await self.wait(lambda: self.core.waiting_bytes <= limit, timeout, "room")

    async def wait_over(self) -> str:
        """Until the space is closed, by us or for good; gives the reason."""
        await self.wait(lambda: self.core.failure is not None, None, "the end")
        return self.core.failure or ""

    def begin_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Let something go on until it is done, or the space ends."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- waiting

    async def wait(self, condition: Callable[[], bool], timeout: float | None, what: str) -> None:
        """Until something is so; Disconnected when it never will be."""
        if condition():
            return
        if self.core.failure is not None:
            raise Disconnected(self.core.failure)
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
            elif self.core.failure is not None:
                future.set_exception(Disconnected(self.core.failure))

    # -- between machine and streams

    def carry_soon(self) -> None:
        """Something was published: bring it out now, or with all else of this turn of the loop.

        Who publishes now and then need not wait for the turn to end. Who publishes a lot saves
        calls of the system, and wakes the node less often. The last turn tells which it is.
        """
        if self._is_ending:
            if len(self.core.buffer.waiting.frames) >= _PIECE_BYTES:
                self.carry()
            return
        if self._is_bursting or self._has_carried:
            self._is_bursting = self._is_ending = True
            self._turn_count = self.core.buffer.added_count
            self.loop.call_soon(self._end_burst)
            return
        self._has_carried = True
        self.carry()
        self.loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._has_carried = False

    def _end_burst(self) -> None:
        self._is_ending = False
        # One was published when this was asked for.
        self._is_bursting = self.core.buffer.added_count > self._turn_count
        self.carry()

    def carry(self) -> None:
        """Bring out what the space wants to say and tell, and set its alarm clock."""
        if self._is_receiving:
            # We are inside a callback; this is done when it and all others are over.
            return
        for transmit in self.core.take_transmits():
            if isinstance(transmit, Connect):
                self._opening = self.loop.create_task(self._open())
            elif isinstance(transmit, Disconnect):
                line, self._line = self._line, None
                if line is not None:
                    line.stream.close()
            elif self._line is not None:
                self._line.stream.write(transmit.data)
        for event in self.core.take_events():
            self._tell(event)
        if self._waiters:
            self._wake_waiters()
        self._set_timer()

    def opened(self, line: _Line) -> None:
        """A stream is open."""
        self._lines.add(line)
        if self.core.state is SpaceState.CLOSED:
            line.stream.close()
            return
        self._line = line
        self._is_secured = self._opener.place.is_secure
        self.core.stream_opened(_NODE, monotonic_ns())
        self.carry()

    def received(self, line: _Line, data: bytes) -> None:
        """Bytes from the node."""
        if line is not self._line:
            return
        self._is_secured = False
        self._is_receiving = True
        try:
            self.core.receive(data, _NODE, monotonic_ns())
        finally:
            self._is_receiving = False
        # Most of what is received are objects, after which there is nothing to do.
        if self._waiters or self.core.has_output():
            self.carry()

    def skipped(self, line: _Line, size: int) -> None:
        """A message of so many bytes, above the limit, was dropped."""
        if line is self._line:
            self.core.note_skipped("", size)
            self.carry()

    def lost(self, line: _Line, error: Exception | None) -> None:
        """A stream is gone."""
        self._lines.discard(line)
        if line is self._line:
            self._line = None
            if error is not None:
                self.core.explain(f"the connection broke: {_words(error)}")
            reason = CloseReason.ENDED if error is None else CloseReason.LOST
            self.core.stream_closed(_NODE, reason, monotonic_ns())
            self.carry()

    def paused(self, line: _Line, *, is_full: bool) -> None:
        """A stream has more than it likes, or room again."""
        if line is not self._line:
            return
        if is_full:
            self.core.pause()
        else:
            self.core.resume()
            self.carry()

    async def _open(self) -> None:
        try:
            await self._opener.open(_Line(self))
        except (OSError, ConnectFailed) as error:
            if isinstance(error, TimeoutError):
                reason = CloseReason.TIMED_OUT
            else:
                reason = CloseReason.REFUSED
                self.core.explain(_words(error))
            self.core.stream_closed(_NODE, reason, monotonic_ns())
            self.carry()

    def _set_timer(self) -> None:
        due_ns = self.core.deadline_ns()
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
        self.core.set_wall_offset(wall_ns() - now_ns, now_ns)
        self.core.advance(now_ns)
        self.carry()

    def _tell(self, event: object) -> None:
        if isinstance(event, CallbackFailed):
            log.error("a callback failed", exc_info=event.error)
        elif isinstance(event, TypeConflict):
            message = "the node serves an incompatible definition of %s: %s"
            log.warning(message, event.name, event.difference)
        elif isinstance(event, Unreadable):
            log.error(
                "objects of %s cannot be read, and are left out: %s", event.name, event.detail
            )
        elif isinstance(event, ObjectSkipped):
            log.error(
                "an object of %s of %d bytes is skipped, the limit is %d (receive_bytes_max)",
                event.name or "a type that is not known",
                event.size,
                event.limit,
            )
        elif isinstance(event, ClaimsChanged):
            for told in event.told:
                told()
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
        """Call some back; the failure of one is told, and harms nobody else."""
        for listener in list(listeners):
            try:
                listener(event)
            except BaseException as error:
                if not self.core.intake.is_sheltered and not isinstance(error, Exception):
                    raise
                # A mistake of the program; the space and the other listeners go on.
                log.exception("a callback failed")


class _Line:
    """One stream to the node, from the moment it is asked for."""

    stream: Stream

    def __init__(self, session: Session) -> None:
        self._session = session
        self.is_gone: asyncio.Future[None] = session.loop.create_future()

    def opened(self, stream: Stream) -> None:
        """There it is."""
        self.stream = stream
        self._session.opened(self)

    def received(self, data: bytes) -> None:
        """Bytes of the node."""
        self._session.received(self, data)

    def skipped(self, size: int) -> None:
        """A message of so many bytes, above the limit, was dropped."""
        self._session.skipped(self, size)

    def lost(self, error: Exception | None) -> None:
        """It is gone."""
        if not self.is_gone.done():
            self.is_gone.set_result(None)
        self._session.lost(self, error)

    def paused(self, *, is_full: bool) -> None:
        """It has more than it likes, or room again."""
        self._session.paused(self, is_full=is_full)


def _words(error: BaseException) -> str:
    """The number says it more plainly than what asyncio makes of it, which repeats the address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not to be trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        # Its number is one of OpenSSL's, and stands for something else among those of the system.
        return f"TLS: {error.reason or error}".lower().replace("_", " ").replace("tls", "TLS", 1)
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
