"""The event that a subscriber receives for each update of an object.

An event is made for each received update, so it is small: it keeps the received bytes, and decodes
an object on first access. The attributes that every callback reads are in `codec.hot_loops`; the
ones that are read less often are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from skerry.client.core.received_types import ReceivedType
from skerry.codec.hot_loops import ObjectState, ReceivedUpdate
from skerry.codec.operation import Operation
from skerry.codec.pieces import split
from skerry.codec.subjects import default_subject
from skerry.protocol.access.header import Header, copy_header

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """Which client created an object and which changed it last. Times: seconds since the epoch.

    Only received updates count: for an object that existed before the subscription, `created` is
    the time of its last change. A message has only one update.
    """

    last_operation: Operation
    created: float
    """When the publisher sent it."""
    created_from: int
    """Number of the client that published it; 1 is the node itself."""
    modified: float
    modified_from: int
    received: float
    """When this client received the last change."""


def info_of(state: ObjectState) -> ObjectInfo:
    return ObjectInfo(
        last_operation=state.operation,
        created=state.created,
        created_from=state.created_from,
        modified=state.modified,
        modified_from=state.modified_from,
        received=state.received,
    )


class Event(ReceivedUpdate, Generic[T]):
    """An update of an object, and the object after it. Later updates do not change an event."""

    __slots__ = ()

    if TYPE_CHECKING:
        # `ReceivedUpdate` has these for any class; here they have the class of the type.
        @property
        def update(self) -> T:
            """The published object: the fields of the property set, and the key."""

        @property
        def object(self) -> T:
            """The whole object after the update, or before it if the update removes it."""

    @property
    def header(self) -> Header:
        """The header of the update."""
        if self._has_times:
            # Made on first access, which is rare, and not for each update.
            header = copy_header(self._known)
            header.sent_time = self._sent_time
            header.server_sent_time = self._server_sent_time
            self._known = header
            self._has_times = False
        known: Header = self._known
        return known

    @property
    def type_name(self) -> str:
        return self.shape.name

    @property
    def subject(self) -> str:
        """The subject under which the update was published."""
        subject: str = self._known.subject
        if subject:
            return subject
        plan = self.shape.plan
        return default_subject(plan, split(plan, self._payload, 0))

    @property
    def is_from_cache(self) -> bool:
        """Whether the object existed before the subscription."""
        return bool(self._known.from_cache >= 0)

    @property
    def is_from_myself(self) -> bool:
        """Whether this space published the update."""
        return bool(self._known.sender == self._own_id)

    @property
    def info(self) -> ObjectInfo:
        """Which client created the object and which changed it last, up to this event."""
        entry = self.entry
        if entry is not None:
            return info_of(entry)
        header = self.header
        sender = int(header.sender)
        return ObjectInfo(
            last_operation=self.operation,
            created=header.sent_time,
            created_from=sender,
            modified=header.sent_time,
            modified_from=sender,
            received=self._received,
        )

    def __repr__(self) -> str:
        return f"<{self.operation} {self.subject}>"

    def seen_as(self, shape: ReceivedType) -> Event[T]:
        """The same event with objects of another class of the type."""
        return Event(
            self.operation,
            self.header,
            shape,
            self._payload,
            self._entry,
            self._own_id,
            self._received,
        )

    def with_update(self, operation: Operation, header: Header, payload: bytes) -> Event[T]:
        """An event about the same state of the object, with another operation and update."""
        return Event(
            operation, header, self._shape, payload, self._entry, self._own_id, self._received
        )

    @property
    def shape(self) -> ReceivedType:
        """The type as the space uses it."""
        shape: ReceivedType = self._shape
        return shape

    @property
    def entry(self) -> ObjectState | None:
        """The state of the object after the update; None for a message."""
        entry: ObjectState | None = self._entry
        return entry
