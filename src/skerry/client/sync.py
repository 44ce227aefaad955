"""The blocking space: the asyncio one, on a loop in a thread of its own.

Callbacks run one at a time, in order, on that thread. They may publish, but not wait for it: what
they would wait for needs the very thread they hold.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from skerry.client import aio
from skerry.client.space import Container, Event, Subscription
from skerry.errors import Disconnected, LocalProtocolError
from skerry.objects.base import Struct

__all__ = ["Space", "connect"]

T = TypeVar("T")


def connect(
    endpoint: str | None = None,
    *,
    name: str = "skerry-client",
    types: Mapping[str, Any] | Iterable[type[Struct]] = (),
    preload: Iterable[type[Struct]] = (),
    secret: str | None = None,
    timeout: float = 10.0,
) -> Space:
    """A space of the node at an endpoint; what `preload` names is there when this returns.

    Without an endpoint: SKERRY_ENDPOINT, else DOTS_ENDPOINT, else the node of this computer.
    ConnectFailed when there is no node, or it does not let us in.
    """
    thread = _LoopThread(f"skerry {name}")
    try:
        space = thread.run(
            aio.connect(
                endpoint, name=name, types=types, preload=preload, secret=secret, timeout=timeout
            )
        )
    except BaseException:
        thread.end()
        raise
    return Space(space, thread)


class Space:
    """One space of typed objects, on one connection to a node. Safe to use from any thread."""

    def __init__(self, space: aio.Space, thread: _LoopThread) -> None:
        self._space = space
        self._thread = thread

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def client_id(self) -> int:
        """What the node calls us."""
        return self._space.client_id

    def publish(self, obj: Struct, *, only: Iterable[str] | None = None) -> None:
        """Create an object, or update those of its fields that are set or named in `only`."""
        self._thread.call(lambda: self._space.publish(obj, only=only))

    def remove(self, obj: Struct) -> None:
        """Remove the object that has this key."""
        self._thread.call(lambda: self._space.remove(obj))

    def subscribe(self, cls: type[Struct], callback: Callable[[Event], object]) -> Subscription:
        """Call back for each object of a type that is there, and for each change from then on."""
        return self._thread.call(lambda: self._space.subscribe(cls, callback))

    def container(self, cls: type[Struct], *, timeout: float = 10.0) -> Container:
        """The current objects of a type, live; complete when this returns."""
        return self._thread.run(self._space.container(cls, timeout=timeout))

    def flush(self, *, timeout: float = 10.0) -> None:
        """Return when everything published so far has reached the node."""
        self._thread.run(self._space.flush(timeout=timeout))

    def wait_closed(self) -> str:
        """Wait until the connection is over; gives the reason."""
        return self._thread.run(self._space.wait_closed())

    def close(self) -> None:
        """Say goodbye and end the connection."""
        if self._thread.is_running:
            self._thread.run(self._space.close())
            self._thread.end()


class _LoopThread:
    """A loop in a thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there, and wait for it here."""
        if threading.current_thread() is self._thread:
            work.close()
            raise LocalProtocolError("a callback cannot wait: it runs on the thread that it needs")
        if not self.is_running:
            work.close()
            raise Disconnected("the space is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def call(self, work: Callable[[], T]) -> T:
        """Do something there that does not wait."""
        if threading.current_thread() is self._thread:
            return work()

        async def done() -> T:
            return work()

        return self.run(done())

    def end(self) -> None:
        """Stop the loop and wait for its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
