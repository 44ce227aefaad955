"""The part of a connection that a client and a node share: framing, type descriptions, the end.

Each end remembers which types were described on the connection, by either side. Before the first
object of a type that was not, it sends the description of the type, and before that the
descriptions of all types that it uses. Internal types are never described: both sides know them.

A type may change while programs run. A further definition of a type is described as well if the
peer knows our additions. A foreign peer keeps the first definition that it sent or received.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from skerry.errors import DecodeError
from skerry.objects.base import Struct
from skerry.objects.descriptors import describe
from skerry.objects.internal import internal_class
from skerry.protocol.access.handshake import (
    CLIENT_HANDSHAKE,
    STAGES,
    ConnectionStage,
    HandshakeEvent,
    HandshakeState,
    HandshakeTable,
)
from skerry.protocol.access.header import ABSENT, NEVER, Header
from skerry.protocol.access.outgoing import Outgoing
from skerry.protocol.access.wire import OldWire, Wire
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType, dependencies

# Constants, because compiled code finds them faster than the members of an enum.
_CONNECTING: Final = ConnectionStage.CONNECTING
_CLOSED: Final = ConnectionStage.CLOSED


class ReceivedFrame:
    """An object that the peer sent, still encoded."""

    __slots__ = ("header", "payload")

    def __init__(self, header: Header, payload: bytes) -> None:
        self.header = header
        self.payload = payload


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionEnded:
    """The peer ends the connection, in an orderly way if the code is 0."""

    code: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionBroken:
    """The peer broke the protocol; the rest of its input is discarded."""

    message: str
    detail: str


class AccessConnection:
    """One end of a connection. Frames to be sent are queued in `outgoing`."""

    def __init__(
        self,
        wire: Wire,
        outgoing: Outgoing | None = None,
        *,
        transitions: HandshakeTable = CLIENT_HANDSHAKE,
    ) -> None:
        self.wire = wire
        self.outgoing = Outgoing() if outgoing is None else outgoing
        self.renews = False
        """Whether the peer accepts a further description of a type that was described before."""
        self._transitions = transitions
        self._state: HandshakeState = transitions.start
        # Each frame is checked against the stage, so it is stored with the state.
        self.stage: ConnectionStage = STAGES[self._state]
        self._sent: dict[str, NamedType] = {}
        self.received: dict[str, NamedType] = {}
        """The types that the peer described, as it described them last."""
        self._is_old = isinstance(wire, OldWire)
        self._has_input_ended = False
        """Whether the peer ended the connection or broke the protocol. This is independent of the
        handshake: messages received before a fault are still processed."""

    @property
    def is_over(self) -> bool:
        """Whether further input of the peer is discarded."""
        return self._has_input_ended or self.stage is _CLOSED

    @property
    def out_bytes(self) -> int:
        """The size of the queued output."""
        return self.outgoing.size

    def take_output(self) -> bytes:
        """Return the bytes for the stream since the last call."""
        return self.outgoing.take()

    def send(self, header: Header, payload: bytes, type_: NamedType, now_s: float) -> None:
        """Send an encoded object, after the description of its type if the peer needs it."""
        self.describe(type_, now_s)
        self._frame(header, payload, now_s)

    def send_message(self, obj: Struct, now_s: float) -> None:
        """Send an object of an internal type."""
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
        """Return whether the peer needs no description before an object of the type."""
        name = type_.name
        sent = self._sent.get(name)
        if sent is type_:
            return True
        received = self.received.get(name)
        if self.renews:
            return type_ in (sent, received) or name in internal_types()
        return sent is not None or received is not None or name in internal_types()

    def note_received(self, type_: NamedType) -> None:
        """Record that the peer described a type."""
        self.received[type_.name] = type_

    def definition(self, name: str) -> NamedType | None:
        """Return the definition by which the peer reads objects of a type; None if unknown."""
        received = self.received.get(name)
        # A foreign peer keeps the first definition that it received.
        return self._sent.get(name) if received is None and not self.renews else received

    def end(self, now_s: float, *, code: int = 0, text: str = "") -> None:
        """Close the connection; a connected peer is sent the reason first."""
        if self.stage is ConnectionStage.CONNECTED:
            error = internal_class("DotsMsgError")(errorCode=code)
            if text:
                error.errorText = text
            self.send_message(error, now_s)
        self.close()

    def close(self) -> None:
        """Close the connection without sending a reason."""
        self._change(HandshakeEvent.CLOSED)

    def _change(self, event: HandshakeEvent) -> None:
        """Enter the next state of the handshake."""
        self._state = self._transitions.next_state(self._state, event)
        self.stage = STAGES[self._state]

    def _frame(self, header: Header, payload: bytes, now_s: float) -> None:
        if self._is_old:
            data = self._old_frame(header, payload, now_s)
        else:
            data = self.wire.frame(header, payload)
        self.outgoing.add(data)

    def _old_frame(self, header: Header, payload: bytes, now_s: float) -> bytes:
        """Return a frame with the fields that old programs require.

        The header is unchanged afterwards, because it may be sent on other connections too.
        """
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
        """Return the transmissions that are complete now, and the fault after them, if any."""
        arrived: list[tuple[Header, bytes]] = []
        try:
            arrived = self.wire.feed(data)
            # A fault after complete transmissions is raised by the next call.
            self.wire.feed(b"")
        except DecodeError as error:
            return arrived, broken_by(error)
        return arrived, None

    def _opened(self, header: Header, payload: bytes) -> ReceivedFrame | ConnectionBroken | Struct:
        """Classify a transmission: an object, a fault, or a decoded message of the handshake."""
        fault = header_fault(header)
        if fault is not None:
            return ConnectionBroken(message=header.type_name or "header", detail=fault)
        if header.type_name not in HANDSHAKE:
            if self.stage is _CONNECTING:
                return ConnectionBroken(
                    message=header.type_name, detail="an object before the handshake"
                )
            return ReceivedFrame(header, payload)
        try:
            return decode_message(header, payload)  # type: ignore[no-any-return]
        except DecodeError as error:
            return broken_by(error)


HANDSHAKE = frozenset({"DotsMsgHello", "DotsMsgConnect", "DotsMsgConnectResponse", "DotsMsgError"})
"""Messages that open and end a connection; each is permitted in some states only."""

ALIVE_MARK = "skerry-alive"
"""Marks an echo that only checks whether the node is alive; it does not wait for the storage."""


def broken_by(error: DecodeError) -> ConnectionBroken:
    """Return the fault for bytes that do not decode, without naming the type twice."""
    what, _, detail = str(error).partition(": ")
    return ConnectionBroken(message=what, detail=detail)


def decode_message(header: Header, payload: bytes) -> Any:
    """Decode an object of an internal type; DecodeError if that is not possible."""
    return internal_class(header.type_name).decode(payload)


def header_fault(header: Header) -> str | None:
    """Return which required field a header lacks; None if it has all of them."""
    if not header.type_name:
        return "a header without typeName"
    if header.attributes == ABSENT:
        return "a header without attributes"
    return None
