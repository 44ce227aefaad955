"""The blocking space: the same as the asyncio one, on a loop in a thread of its own.

Callbacks run one at a time, in order, on that thread. They may publish, but not wait for it: what
they would wait for needs the very thread they hold. Publishing from other threads does not go
through the loop: a frame is put where the loop finds it, and the loop is woken if it sleeps.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar, overload

from skerry.client.api import container
from skerry.client.api import service_handles as holdings
from skerry.client.api.aio import Types, open_session
from skerry.client.api.inbox import Inbox
from skerry.client.api.picture import Picture, PictureFeed
from skerry.client.api.service_handles import Ownership, Service
from skerry.client.api.space_base import SpaceBase
from skerry.client.api.subscription import SubscriptionBase
from skerry.client.core.event_queue import EventQueue, OnSlow
from skerry.client.core.events import Event
from skerry.client.io.at_exit import OpenSpace
from skerry.client.io.loop_thread import LoopThread
from skerry.client.io.session import Session
from skerry.closing import Closing
from skerry.errors import Disconnected
from skerry.limits import EVENT_QUEUE_COUNT_MAX, PAYLOAD_BYTES_MAX, SEND_BYTES_MAX
from skerry.objects.base import Struct

__all__ = ["Answer", "Container", "Space", "Subscription", "connect"]

S = TypeVar("S", bound=Struct)
T = TypeVar("T")

_PICTURE_S: Final = 10.0
"""How long the first look at the picture waits for the node."""


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
    """A space of the node at an endpoint; what `preload` names is there when this returns.

    Without an endpoint: SKERRY_ENDPOINT, else DOTS_ENDPOINT, else the node of this computer. The
    secret is that of the endpoint, or this one, or that of DOTS_AUTH_SECRET, or in the file that
    SKERRY_SECRET_FILE names. `ca`, `cert` and `key` are
    files for TLS. With `origin` the node tells with each update where it entered the system.
    Objects above `receive_bytes_max` bytes, encoded, are skipped and logged.

    Raises ConnectFailed if no node answers, ConnectRefused if the node rejects the client; with
    `wait` it retries until a node answers and has room.
    """
    thread = LoopThread(f"skerry {name}")
    try:
        session = thread.run(
            open_session(
                endpoint,
                name=name,
                types=types,
                preload=preload,
                secret=secret,
                timeout=timeout,
                wait=wait,
                ca=ca,
                cert=cert,
                key=key,
                origin=origin,
                send_bytes_max=send_bytes_max,
                receive_bytes_max=receive_bytes_max,
                queue_count_max=queue_count_max,
                lock=threading.Lock(),
            )
        )
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
    """Somebody who is told of events, until `close`. Without a callback: iterate over it.

    One that is iterated over ends also when nobody holds it any more.
    """

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
        """Tell nothing more; who iterates comes to the end."""
        _call_or_leave(self._thread, self.end)
        self._is_closed = True
        if not self._thread.is_forked:
            self._inbox.wake()

    def get(self, timeout: float | None = None) -> Event[T] | None:
        """The next event; None when there will be none, or none came in time."""
        self._check_iterable()
        if self._thread.is_forked:
            # What waits is for the other process, and so may be a thread that holds the lock.
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

    def _make_inbox(self, queue: EventQueue[T]) -> _Inbox[T]:
        return _Inbox(queue)


Container: TypeAlias = container.Container[S, Subscription[S]]

Answer: TypeAlias = Struct | Future[Any] | None
"""What a handler gives: an object, or nothing, or what will be one of them."""


class Space(SpaceBase, Closing):
    """One space of typed objects, shared with all clients of its node. For any thread."""

    def __init__(self, session: Session, thread: LoopThread) -> None:
        super().__init__(session)
        self._thread = thread
        self._open = OpenSpace(session, thread)
        self._feed: PictureFeed | None = None
        self._picture: Picture | None = None

    def __del__(self) -> None:
        if self._open.leave():
            warnings.warn("a space was not closed", ResourceWarning, stacklevel=2, source=self)

    # -- publishing

    def drain(self, *, timeout: float | None = None) -> None:
        """Wait until at most half of what may wait to be sent does.

        RequestTimedOut after `timeout` seconds, also when a callback blocks the space's thread.
        """
        self._thread.run(self._session.drain(timeout), timeout=timeout, what="room")

    def flush(self, *, timeout: float | None = 10.0) -> None:
        """Return when everything published so far has reached the node.

        Refused when the node did not permit some of it. Disconnected when the connection was lost
        while some of it was under way: it may have arrived or not. RequestTimedOut after `timeout`
        seconds, also when a callback blocks the space's thread.
        """
        self._thread.run(self._session.flush(timeout), timeout=timeout, what="the node's answer")

    def _carry_soon(self) -> None:
        """Let the loop send what waits."""
        try:
            self._session.loop.call_soon_threadsafe(self._session.carry)
        except RuntimeError:
            # Another thread has closed the space just now.
            raise Disconnected("the space is closed") from None

    # -- subscribing

    @overload
    def subscribe(
        self,
        what: type[S],
        callback: Callable[[Event[S]], object] | None = None,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
        on_slow: OnSlow = "disconnect",
    ) -> Subscription[S]: ...
    @overload
    def subscribe(
        self,
        what: str,
        callback: Callable[[Event[Any]], object] | None = None,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
        on_slow: OnSlow = "disconnect",
    ) -> Subscription[Any]: ...
    def subscribe(
        self,
        what: type[Struct] | str,
        callback: Callable[[Event[Any]], object] | None = None,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
        on_slow: OnSlow = "disconnect",
    ) -> Subscription[Any]:
        """Be told of each object that is there, and of each change from then on.

        `what` is a class, the name of a type, or a subject pattern such as `/Vessel/*`. `where`
        selects objects and `fields` their fields. Without a callback, iterate over what you get.
        """
        subscription: Subscription[Any] = Subscription(
            self._session, self._thread, what, callback, on_slow=on_slow
        )
        self._thread.call(lambda: subscription.open(where, fields))
        return subscription

    @overload
    def container(
        self,
        what: type[S],
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
        timeout: float | None = 10.0,
    ) -> Container[S]: ...
    @overload
    def container(
        self,
        what: str,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
        timeout: float | None = 10.0,
    ) -> Container[Any]: ...
    def container(
        self,
        what: type[Struct] | str,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
        timeout: float | None = 10.0,
    ) -> Container[Any]:
        """The current objects of a type, live; complete when this returns.

        RequestTimedOut after `timeout` seconds, also when a callback blocks the space's thread.
        """
        session, thread = self._session, self._thread
        interest, shape = thread.run(
            session.hold(what, where=where, fields=fields, timeout=timeout),
            timeout=timeout,
            what="all objects",
        )

        def events() -> Subscription[Any]:
            made: Subscription[Any] = Subscription(
                session, thread, what, None, on_slow="disconnect"
            )
            thread.call(lambda: made.open_beside(interest, shape))
            return made

        def release() -> None:
            _call_or_leave(thread, lambda: session.release(interest))

        return container.Container(interest, shape, events=events, release=release)

    # -- other programs

    def request(self, obj: Struct, *, to: str = "", timeout: float = 7.0) -> Any:
        """Ask the program that answers such requests under a name; gives its answer, or None.

        It is asked behind everything published before. NotRegistered when nobody answers them,
        RequestTimedOut when nobody did in time, RequestError when it failed, Refused when it is not
        permitted, WouldBlock when too many wait. Disconnected when the connection was lost
        meanwhile: as after a timeout, it may have been carried out or not.
        """
        return self._thread.run(
            self._session.request(obj, to, timeout), timeout=timeout, what="the answer"
        )

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
        """Answer requests of a type, under a name; from now on, or with `standby` when nobody else
        does.

        The handler gets the object and returns the answer, an object or None. It is called like a
        callback. What takes long it gives to an executor, and returns the future. When it fails,
        so does the request. `on_change` is called when the claim stands otherwise than before.
        """
        thread = self._thread
        return thread.run(
            holdings.serve(
                self._session,
                cls,
                handler,
                name=name,
                standby=standby,
                on_change=on_change,
                timeout=timeout,
                may_await=False,
                do=lambda work: _call_or_leave(thread, work),
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
        """Be the only one who changes the objects with these keys, or all of a type; from now on,
        or with `standby` when nobody else is.

        Refused when the node does not permit it for all of them.
        """
        thread = self._thread
        return thread.run(
            holdings.own(
                self._session,
                cls,
                keys,
                standby=standby,
                on_change=on_change,
                timeout=timeout,
                do=lambda work: _call_or_leave(thread, work),
            ),
            timeout=timeout,
            what="the node's answer",
        )

    @property
    def picture(self) -> Picture:
        """The nodes of the system, live. The first look waits until the node has told of them."""
        found = self._picture
        if found is None or not found.is_known:
            found = self._thread.run(
                self._look(), timeout=_PICTURE_S, what="the picture of the system"
            )
        return found

    async def _look(self) -> Picture:
        """On the loop, so that several threads share one."""
        if self._feed is None or self._picture is None:
            self._feed = PictureFeed(self._session)
            self._picture = Picture(self._feed, self._thread.call)
        await self._feed.wait(_PICTURE_S)
        return self._picture

    # -- the node

    def request_types(self, *names: str, timeout: float | None = 10.0) -> Mapping[str, Any]:
        """Ask the node for its types, or for those with these names; gives all that are known."""
        self._thread.run(
            self._session.request_types(names, timeout), timeout=timeout, what="the node's types"
        )
        return self.types

    def wait_closed(self) -> str:
        """Wait until the space is closed, by us or for good; gives the reason."""
        try:
            return self._thread.run(self._session.wait_over())
        except Disconnected:
            return self._core.failure or ""

    def close(self, *, timeout: float | None = 10.0) -> None:
        """Flush, say goodbye and close the connection. Concurrent callers wait for the first.

        RequestTimedOut after `timeout` seconds if a callback blocks the space's thread: queued data
        is sent, and the connection closed, when the callback returns. `None` waits for that.
        """
        self._open.close(timeout)


def _call_or_leave(thread: LoopThread, work: Callable[[], object]) -> None:
    """Do something there, of which nothing is left to do when the space is closed meanwhile."""
    with suppress(Disconnected):
        thread.call(work)
