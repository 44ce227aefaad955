"""What both ends of a connection have alike: framing, descriptions before objects, the end.

Each end remembers which types were described on the connection, by either side. Before the first
object of a type that was not, its description is sent, and before that the descriptions of all
types that it uses. Internal types are never described: both sides know them.

A type may change while programs run. Between programs that know our additions a further definition
of a type is described as well. A plain DOTS program keeps the first one that it sent or received.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from skerry.errors import DecodeError
from skerry.objects.base import Struct
from skerry.objects.descriptors import describe
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import ABSENT, NEVER, Header
from skerry.protocol.access.outgoing import Outgoing
from skerry.protocol.access.wire import OldWire, Wire
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType, dependencies

__all__ = [
    "ALIVE_MARK",
    "HANDSHAKE",
    "AccessConnection",
    "ConnectionBroken",
    "ConnectionEnded",
    "ConnectionStage",
    "ReceivedFrame",
    "broken_by",
    "decode_message",
    "header_fault",
]


class ConnectionStage(enum.Enum):
    """How far a connection has come; the numbers are the tags of DotsConnectionState."""

    CONNECTING = 1
    EARLY_SUBSCRIBE = 2
    CONNECTED = 3
    CLOSED = 5


class ReceivedFrame:
    """An object that the peer sent, still encoded."""

    __slots__ = ("header", "payload")

    def __init__(self, header: Header, payload: bytes) -> None:
        self.header = header
        self.payload = payload


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionEnded:
    """The peer ends the connection: orderly when the code is 0."""

    code: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionBroken:
    """The peer broke the protocol; nothing more of it is looked at."""

    message: str
    detail: str


class AccessConnection:
    """One end of a connection. What it wants to send waits in `outgoing`."""

    def __init__(self, wire: Wire, outgoing: Outgoing | None = None) -> None:
        self.wire = wire
        self.outgoing = Outgoing() if outgoing is None else outgoing
        self.stage = ConnectionStage.CONNECTING
        self.renews = False
        """Whether the peer takes a further description of a type that was described before."""
        self._sent: dict[str, NamedType] = {}
        self._received: dict[str, NamedType] = {}
        """Types that were described on the connection, as they were described last."""
        self._is_old = isinstance(wire, OldWire)
        self._is_over = False
        """Whether the peer said or did what ends the connection; the rest of it is not read."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more of the peer is looked at."""
        return self._is_over or self.stage is ConnectionStage.CLOSED

    @property
    def out_bytes(self) -> int:
        """Bytes that wait to be taken."""
        return self.outgoing.size

    def take_output(self) -> bytes:
        """The bytes for the stream since the last call."""
        return self.outgoing.take()

    def send(self, header: Header, payload: bytes, type_: NamedType, now_s: float) -> None:
        """Send an encoded object of a type, which is described first if need be."""
        self.describe(type_, now_s)
        self._frame(header, payload, now_s)

    def send_message(self, obj: Struct, now_s: float) -> None:
        """Send a message of our own, an object of an internal type."""
        header = Header(obj.descriptor.name)
        header.sent_time = now_s
        header.attributes = int(obj.attributes)
        header.remove_obj = 0
        self._frame(header, obj.encode(), now_s)

    def describe(self, type_: NamedType, now_s: float) -> None:
        """Send the descriptions of a type and of the types it uses that the peer does not have."""
        if self.is_described(type_):
            return
        for needed in (*dependencies(type_), type_):
            if self.is_described(needed):
                continue
            self._sent[needed.name] = needed
            obj = describe(needed)
            header = Header(obj.descriptor.name)
            header.attributes = int(obj.attributes)
            self._frame(header, obj.encode(), now_s)

    def is_described(self, type_: NamedType) -> bool:
        """Whether the peer needs no description before an object of the type."""
        name = type_.name
        sent = self._sent.get(name)
        if sent is type_:
            return True
        received = self._received.get(name)
        if self.renews:
            return type_ in (sent, received) or name in internal_types()
        return sent is not None or received is not None or name in internal_types()

    def note_received(self, type_: NamedType) -> None:
        """The peer described a type."""
        self._received[type_.name] = type_

    @property
    def received(self) -> dict[str, NamedType]:
        """The types that the peer described, as it described them last."""
        return self._received

    def definition(self, name: str) -> NamedType | None:
        """The definition by which the peer reads objects of a type, if it is known."""
        received = self._received.get(name)
        # A plain DOTS program keeps the first definition that it received.
        return self._sent.get(name) if received is None and not self.renews else received

    def end(self, now_s: float, *, code: int = 0, text: str = "") -> None:
        """Close the connection; a peer that is connected receives the reason first."""
        if self.stage is ConnectionStage.CONNECTED:
            error = internal_class("DotsMsgError")(errorCode=code)
            if text:
                error.errorText = text
            self.send_message(error, now_s)
        self.stage = ConnectionStage.CLOSED

    def _frame(self, header: Header, payload: bytes, now_s: float) -> None:
        if self._is_old:
            data = self._old_frame(header, payload, now_s)
        else:
            data = self.wire.frame(header, payload)
        self.outgoing.add(data)

    def _old_frame(self, header: Header, payload: bytes, now_s: float) -> bytes:
        """With what old programs look for; the header stays as it is, others may get it too."""
        sent_time, sender = header.sent_time, header.sender
        try:
            if sent_time == NEVER:
                header.sent_time = now_s
            if sender == ABSENT:
                header.sender = 1
            return self.wire.frame(header, payload)
        finally:
            header.sent_time, header.sender = sent_time, sender

    def _feed(self, data: bytes) -> tuple[list[tuple[Header, bytes]], ConnectionBroken | None]:
        """What is whole now; and what is wrong with the bytes behind it, if anything is."""
        arrived: list[tuple[Header, bytes]] = []
        try:
            arrived = self.wire.feed(data)
            # A fault behind whole transmissions is told when asked again.
            self.wire.feed(b"")
        except DecodeError as error:
            return arrived, broken_by(error)
        return arrived, None

    def _opened(self, header: Header, payload: bytes) -> ReceivedFrame | ConnectionBroken | Struct:
        """What a transmission is: an object, a fault, or a message of the handshake."""
        fault = header_fault(header)
        if fault is not None:
            return ConnectionBroken(message=header.type_name or "header", detail=fault)
        if header.type_name not in HANDSHAKE:
            if self.stage is ConnectionStage.CONNECTING:
                return ConnectionBroken(
                    message=header.type_name, detail="an object before the handshake"
                )
            return ReceivedFrame(header, payload)
        try:
            return decode_message(header, payload)  # type: ignore[no-any-return]
        except DecodeError as error:
            return broken_by(error)


HANDSHAKE = frozenset({"DotsMsgHello", "DotsMsgConnect", "DotsMsgConnectResponse", "DotsMsgError"})
"""Messages that make and end a connection; each is right at one time only."""

ALIVE_MARK = "skerry-alive"
"""In an echo that only asks for a sign of life: our node does not wait for its storage with it."""


def broken_by(error: DecodeError) -> ConnectionBroken:
    """That bytes are no object of their type, without naming it twice."""
    what, _, detail = str(error).partition(": ")
    return ConnectionBroken(message=what, detail=detail)


def decode_message(header: Header, payload: bytes) -> Any:
    """The message of an internal type; DecodeError when it is none."""
    return internal_class(header.type_name).decode(payload)


def header_fault(header: Header) -> str | None:
    """What every header must have and this one has not."""
    if not header.type_name:
        return "a header without typeName"
    if header.attributes == ABSENT:
        return "a header without attributes"
    return None
