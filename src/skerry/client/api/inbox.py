"""Where events wait for who iterates, and what the space knows of a subscription.

The space holds these two and not the subscription itself. So one that nobody iterates over any more
can go, as after `for event in space.subscribe(Vessel): break`, and is ended then.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from skerry.client.core.event_queue import EventQueue, OnSlow
from skerry.client.core.events import Event, ReceivedType
from skerry.client.core.subscriptions import SubscribedType
from skerry.client.core.update_intake import Target
from skerry.client.io.session import Session
from skerry.objects.base import Struct
from skerry.runtime.clock import monotonic_ns

__all__ = ["Inbox", "SubscriptionState"]

T = TypeVar("T")


class Inbox(Generic[T]):
    """Events that wait for who iterates."""

    def __init__(self, queue: EventQueue[T]) -> None:
        self.queue = queue

    def put(self, event: Event[T]) -> None:
        """One more event; on the loop."""
        self.queue.put(event)

    def wake(self) -> None:
        """There is something new for who iterates, be it the end."""


class SubscriptionState:
    """One who is told of events, as the space knows them."""

    def __init__(self, session: Session, on_slow: OnSlow) -> None:
        self._session = session
        self._on_slow: OnSlow = on_slow
        self._joined: tuple[SubscribedType, Target] | None = None
        self._waker: Callable[[], None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether they are told of anything."""
        return self._joined is not None

    def open(
        self,
        what: type[Struct] | str,
        callback: Callable[[Event[Any]], object],
        waker: Callable[[], None],
        *,
        where: str | None,
        fields: Any,
    ) -> None:
        """Ask the space for something; on its loop. The waker is called at the end of the space."""
        joined = self._session.core.subscribe(
            what, callback, monotonic_ns(), where=where, fields=fields, on_slow=self._on_slow
        )
        self._opened(joined, waker)

    def open_beside(
        self,
        interest: SubscribedType,
        shape: ReceivedType,
        callback: Callable[[Event[Any]], object],
        waker: Callable[[], None],
    ) -> None:
        """Join those who share an interest already; on the loop."""
        target = self._session.core.subscribe_beside(
            interest, callback, shape, monotonic_ns(), on_slow=self._on_slow
        )
        self._opened((interest, target), waker)

    def end(self) -> None:
        """Tell nothing more; on the loop."""
        joined, self._joined = self._joined, None
        if joined is None:
            return
        if self._waker is not None:
            self._session.wakers.discard(self._waker)
            self._waker = None
        self._session.core.unsubscribe(*joined, monotonic_ns(), on_slow=self._on_slow)
        self._session.carry()

    def end_soon(self) -> None:
        """The same from any thread, and in the midst of anything: also the collector calls this."""
        if self._session.core.failure is not None:
            return
        # Where the loop is closed, the connection is gone, and all that was asked for with it.
        with suppress(RuntimeError):
            self._session.loop.call_soon_threadsafe(self.end)

    def _opened(self, joined: tuple[SubscribedType, Target], waker: Callable[[], None]) -> None:
        self._joined = joined
        self._waker = waker
        self._session.wakers.add(waker)
        self._session.carry()
