"""The parts that asyncio and blocking subscriptions share.

The session refers to the inbox and to the state of a subscription, and not to the subscription
itself. So a subscription without references is collected, and ended by its finalizer, as after
`for event in space.subscribe(Vessel): break`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from skerry.client.core.event_queue import EventQueue, OnSlow
from skerry.client.core.events import Event
from skerry.client.core.node_subscription import NodeSubscription
from skerry.client.core.received_types import ReceivedType
from skerry.client.core.type_route import Target
from skerry.client.io.session import Session
from skerry.client.io.unknown_types import warn_of_unknown
from skerry.closing import Closing
from skerry.errors import LocalProtocolError
from skerry.objects.base import Struct
from skerry.protocol.patterns import foreign_wildcard
from skerry.runtime.clock import monotonic_ns

T = TypeVar("T")
if TYPE_CHECKING:
    import typing_extensions

    S = typing_extensions.TypeVar("S", bound=Struct, default=Any)
    """The class of a type; unknown if the type is given by its name."""
else:
    S = TypeVar("S", bound=Struct)

ON_SLOW = ("disconnect", "conflate")


def check_callback(callback: object) -> None:
    """LocalProtocolError if an object cannot be used as a callback."""
    if not callable(callback):
        raise LocalProtocolError(f"a callback must be a function, not {type(callback).__name__}")
    # For an object, the method that is called instead counts.
    if any(inspect.iscoroutinefunction(part) for part in (callback, type(callback).__call__)):
        error = LocalProtocolError("a callback is not awaited, so it cannot be `async`")
        error.hint = "iterate with `async for`, or start a task in an ordinary function"
        raise error


class Inbox(Generic[T]):
    """Events that wait for the iterator of a subscription."""

    def __init__(self, queue: EventQueue[T]) -> None:
        self.queue = queue

    def put(self, event: Event[T]) -> None:
        """Add an event; on the loop."""
        self.queue.put(event)

    def wake(self) -> None:
        """Wake the iterator, for an event or for the end of the subscription."""


class SubscriptionState:
    """A subscription as the session knows it."""

    def __init__(self, session: Session, on_slow: OnSlow) -> None:
        self._session = session
        self._on_slow: OnSlow = on_slow
        self._joined: tuple[NodeSubscription, Target] | None = None
        self._waker: Callable[[], None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the callback receives events."""
        return self._joined is not None

    def opened(self, joined: tuple[NodeSubscription, Target], waker: Callable[[], None]) -> None:
        """The subscription exists; on the loop. The waker is called when the space is closed."""
        self._joined = joined
        self._waker = waker
        self._session.wakers.add(waker)
        self._session.write_output()

    def end(self) -> None:
        """End the subscription; on the loop."""
        joined, self._joined = self._joined, None
        if joined is None:
            return
        if self._waker is not None:
            self._session.wakers.discard(self._waker)
            self._waker = None
        self._session.core.unsubscribe(*joined, monotonic_ns(), on_slow=self._on_slow)
        self._session.write_output()

    def end_soon(self) -> None:
        """End the subscription from any thread, and at any moment: finalizers call this."""
        if self._session.connection.failure is not None:
            return
        # If the loop is closed, the connection and its subscriptions are closed too.
        with suppress(RuntimeError):
            self._session.loop.call_soon_threadsafe(self.end)


class SubscriptionBase(Closing, Generic[T]):
    """Receives events, by a callback or by iteration."""

    inbox_class: ClassVar[type[Inbox[Any]]] = Inbox
    _caller_depth: ClassVar[int] = 4
    """Calls between a warning and the program that called `subscribe`."""
    _state: SubscriptionState | None = None

    def __init__(
        self,
        session: Session,
        what: type[Struct] | str,
        callback: Callable[[Event[T]], object] | None,
        *,
        on_slow: OnSlow,
    ) -> None:
        if on_slow not in ON_SLOW:
            raise LocalProtocolError(f"on_slow is {on_slow!r:.40}; it must be one of {ON_SLOW}")
        if callback is not None:
            check_callback(callback)
        self._warn_of_wildcard(what)
        self._session = session
        self._what = what
        self._callback = callback
        self._on_slow: OnSlow = on_slow
        self._state = state = SubscriptionState(session, on_slow)
        self._queue: EventQueue[T] = EventQueue(
            count_max=session.core.config.queue_count_max, on_slow=on_slow, failed=state.end_soon
        )
        self._inbox = self.inbox_class(self._queue)
        self._is_closed = False

    def __del__(self) -> None:
        # A subscription with a callback stays open without references to it. One without a
        # callback has lost its iterator.
        state = self._state
        if state is not None and self._callback is None and state.is_open:
            state.end_soon()

    def open(self, where: str | None = None, fields: Any = None) -> None:
        """Subscribe; on the loop."""
        joined = self._session.core.subscribe(
            self._what,
            self._callback or self._inbox.put,
            monotonic_ns(),
            where=where,
            fields=fields,
            on_slow=self._on_slow,
        )
        assert self._state is not None
        self._state.opened(joined, self._inbox.wake)
        warn_of_unknown(self._session, self._what)

    def open_beside(self, subscription: NodeSubscription, shape: ReceivedType) -> None:
        """Subscribe to what a container holds; on the loop."""
        callback = self._callback or self._inbox.put
        target = self._session.core.subscribe_beside(
            subscription, callback, shape, monotonic_ns(), on_slow=self._on_slow
        )
        assert self._state is not None
        self._state.opened((subscription, target), self._inbox.wake)

    def _warn_of_wildcard(self, what: object) -> None:
        strange = foreign_wildcard(what) if isinstance(what, str) else None
        if strange is not None:
            level, meant = strange
            warnings.warn(
                f"the level {level} of {what} is no wild card and matches only itself;"
                f" did you mean {meant!r}?",
                stacklevel=self._caller_depth,
            )

    def end(self) -> None:
        """End the subscription; on the loop."""
        assert self._state is not None
        self._is_closed = True
        self._state.end()

    def _is_over(self) -> bool:
        """Whether no further events follow."""
        return (
            self._is_closed
            or self._queue.failure is not None
            or self._session.connection.failure is not None
        )

    def _next(self) -> Event[T] | None:
        """The next event that waits, if any; raises SlowConsumer after the last one."""
        event = self._queue.get()
        if event is None and self._queue.failure is not None:
            raise self._queue.failure
        return event

    def _check_iterable(self) -> None:
        if self._callback is not None:
            raise LocalProtocolError("a subscription with a callback cannot be iterated over")
