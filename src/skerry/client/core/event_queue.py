"""Events of a subscription that wait for its iterator, up to a limit."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from skerry.client.core.events import Event
from skerry.client.core.received_types import CREATE, REMOVE, UPDATE
from skerry.codec.operation import Operation
from skerry.codec.pieces import canonical_key, cut, split_whole
from skerry.errors import SlowConsumer
from skerry.protocol.access.header import ABSENT, copy_header

T = TypeVar("T")

OnSlow: TypeAlias = Literal["disconnect", "conflate"]
"""What to do with a slow subscriber: end its subscription, or conflate its events."""


class EventQueue(Generic[T]):
    """The queue of one subscription.

    Above the limit the subscription ends, or its events are conflated: of each object only the last
    state is kept, until the queue is empty again. A message counts as a state of the object with
    its key, or of its subject. If there are more objects than the limit, conflation ends the
    subscription too.
    """

    def __init__(
        self, *, count_max: int, on_slow: OnSlow, failed: Callable[[], object] | None = None
    ) -> None:
        """`failed` is called when the queue accepts no more events."""
        assert count_max > 0
        self._count_max = count_max
        self._on_slow = on_slow
        self._failed = failed
        self._events: deque[Event[T]] = deque()
        # Ordered: to find the first key of a dict is slow when keys before it were deleted.
        self._by_object: OrderedDict[tuple[str, bytes | str], Event[T]] | None = None
        self.failure: SlowConsumer | None = None
        """Why the queue accepts no more events; those that wait can still be taken."""

    def __len__(self) -> int:
        return len(self._events) if self._by_object is None else len(self._by_object)

    def put(self, event: Event[T]) -> None:
        """Add an event, unless the queue has failed."""
        if self.failure is not None:
            return
        if self._by_object is None:
            if len(self._events) < self._count_max:
                self._events.append(event)
                return
            if self._on_slow == "disconnect":
                self._fail(f"{len(self)} events wait, the limit is {self._count_max}")
                return
            self._conflate_all()
        self._conflate(event)

    def get(self) -> Event[T] | None:
        """Take out the oldest event; None if there is none."""
        if self._by_object is None:
            return self._events.popleft() if self._events else None
        _, event = self._by_object.popitem(last=False)
        if not self._by_object:
            self._by_object = None
        return event

    def _fail(self, why: str) -> None:
        self.failure = SlowConsumer(f"a subscription did not keep up: {why}")
        self.failure.hint = 'process events faster, or subscribe with on_slow="conflate"'
        if self._failed is not None:
            self._failed()

    def _conflate_all(self) -> None:
        events, self._events = self._events, deque()
        self._by_object = OrderedDict()
        for event in events:
            self._conflate(event)

    def _conflate(self, event: Event[T]) -> None:
        assert self._by_object is not None
        identity = _identity(event)
        waiting = self._by_object.get(identity)
        if waiting is not None:
            joined = _joined(waiting, event)
            if joined is None:
                del self._by_object[identity]
            else:
                self._by_object[identity] = joined
        elif len(self._by_object) >= self._count_max:
            self._fail(f"events of more than {self._count_max} objects wait, which is the limit")
        else:
            self._by_object[identity] = event
        if not self._by_object:
            self._by_object = None


def _identity(event: Event[Any]) -> tuple[str, bytes | str]:
    plan = event.shape.plan
    if event.shape.is_bytes:
        return plan.name, event.subject
    return plan.name, canonical_key(plan, split_whole(plan, event.data))


def _joined(first: Event[T], second: Event[T]) -> Event[T] | None:
    """One event for two events of an object; None if they cancel out."""
    if second.entry is None:
        return second
    if second.operation == REMOVE:
        return None if first.operation == CREATE else second
    if first.operation == REMOVE:
        return _with_state(second, UPDATE, -1)
    operation = CREATE if first.operation == CREATE else UPDATE
    return _with_state(second, operation, int(first.header.attributes | second.header.attributes))


def _with_state(event: Event[T], operation: Operation, attributes: int) -> Event[T]:
    """An event with the last state of the object, and these fields as the update."""
    entry, plan = event.entry, event.shape.plan
    assert entry is not None
    pieces = split_whole(plan, entry.payload)
    attributes &= int(plan.mask)
    payload = cut(plan, pieces, attributes | int(plan.key_mask))
    header = copy_header(event.header)
    header.from_cache = ABSENT
    header.remove_obj = 0
    header.attributes = attributes
    return event.with_update(operation, header, payload)
