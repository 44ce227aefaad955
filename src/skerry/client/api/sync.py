"""The blocking space, on a loop in its own thread.

Callbacks run one at a time, in order, on that thread. They may publish, but not call methods that
wait: those need the thread that the callback occupies. Publishing from other threads does not go
through the loop: it adds a frame to the send buffer, and wakes the loop if it sleeps.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar, overload

from skerry.client.api import container, service_handles
from skerry.client.api.aio import Types, open_session
from skerry.client.api.picture import Picture, PictureFeed
from skerry.client.api.service_handles import Ownership, Service
from skerry.client.api.space_base import SpaceBase
from skerry.client.api.subscription import Inbox, S, SubscriptionBase
from skerry.client.core.event_queue import EventQueue, OnSlow
from skerry.client.core.events import Event
from skerry.client.io.at_exit import OpenSpace
from skerry.client.io.loop_thread import LoopThread
from skerry.client.io.session import Session
from skerry.closing import Closing
from skerry.errors import Disconnected
from skerry.limits import EVENT_QUEUE_COUNT_MAX, PAYLOAD_BYTES_MAX, SEND_BYTES_MAX
from skerry.objects.base import Struct

T = TypeVar("T")
A = TypeVar("A", bound=Struct)

_PICTURE_S: Final = 20.0
"""How long the first access to the picture waits for the node. A node that is alone in its system
has a picture after 10 s."""


def connect(
    endpoint: str | None = None,
    *,
    name: str = "skerry-client",
    types: Types = (),
    preload: Iterable[type[Struct] | str] = (),
    secret: str | None = None,
    timeout: float = 10.0,
    wait: bool = False,
    ca: str | Path | None = None,
    cert: str | Path | None = None,
    key: str | Path | None = None,
    origin: bool = False,
    send_bytes_max: int = SEND_BYTES_MAX,
    receive_bytes_max: int = PAYLOAD_BYTES_MAX,
    queue_count_max: int = EVENT_QUEUE_COUNT_MAX,
) -> Space:
    """Connect to the node at an endpoint. The objects that `preload` names are here on return.

    The default endpoint is SKERRY_ENDPOINT, else DOTS_ENDPOINT, else the node of this computer. The
    secret is that of the endpoint, else `secret`, else DOTS_AUTH_SECRET, else the content of the
    file SKERRY_SECRET_FILE. `ca`, `cert` and `key` are files for TLS. With `origin` the node adds
    to each update where it entered the system. Objects above `receive_bytes_max` bytes, encoded,
    are dropped and logged.

    Raises ConnectFailed if no node answers, ConnectRefused if the node rejects the client; with
    `wait` it retries until a node answers and has room.
    """
    given = locals()  # all arguments are passed on
    thread = LoopThread(f"skerry {name}")
    try:
        session = thread.run(open_session(**given, lock=threading.Lock()))
    except BaseException:
        thread.end()
        raise
    return Space(session, thread)


class _Inbox(Inbox[T]):
    def __init__(self, queue: EventQueue[T]) -> None:
        super().__init__(queue)
        self.arrived = threading.Condition()

    def put(self, event: Event[T]) -> None:
        with self.arrived:
            self.queue.put(event)
            self.arrived.notify()

    def wake(self) -> None:
        with self.arrived:
            self.arrived.notify_all()


class Subscription(SubscriptionBase[T], Generic[T]):
    """Receives events until `close`. Without a callback, iterate over it.

    A subscription without a callback also ends when there are no references to it.
    """

    inbox_class = _Inbox
    _caller_depth = 5
    _inbox: _Inbox[T]

    def __init__(
        self,
        session: Session,
        thread: LoopThread,
        what: type[Struct] | str,
        callback: Callable[[Event[T]], object] | None,
        *,
        on_slow: OnSlow,
    ) -> None:
        super().__init__(session, what, callback, on_slow=on_slow)
        self._thread = thread
        self._arrived = self._inbox.arrived

    def close(self) -> None:
        """End the subscription, and an iteration over it."""
        _call_if_open(self._thread, self.end)
        self._is_closed = True
        if not self._thread.is_forked:
            self._inbox.wake()

    def get(self, timeout: float | None = None) -> Event[T] | None:
        """The next event; None if the subscription has ended, or after `timeout` seconds."""
        self._check_iterable()
        if self._thread.is_forked:
            # The events are for the parent process, in which a thread may hold the lock.
            return None
        with self._arrived:
            while True:
                event = self._next()
                if event is not None or self._is_over():
                    return event
                self._thread.check_wait()
                if not self._arrived.wait(timeout):
                    return None

    def __iter__(self) -> Self:
        self._check_iterable()
        return self

    def __next__(self) -> Event[T]:
        event = self.get()
        if event is None:
            raise StopIteration
        return event


Container: TypeAlias = container.Container[S, Subscription[S]]

Answer: TypeAlias = Struct | Future[Any] | None
"""What a handler returns: an object or None, or a future of either."""


class Space(SpaceBase, Closing):
    """One space of typed objects, shared with all clients of its node. Any thread may use it."""

    def __init__(self, session: Session, thread: LoopThread) -> None:
        super().__init__(session)
        self._thread = thread
        self._open = OpenSpace(session, thread)
        self._feed: PictureFeed | None = None
        self._picture: Picture | None = None

    def __del__(self) -> None:
        if self._open.abandon():
            warnings.warn("a space was not closed", ResourceWarning, stacklevel=2, source=self)

    # -- publishing

    def drain(self, *, timeout: float | None = None) -> None:
        """Wait until at most half of `send_bytes_max` waits to be sent.

        Raises RequestTimedOut after `timeout` seconds, also if a callback blocks the thread.
        """
        self._thread.run(
            self._session.drain(timeout), timeout=timeout, what="room in the send buffer"
        )

    def flush(self, *, timeout: float | None = 10.0) -> None:
        """Wait until everything published so far has reached the node.

        Raises Refused if the node refused some of it, Disconnected if the connection was lost
        before the node confirmed all of it: the rest may have arrived or not. Raises
        RequestTimedOut after `timeout` seconds, also when a callback blocks the space's thread.
        """
        self._thread.run(self._session.flush(timeout), timeout=timeout, what="the node's answer")

    def _write_soon(self) -> None:
        try:
            self._session.loop.call_soon_threadsafe(self._session.write_output)
        except RuntimeError:
            # Another thread has just closed the space.
            raise Disconnected("the space is closed") from None

    # -- subscribing

    def subscribe(
        self,
        what: type[S] | str,
        callback: Callable[[Event[S]], object] | None = None,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
        on_slow: OnSlow = "disconnect",
    ) -> Subscription[S]:
        """Receive each object that exists, and each later update.

        `what` is a class, the name of a type, or a subject pattern such as `/Vessel/*`. `where`
        selects objects and `fields` their fields. Without a callback, iterate over the result.
        `on_slow` is what happens to a slow iterator: "disconnect" ends it, "conflate" delivers
        only the last state of each object.
        """
        subscription: Subscription[S] = Subscription(
            self._session, self._thread, what, callback, on_slow=on_slow
        )
        self._thread.call(lambda: subscription.open(where, fields))
        return subscription

    def container(
        self,
        what: type[S] | str,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
        timeout: float | None = 10.0,
    ) -> Container[S]:
        """A live mapping of the current objects of a type; it is complete when this returns.

        Raises RequestTimedOut after `timeout` seconds, also if a callback blocks the thread.
        """
        session, thread = self._session, self._thread
        subscription, shape = thread.run(
            session.hold(what, where=where, fields=fields, timeout=timeout),
            timeout=timeout,
            what="all objects",
        )

        def events() -> Subscription[S]:
            made: Subscription[S] = Subscription(session, thread, what, None, on_slow="disconnect")
            thread.call(lambda: made.open_beside(subscription, shape))
            return made

        def release() -> None:
            _call_if_open(thread, lambda: session.release(subscription))

        return container.Container(subscription, shape, events=events, release=release)

    # -- other programs

    @overload
    def request(self, obj: Struct, *, to: str = "", timeout: float = 7.0) -> Any: ...
    @overload
    def request(self, obj: Struct, *, answer: type[A], to: str = "", timeout: float = 7.0) -> A: ...
    def request(
        self,
        obj: Struct,
        *,
        answer: type[Struct] | None = None,
        to: str = "",
        timeout: float = 7.0,
    ) -> Any:
        """Send a request to the handler with a name, and wait for its answer, an object or None.

        With `answer`, the answer is an object of this class; RequestError if it is not.

        The request is sent after everything published before. Raises NotRegistered if no program
        serves such requests, RequestTimedOut after `timeout` seconds, RequestError if the handler
        failed, Refused if the node refused it, WouldBlock if too many requests wait, Disconnected
        if the connection was lost: as after a timeout, it may have been carried out or not.
        """
        session = self._session
        if answer is not None:
            self._thread.call(lambda: service_handles.check_answer(session, answer))
        found = self._thread.run(
            session.request(obj, to, timeout), timeout=timeout, what="the answer"
        )
        return found if answer is None else service_handles.answer_of(obj, found, answer)

    def serve(
        self,
        cls: type[S],
        handler: Callable[[S], Answer],
        *,
        name: str = "",
        standby: bool = False,
        on_change: Callable[[Service], object] | None = None,
        timeout: float | None = 10.0,
    ) -> Service:
        """Answer requests of a type under a name: from now on, or with `standby` as soon as no
        other client does.

        The handler receives the object of the request and returns the answer, an object or None.
        It is called like a callback; for work that takes long it returns the future of an
        executor. If the handler raises an error, the request fails. `on_change` is called when the
        state of the claim has changed.
        """
        thread = self._thread
        return thread.run(
            service_handles.serve(
                self._session,
                cls,
                handler,
                name=name,
                standby=standby,
                on_change=on_change,
                timeout=timeout,
                may_await=False,
                do=lambda work: _call_if_open(thread, work),
            ),
            timeout=timeout,
            what="the node's answer",
        )

    def own(
        self,
        cls: type[Struct],
        keys: Iterable[Any] | None = None,
        *,
        standby: bool = False,
        on_change: Callable[[Ownership], object] | None = None,
        timeout: float | None = 10.0,
    ) -> Ownership:
        """Claim the exclusive right to change the objects with these keys, or all of a type: from
        now on, or with `standby` as soon as no other client has it.

        Raises Refused if the node refuses any of the claims.
        """
        thread = self._thread
        return thread.run(
            service_handles.own(
                self._session,
                cls,
                keys,
                standby=standby,
                on_change=on_change,
                timeout=timeout,
                do=lambda work: _call_if_open(thread, work),
            ),
            timeout=timeout,
            what="the node's answer",
        )

    @property
    def picture(self) -> Picture:
        """The nodes of the system, live. The first access waits until they are known."""
        found = self._picture
        if found is None or not found.is_known:
            found = self._thread.run(
                self._open_picture(), timeout=_PICTURE_S, what="the picture of the system"
            )
        return found

    async def _open_picture(self) -> Picture:
        """On the loop, so that several threads share one picture."""
        if self._feed is None or self._picture is None:
            self._feed = PictureFeed(self._session)
            self._picture = Picture(self._feed, self._thread.call)
        await self._feed.wait(_PICTURE_S)
        return self._picture

    # -- the node

    def request_types(self, *names: str, timeout: float | None = 10.0) -> Mapping[str, Any]:
        """Request the node's types, or those with these names. Returns all known types."""
        self._thread.run(
            self._session.request_types(names, timeout), timeout=timeout, what="the node's types"
        )
        return self.types

    def wait_closed(self) -> str:
        """Wait until the space is closed. Returns the reason."""
        try:
            return self._thread.run(self._session.wait_over())
        except Disconnected:
            return self._connection.failure or ""

    def close(self, *, timeout: float | None = 10.0) -> None:
        """Send what waits and close the connection. Concurrent callers wait for the first.

        Raises RequestTimedOut after `timeout` seconds if a callback blocks the space's thread:
        queued data is sent, and the connection closed, when the callback returns. `None` waits
        for that.
        """
        self._open.close(timeout)


def _call_if_open(thread: LoopThread, work: Callable[[], object]) -> None:
    """Call a function on the thread; if the space is closed, there is nothing to do."""
    with suppress(Disconnected):
        thread.call(work)
