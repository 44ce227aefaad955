"""What a subscriber is told: that something happened to an object.

One event is made for each update that arrives, so it is lean: it keeps the bytes as they came, and
objects are made of them when they are asked for. This module is compiled.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

from mypy_extensions import i64

from skerry.client.info import ObjectInfo
from skerry.codec.decoder import decode
from skerry.codec.pieces import split
from skerry.codec.plans import StructPlan
from skerry.codec.subjects import default_subject
from skerry.codec.tables import TableCodec
from skerry.errors import DecodeError
from skerry.limits import STRUCT_COUNT_MAX
from skerry.objects.base import codec_of
from skerry.protocol.access.header import Header, copy_header

__all__ = ["BYTES_NAME", "CREATE", "REMOVE", "UPDATE", "Entry", "Event", "Shape", "bytes_of"]

T = TypeVar("T")

CREATE: Final = "create"
UPDATE: Final = "update"
REMOVE: Final = "remove"

BYTES_NAME: Final = "SkerryBytes"
"""The type that carries the bytes of a bare subject."""


class Shape:
    """A type as a space uses it: its class, and what works on its bytes."""

    def __init__(self, cls: Any, plan: StructPlan, is_cached: bool) -> None:
        self.cls: Any = cls
        self.decode: Any = cls.decode
        self.is_walked: bool = isinstance(codec_of(cls), TableCodec)
        """Whether its bytes are decoded by walking the plan, which can be done without a call of
        Python's."""
        self.plan: StructPlan = plan
        self.name: str = plan.name
        self.is_cached: bool = is_cached
        self.is_bytes: bool = plan.name == BYTES_NAME


class Entry:
    """An object as it was after one change, and where that came from. Only `epoch` ever changes."""

    def __init__(
        self,
        payload: bytes,
        present: i64,
        subject: str,
        created: float,
        created_from: i64,
        modified: float,
        modified_from: i64,
        operation: str,
        received: float,
        epoch: i64,
    ) -> None:
        self.payload: bytes = payload
        """The whole object."""
        self.present: i64 = present
        """Property set of the payload."""
        self.subject: str = subject
        """Empty for the default one."""
        self.created: float = created
        self.created_from: i64 = created_from
        self.modified: float = modified
        self.modified_from: i64 = modified_from
        self.operation: str = operation
        self.received: float = received
        self.epoch: i64 = epoch
        """The connection on which it was last heard of."""

    def info(self) -> ObjectInfo:
        """The facts beside the object."""
        return ObjectInfo(
            last_operation=self.operation,
            created=self.created,
            created_from=int(self.created_from),
            modified=self.modified,
            modified_from=int(self.modified_from),
            received=self.received,
        )


class Event(Generic[T]):
    """Something happened to an object. It tells of that moment, also when it is kept."""

    def __init__(
        self,
        operation: str,
        header: Header,
        shape: Shape,
        payload: bytes,
        entry: Entry | None,
        own_id: i64,
        received: float,
    ) -> None:
        self.operation: str = operation
        """`create`, `update` or `remove`. A message is always created."""
        self._known: Header = header
        """All that was sent with the update, but for the times where these stand apart."""
        self._has_times: bool = False
        self._sent_time: float = 0.0
        self._server_sent_time: float = 0.0
        self._shape: Shape = shape
        self._payload: bytes = payload
        self._entry: Entry | None = entry
        self._own_id: i64 = own_id
        self._received: float = received
        self._object: Any = None
        self._update: Any = None
        self._fault: DecodeError | None = None

    def set_times(self, sent_time: float, server_sent_time: float) -> None:
        """Say that the header is that of another update, which came at another time."""
        self._sent_time = sent_time
        self._server_sent_time = server_sent_time
        self._has_times = True

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
        return self._known

    @property
    def update(self) -> T:
        """What was published: the fields that the update speaks of, and the key."""
        if self._update is None:
            self._update = self._decode(self._payload)
        return self._update  # type: ignore[no-any-return]

    @property
    def object(self) -> T:
        """The whole object as the update left it, or as it was when it was removed."""
        entry = self._entry
        if entry is None or entry.payload is self._payload:
            return self.update
        if self._object is None:
            self._object = self._decode(entry.payload)
        return self._object  # type: ignore[no-any-return]

    @property
    def data(self) -> bytes:
        """The bytes of a bare subject; of an object its encoded update."""
        return bytes_of(self._payload) if self._shape.is_bytes else self._payload

    @property
    def type_name(self) -> str:
        """The type of the object."""
        return self._shape.name

    @property
    def subject(self) -> str:
        """Under which the update was published."""
        if self._known.subject:
            return self._known.subject
        plan = self._shape.plan
        return default_subject(plan, split(plan, self._payload, 0))

    @property
    def is_from_cache(self) -> bool:
        """Whether it was there before we asked."""
        return self._known.from_cache >= 0

    @property
    def is_from_myself(self) -> bool:
        """Whether this space published it."""
        return self._known.sender == self._own_id

    @property
    def info(self) -> ObjectInfo:
        """Who made the object and changed it last, up to this event."""
        if self._entry is not None:
            return self._entry.info()
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

    def _decode(self, payload: bytes) -> Any:
        shape = self._shape
        try:
            if shape.is_walked and len(payload) <= STRUCT_COUNT_MAX:
                return decode(shape.plan, payload)
            return shape.decode(payload)
        except DecodeError as error:
            # Looked at lazily, bad bytes show only here; whoever called back must know them from
            # a mistake in the callback.
            self._fault = error
            raise

    def seen_as(self, shape: Shape) -> Event[T]:
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
    def fault(self) -> DecodeError | None:
        """Why its bytes are no object of the type, if that came out."""
        return self._fault

    @property
    def shape(self) -> Shape:
        """The type as the space uses it."""
        return self._shape

    @property
    def entry(self) -> Entry | None:
        """The state of the object that the event tells of; none for a message."""
        return self._entry


def bytes_of(payload: bytes) -> bytes:
    """The content of an encoded SkerryBytes, in the form all programs write; else DecodeError."""
    size: i64 = len(payload)
    if size >= 3 and payload[0] == 0xA1 and payload[1] == 0x01:
        first: i64 = payload[2]
        start: i64 = 3
        length: i64 = first - 0x40
        if first == 0x58 and size >= 4:
            start = 4
            length = payload[3]
        elif first == 0x59 and size >= 5:
            start = 5
            length = (i64(payload[3]) << 8) | i64(payload[4])
        elif first == 0x5A and size >= 7:
            start = 7
            length = (
                (i64(payload[3]) << 24)
                | (i64(payload[4]) << 16)
                | (i64(payload[5]) << 8)
                | i64(payload[6])
            )
        elif first < 0x40 or first > 0x57:
            length = -1
        if start + length == size and length >= 0:
            return payload[start:]
    if size == 1 and payload[0] == 0xA0:
        return b""
    raise DecodeError(type_name=BYTES_NAME, detail="its bytes are in no form that is written")
