"""What both kinds of subscription have alike: somebody is told of events, until the end."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from skerry.client.event_queue import EventQueue, OnSlow
from skerry.client.events import Event, Shape
from skerry.client.intake import Target
from skerry.client.interests import Interest
from skerry.client.session import Session
from skerry.errors import LocalProtocolError
from skerry.objects.base import Struct
from skerry.runtime.clock import monotonic_ns

__all__ = ["ON_SLOW", "SubscriptionBase"]

T = TypeVar("T")

ON_SLOW = ("disconnect", "conflate")


class SubscriptionBase(Generic[T]):
    """Somebody who is told of events: by a callback, or by iterating."""

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
        self._session = session
        self._what = what
        self._on_slow: OnSlow = on_slow
        self._callback = callback
        self._queue: EventQueue[T] = EventQueue(
            count_max=session.core.config.queue_count_max, on_slow=on_slow
        )
        self._place: tuple[Interest, Target] | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Tell nothing more; who iterates comes to the end."""
        raise NotImplementedError

    def open(self, where: str | None = None, fields: Any = None) -> None:
        """Ask the space for it; on its loop."""
        self._place = self._session.core.subscribe(
            self._what,
            self._callback or self._put,
            monotonic_ns(),
            where=where,
            fields=fields,
            on_slow=self._on_slow,
        )
        self._session.wakers.add(self._wake)
        self._session.carry()

    def open_beside(self, interest: Interest, shape: Shape) -> None:
        """Join those who share an interest already; on the loop."""
        target = self._session.core.subscribe_beside(
            interest, self._callback or self._put, shape, monotonic_ns(), on_slow=self._on_slow
        )
        self._place = interest, target
        self._session.wakers.add(self._wake)
        self._session.carry()

    def end(self) -> None:
        """Tell nothing more; on the loop."""
        self._is_closed = True
        self._session.wakers.discard(self._wake)
        place, self._place = self._place, None
        if place is not None:
            core = self._session.core
            core.unsubscribe(*place, monotonic_ns(), on_slow=self._on_slow)
            self._session.carry()

    def _put(self, event: Event[T]) -> None:
        """One more event for who iterates."""
        raise NotImplementedError

    def _wake(self) -> None:
        """There is something new for who iterates, be it the end."""
        raise NotImplementedError

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
