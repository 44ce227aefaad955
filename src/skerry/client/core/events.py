"""The event that a subscriber receives for each update of an object.

An event is made for each received update, so it is small: it keeps the received bytes, and decodes
an object on first access. The attributes that every callback reads are in `codec.hot_loops`; the
ones that are read less often are here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from skerry.client.core.object_info import ObjectInfo, info_of
from skerry.client.core.received_types import (
    BYTES_NAME,
    CREATE,
    REMOVE,
    UPDATE,
    ReceivedType,
    bytes_of,
)
from skerry.codec.hot_loops import ObjectState, ReceivedUpdate
from skerry.codec.pieces import split
from skerry.codec.subjects import default_subject
from skerry.protocol.access.header import Header, copy_header

__all__ = [
    "BYTES_NAME",
    "CREATE",
    "REMOVE",
    "UPDATE",
    "Event",
    "ObjectState",
    "ReceivedType",
    "bytes_of",
]

T = TypeVar("T")


class Event(ReceivedUpdate, Generic[T]):
    """Something happened to an object. It tells of that moment, also when it is kept."""

    __slots__ = ()

    if TYPE_CHECKING:
        # What `ReceivedUpdate` does for any class, said of ours.
        @property
        def update(self) -> T:
            """What was published: the fields that the update speaks of, and the key."""

        @property
        def object(self) -> T:
            """The whole object as the update left it, or as it was when it was removed."""

    @property
    def header(self) -> Header:
        """What was sent with the update."""
        if self._has_times:
            # Made when it is asked for, which is seldom, and not for each update.
            header = copy_header(self._known)
            header.sent_time = self._sent_time
            header.server_sent_time = self._server_sent_time
            self._known = header
            self._has_times = False
        known: Header = self._known
        return known

    @property
    def type_name(self) -> str:
        """The type of the object."""
        return self.shape.name

    @property
    def subject(self) -> str:
        """Under which the update was published."""
        subject: str = self._known.subject
        if subject:
            return subject
        plan = self.shape.plan
        return default_subject(plan, split(plan, self._payload, 0))

    @property
    def is_from_cache(self) -> bool:
        """Whether it was there before we asked."""
        return bool(self._known.from_cache >= 0)

    @property
    def is_from_myself(self) -> bool:
        """Whether this space published it."""
        return bool(self._known.sender == self._own_id)

    @property
    def info(self) -> ObjectInfo:
        """Who made the object and changed it last, up to this event."""
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
        """The same, with objects of another class of the type."""
        return Event(
            self.operation,
            self.header,
            shape,
            self._payload,
            self._entry,
            self._own_id,
            self._received,
        )

    def retold(self, operation: str, header: Header, payload: bytes) -> Event[T]:
        """The same state of the object, told as another update."""
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
        """The state of the object that the event tells of; none for a message."""
        entry: ObjectState | None = self._entry
        return entry
