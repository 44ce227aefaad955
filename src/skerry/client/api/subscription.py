"""What both kinds of subscription have alike: somebody is told of events, until the end."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from skerry.client.api.inbox import Inbox, SubscriptionState
from skerry.client.core.event_queue import EventQueue, OnSlow
from skerry.client.core.events import Event, ReceivedType
from skerry.client.core.subscriptions import SubscribedType
from skerry.client.io.session import Session
from skerry.closing import Closing
from skerry.errors import LocalProtocolError
from skerry.objects.base import Struct

__all__ = ["ON_SLOW", "SubscriptionBase", "check_callback"]

T = TypeVar("T")

ON_SLOW = ("disconnect", "conflate")


def check_callback(callback: object) -> None:
    """LocalProtocolError for what cannot be called back."""
    if not callable(callback):
        raise LocalProtocolError(f"a callback is a function, not {type(callback).__name__}")
    # Of an object, the method that is called in its place tells.
    if any(inspect.iscoroutinefunction(part) for part in (callback, type(callback).__call__)):
        error = LocalProtocolError("a callback is called and not awaited: it cannot be `async`")
        error.hint = "iterate with `async for`, or let a plain function start a task"
        raise error


class SubscriptionBase(Closing, Generic[T]):
    """Somebody who is told of events: by a callback, or by iterating."""

    _place: SubscriptionState | None = None

    def __init__(
        self,
        session: Session,
        what: type[Struct] | str,
        callback: Callable[[Event[T]], object] | None,
        *,
        on_slow: OnSlow,
    ) -> None:
        if on_slow not in ON_SLOW:
            raise LocalProtocolError(f"on_slow is {on_slow!r:.40}; it is one of {ON_SLOW}")
        if callback is not None:
            check_callback(callback)
        self._session = session
        self._what = what
        self._callback = callback
        self._place = place = SubscriptionState(session, on_slow)
        self._queue: EventQueue[T] = EventQueue(
            count_max=session.core.config.queue_count_max,
            on_slow=on_slow,
            failed=place.end_soon,
        )
        self._inbox = self._make_inbox(self._queue)
        self._is_closed = False

    def __del__(self) -> None:
        # With a callback it goes on without us. Who iterates is gone for good.
        place = self._place
        if place is not None and self._callback is None and place.is_open:
            place.end_soon()

    def open(self, where: str | None = None, fields: Any = None) -> None:
        """Ask the space for it; on its loop."""
        assert self._place is not None
        inbox = self._inbox
        self._place.open(
            self._what, self._callback or inbox.put, inbox.wake, where=where, fields=fields
        )

    def open_beside(self, interest: SubscribedType, shape: ReceivedType) -> None:
        """Join those who share an interest already; on the loop."""
        assert self._place is not None
        inbox = self._inbox
        self._place.open_beside(interest, shape, self._callback or inbox.put, inbox.wake)

    def end(self) -> None:
        """Tell nothing more; on the loop."""
        assert self._place is not None
        self._is_closed = True
        self._place.end()

    def _make_inbox(self, queue: EventQueue[T]) -> Inbox[T]:
        """Where events wait for who iterates."""
        return Inbox(queue)

    def _is_over(self) -> bool:
        """Whether no event will come any more."""
        return (
            self._is_closed
            or self._queue.failure is not None
            or self._session.core.failure is not None
        )

    def _next(self) -> Event[T] | None:
        """The next event that waits, if there is one; SlowConsumer after the last."""
        event = self._queue.get()
        if event is None and self._queue.failure is not None:
            raise self._queue.failure
        return event

    def _check_iterable(self) -> None:
        if self._callback is not None:
            raise LocalProtocolError("this subscription has a callback; it has nothing to iterate")
