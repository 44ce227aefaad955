"""The asyncio space. Its methods are documented in `client.api.sync`, of which it is the twin."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, overload

from skerry.client.api import container, picture, service_handles
from skerry.client.api.service_handles import Ownership, Service
from skerry.client.api.space_base import SpaceBase
from skerry.client.api.subscription import Inbox, S, SubscriptionBase
from skerry.client.core.event_queue import EventQueue, OnSlow
from skerry.client.core.events import Event
from skerry.client.core.settings import SpaceConfig
from skerry.client.io.endpoint_opener import EndpointOpener, default_endpoint
from skerry.client.io.session import Session
from skerry.errors import LocalProtocolError
from skerry.limits import EVENT_QUEUE_COUNT_MAX, PAYLOAD_BYTES_MAX, SEND_BYTES_MAX
from skerry.objects.base import Struct
from skerry.protocol.access.client import EXTENSION_ORIGIN, EXTENSION_SUBJECTS
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.secret_files import given_secret
from skerry.runtime.streams.endpoints import parse_endpoint

T = TypeVar("T")
A = TypeVar("A", bound=Struct)

Types: TypeAlias = Mapping[str, Any] | Iterable[Any]


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
) -> Connecting:
    """Connect to the node at an endpoint. Arguments and errors are those of `skerry.connect`.

    Await the result, or use it in `async with`, with or without `await`.
    """
    return Connecting(_connected(**locals()))  # all arguments, unchanged


async def _connected(endpoint: str | None, **options: Any) -> AsyncSpace:
    return AsyncSpace(await open_session(endpoint, **options))


class Connecting(Coroutine[Any, Any, "AsyncSpace"]):
    """A space that is about to be connected: `await` it, or use it in `async with`.

    It is a coroutine, so that `asyncio.create_task` and `asyncio.run` accept it.
    """

    def __init__(self, work: Coroutine[Any, Any, AsyncSpace]) -> None:
        self._work = work
        self._space: AsyncSpace | None = None

    def __await__(self) -> Generator[Any, Any, AsyncSpace]:
        return self._work.__await__()

    async def __aenter__(self) -> AsyncSpace:
        self._space = await self._work
        return self._space

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._space is not None
        await self._space.close()

    def send(self, value: Any) -> Any:
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    if not TYPE_CHECKING:  # A type checker finds it by itself.

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"this space is not connected yet, so it has no {name}: write"
                " `async with skerry.aio.connect(...) as space:`, or `await` it"
            )


async def open_session(
    endpoint: str | None,
    *,
    name: str,
    types: Types,
    preload: Iterable[type[Struct] | str],
    secret: str | None,
    timeout: float,
    wait: bool,
    ca: str | Path | None,
    cert: str | Path | None,
    key: str | Path | None,
    origin: bool,
    send_bytes_max: int,
    queue_count_max: int,
    receive_bytes_max: int = PAYLOAD_BYTES_MAX,
    lock: Any = None,
) -> Session:
    """The connected session of a space of either kind."""
    parsed = parse_endpoint(endpoint or default_endpoint(os.environ))
    if parsed.password is not None:
        secret = parsed.password
    elif secret is None:
        secret = given_secret(os.environ)
    extensions = EXTENSION_SUBJECTS | (EXTENSION_ORIGIN if origin else 0)
    config = SpaceConfig(
        name=parsed.user or name,
        secret=secret,
        is_patient=wait,
        extensions=extensions if parsed.extensions else 0,
        send_bytes_max=send_bytes_max,
        receive_bytes_max=receive_bytes_max,
        queue_count_max=queue_count_max,
    )
    opener = EndpointOpener(
        parsed,
        ca=_path(ca),
        cert=_path(cert),
        key=_path(key),
        message_bytes_max=config.frame_bytes_max,
    )
    session = Session(opener, config, lock=lock)
    for cls in types.values() if isinstance(types, Mapping) else types:
        if isinstance(cls, type) and issubclass(cls, Struct) and not cls.descriptor.flags.internal:
            session.core.types.learn(cls)
    for what in preload:
        session.core.preload(what, monotonic_ns())
    await session.start(timeout)
    return session


class _Inbox(Inbox[T]):
    def __init__(self, queue: EventQueue[T]) -> None:
        super().__init__(queue)
        self.arrived = asyncio.Event()

    def put(self, event: Event[T]) -> None:
        self.queue.put(event)
        self.arrived.set()

    def wake(self) -> None:
        self.arrived.set()


class AsyncSubscription(SubscriptionBase[T], Generic[T]):
    """Receives events until `close`. Without a callback, iterate over it with `async for`.

    A subscription without a callback also ends when there are no references to it.
    """

    inbox_class = _Inbox
    _inbox: _Inbox[T]

    def close(self) -> None:
        """End the subscription, and an iteration over it."""
        self.end()
        self._inbox.wake()

    def __aiter__(self) -> Self:
        self._check_iterable()
        return self

    async def __anext__(self) -> Event[T]:
        while True:
            event = self._next()
            if event is not None:
                return event
            if self._is_over():
                raise StopAsyncIteration
            self._inbox.arrived.clear()
            await self._inbox.arrived.wait()


Container: TypeAlias = container.Container[S, AsyncSubscription[S]]

Answer: TypeAlias = Struct | Awaitable[Struct | None] | Future[Any] | None
"""What a handler returns: an object or None, or an awaitable or future of either."""


class AsyncPicture(picture.Picture):
    """The nodes of the system, as the elected node reports them; empty until they are known."""

    async def wait(self, timeout: float | None = 10.0) -> None:
        """Wait until the picture is known; raises Refused if the node refuses it."""
        await self._feed.wait(timeout)


class AsyncSpace(SpaceBase):
    """One space of typed objects, shared with all clients of its node."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._is_closed = False
        self._picture: AsyncPicture | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        if not self._is_closed and not self._session.loop.is_closed():
            warnings.warn("a space was not closed", ResourceWarning, stacklevel=2, source=self)

    # -- publishing

    def _publish_first(
        self, what: Struct | str, data: bytes | None, only: Iterable[str] | None, subject: str
    ) -> bool:
        self._check_loop()
        return super()._publish_first(what, data, only, subject)

    def _write_soon(self) -> None:
        self._session.write_soon()

    async def drain(self, *, timeout: float | None = None) -> None:
        """Wait until at most half of `send_bytes_max` waits to be sent."""
        self._check_loop()
        await self._session.drain(timeout)

    async def flush(self, *, timeout: float | None = 10.0) -> None:
        """Wait until everything published so far has reached the node.

        Raises Refused if the node refused some of it, Disconnected if the connection was lost
        before the node confirmed all of it: the rest may have arrived or not.
        """
        self._check_loop()
        await self._session.flush(timeout)

    # -- subscribing

    def subscribe(
        self,
        what: type[S] | str,
        callback: Callable[[Event[S]], object] | None = None,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
        on_slow: OnSlow = "disconnect",
    ) -> AsyncSubscription[S]:
        """Receive each object that exists, and each later update; as `skerry.Space.subscribe`."""
        self._check_loop()
        subscription: AsyncSubscription[S] = AsyncSubscription(
            self._session, what, callback, on_slow=on_slow
        )
        subscription.open(where, fields)
        return subscription

    async def container(
        self,
        what: type[S] | str,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
        timeout: float | None = 10.0,
    ) -> Container[S]:
        """A live mapping of the current objects of a type; it is complete when this returns."""
        self._check_loop()
        session = self._session
        subscription, shape = await session.hold(what, where=where, fields=fields, timeout=timeout)

        def events() -> AsyncSubscription[S]:
            made: AsyncSubscription[S] = AsyncSubscription(
                session, what, None, on_slow="disconnect"
            )
            made.open_beside(subscription, shape)
            return made

        def release() -> None:
            session.release(subscription)

        return container.Container(subscription, shape, events=events, release=release)

    # -- other programs

    @overload
    async def request(self, obj: Struct, *, to: str = "", timeout: float = 7.0) -> Any: ...
    @overload
    async def request(
        self, obj: Struct, *, answer: type[A], to: str = "", timeout: float = 7.0
    ) -> A: ...
    async def request(
        self,
        obj: Struct,
        *,
        answer: type[Struct] | None = None,
        to: str = "",
        timeout: float = 7.0,
    ) -> Any:
        """Send a request, and wait for its answer, an object or None; as `skerry.Space.request`."""
        self._check_loop()
        if answer is not None:
            service_handles.check_answer(self._session, answer)
        found = await self._session.request(obj, to, timeout)
        return found if answer is None else service_handles.answer_of(obj, found, answer)

    async def serve(
        self,
        cls: type[S],
        handler: Callable[[S], Answer],
        *,
        name: str = "",
        standby: bool = False,
        on_change: Callable[[Service], object] | None = None,
        timeout: float | None = 10.0,
    ) -> Service:
        """Answer requests of a type under a name; as `skerry.Space.serve`.

        The handler may be `async`: several requests are then processed at a time.
        """
        self._check_loop()
        return await service_handles.serve(
            self._session,
            cls,
            handler,
            name=name,
            standby=standby,
            on_change=on_change,
            timeout=timeout,
            may_await=True,
            do=_call,
        )

    async def own(
        self,
        cls: type[Struct],
        keys: Iterable[Any] | None = None,
        *,
        standby: bool = False,
        on_change: Callable[[Ownership], object] | None = None,
        timeout: float | None = 10.0,
    ) -> Ownership:
        """Claim the exclusive right to change objects; as `skerry.Space.own`."""
        self._check_loop()
        return await service_handles.own(
            self._session,
            cls,
            keys,
            standby=standby,
            on_change=on_change,
            timeout=timeout,
            do=_call,
        )

    @property
    def picture(self) -> AsyncPicture:
        """The nodes of the system, live. Empty until `await space.picture.wait()` has returned."""
        if self._picture is None:
            self._check_loop()
            self._picture = AsyncPicture(picture.PictureFeed(self._session), _call)
        return self._picture

    # -- the node

    async def request_types(self, *names: str, timeout: float | None = 10.0) -> Mapping[str, Any]:
        """Request the node's types, or those with these names. Returns all known types."""
        self._check_loop()
        await self._session.request_types(names, timeout)
        return self.types

    async def wait_closed(self) -> str:
        """Wait until the space is closed. Returns the reason."""
        self._check_loop()
        return await self._session.wait_over()

    async def close(self) -> None:
        """Send what waits and close the connection."""
        self._check_loop()
        self._is_closed = True
        await self._session.close()

    def _check_loop(self) -> None:
        """LocalProtocolError on another loop than that of the space.

        Without a running loop there is no conflict.
        """
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if running is not self._session.loop:
            error = LocalProtocolError("this space belongs to another loop")
            error.hint = "connect on each loop, or use a blocking space, which any thread may use"
            raise error


def _call(work: Callable[[], None]) -> None:
    """Call a function on the loop of the space, which is the caller's."""
    work()


def _path(value: str | Path | None) -> Path | None:
    return None if value is None else Path(value)
