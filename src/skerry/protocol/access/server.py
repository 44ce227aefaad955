"""The node's end of a connection: the handshake, and the order of messages in it.

The connection returns what a client publishes or requests as inputs; the node decides about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from skerry.errors import DecodeError
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import (
    AccessConnection,
    ConnectionBroken,
    ConnectionEnded,
    ReceivedFrame,
    broken_by,
)
from skerry.protocol.access.handshake import (
    SERVER_HANDSHAKE,
    ConnectionStage,
    HandshakeEvent,
    HandshakeState,
)
from skerry.protocol.access.header import Header
from skerry.protocol.access.json.reading import JsonReading
from skerry.protocol.access.json.wire import JsonWire
from skerry.protocol.access.outgoing import Outgoing
from skerry.protocol.access.wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectAsked:
    """A client introduced itself; answer with `accept` or `reject`."""

    name: str
    wants_preload: bool
    response: str
    """The response to the challenge; empty if the client sent none."""
    cnonce: str
    extensions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinsFinished:
    """The client has finished its early joins; answer with `finish_preload`."""


_NO_CLIENT: Final = 0
"""The client id of a connection without a client."""

ServerInput: TypeAlias = (
    ReceivedFrame | ConnectAsked | JoinsFinished | ConnectionEnded | ConnectionBroken
)


class ServerConnection(AccessConnection):
    """The connection of a node to one client."""

    def __init__(self, wire: Wire, *, client_id: int, outgoing: Outgoing | None = None) -> None:
        super().__init__(wire, outgoing, transitions=SERVER_HANDSHAKE)
        if isinstance(wire, JsonWire):
            # JSON uses the field names of the client's own definition.
            wire.definition = self.definition
        self.client_id = client_id
        self.name = "<not_set>"

    def greet(
        self,
        server_name: str,
        now_s: float,
        *,
        challenge: int | None = None,
        extensions: bool = False,
    ) -> None:
        """Send the hello. With a challenge, the client has to authenticate itself.

        `extensions` announces that the client may use the additions to the protocol.
        """
        hello = internal_class("DotsMsgHello")(serverName=server_name, authChallenge=challenge or 0)
        if challenge is not None:
            hello.authenticationRequired = True
        if extensions:
            hello.capabilities = internal_class("DotsServerCapabilities")(
                filteredSubscriptions=True, skerry=1
            )
        self.send_message(hello, now_s)

    def feed(self, data: bytes) -> tuple[list[tuple[Header, bytes]], ConnectionBroken | None]:
        """Return the transmissions that are complete now, and the fault after them, if any.

        The node reads frames of version 2 faster, with the cutter of the wire.
        """
        arrived, fault = self._feed(data)
        if fault is not None:
            self._has_input_ended = True
        return arrived, fault

    def reading(self, data: bytes) -> JsonReading | None:
        """Return a reader of a large JSON message in steps; None if `feed` reads the message."""
        wire = self.wire
        return wire.reading(data) if isinstance(wire, JsonWire) else None

    def broke(self, error: DecodeError) -> ConnectionBroken:
        """Return the fault of a message that was read in steps; further input is discarded."""
        self._has_input_ended = True
        return broken_by(error)

    def understand(self, header: Header, payload: bytes) -> ServerInput:
        """Return the input in one transmission, in this state of the handshake."""
        message: Any = self._opened(header, payload)
        if isinstance(message, (ReceivedFrame, ConnectionBroken)):
            return message
        if header.type_name == "DotsMsgError" and self.stage is not ConnectionStage.CONNECTING:
            return ConnectionEnded(code=message.errorCode or 0, text=message.errorText or "")
        if header.type_name == "DotsMsgConnect" and self.stage is ConnectionStage.CONNECTING:
            return self._introduction(message)
        if header.type_name == "DotsMsgConnect" and self.stage is ConnectionStage.EARLY_SUBSCRIBE:
            return self._joins_finished(message)
        return ConnectionBroken(
            message=header.type_name, detail=f"not expected while {self._situation()}"
        )

    def accept(self, asked: ConnectAsked, now_s: float, *, has_additions: bool = False) -> None:
        """Accept the client; with `has_additions` it knows our additions and may use them."""
        self.name = asked.name
        self.renews = has_additions
        if isinstance(self.wire, JsonWire):
            self.wire.has_additions = has_additions
        self._answer(asked, now_s, is_accepted=True)
        self._change(
            HandshakeEvent.ACCEPTED_WITH_PRELOAD if asked.wants_preload else HandshakeEvent.ACCEPTED
        )

    def reject(self, asked: ConnectAsked, now_s: float) -> None:
        """Reject the client; the caller then closes the stream."""
        self.name = asked.name
        self._answer(asked, now_s, is_accepted=False)
        self._change(HandshakeEvent.REJECTED)

    def reject_without_room(self, now_s: float, *, reason: str = "") -> None:
        """Reject a client for which there is no room now.

        The reason is one of our additions, so it is sent only to a client that announced them.
        Before its handshake a client has announced nothing: it receives the client id 0, by which
        our clients recognise that there was no room.
        """
        response = internal_class("DotsMsgConnectResponse")(
            clientId=self.client_id if reason else _NO_CLIENT,
            accepted=False,
            preload=False,
            reason=reason or None,
        )
        self.send_message(response, now_s)
        self._change(HandshakeEvent.REJECTED)

    def finish_preload(self, now_s: float) -> None:
        """Tell the client that the cached objects of its early joins were sent: it is connected."""
        if self._state is HandshakeState.PRELOADING:
            self.set_connected()
        self.send_message(internal_class("DotsMsgConnectResponse")(preloadFinished=True), now_s)

    def set_connected(self) -> None:
        """Enter the connected state before `finish_preload` tells the client."""
        self._change(HandshakeEvent.PRELOAD_FINISHED)

    def _answer(self, asked: ConnectAsked, now_s: float, *, is_accepted: bool) -> None:
        response = internal_class("DotsMsgConnectResponse")(
            clientId=self.client_id, accepted=is_accepted, preload=asked.wants_preload
        )
        self.send_message(response, now_s)

    def _introduction(self, message: object) -> ServerInput:
        name = getattr(message, "clientName", None)
        preload = getattr(message, "preloadCache", None)
        if name is None or preload is None:
            return ConnectionBroken(
                message="DotsMsgConnect", detail="without clientName or preloadCache"
            )
        return ConnectAsked(
            name=name,
            wants_preload=preload,
            response=getattr(message, "authChallengeResponse", None) or "",
            cnonce=getattr(message, "cnonce", None) or "",
            extensions=getattr(message, "extensions", None) or 0,
        )

    def _joins_finished(self, message: object) -> ServerInput:
        if getattr(message, "preloadClientFinished", None) is not True:
            return ConnectionBroken(
                message="DotsMsgConnect", detail="expected preloadClientFinished"
            )
        if self._state is HandshakeState.PRELOADING:
            return ConnectionBroken(message="DotsMsgConnect", detail="it came twice")
        self._change(HandshakeEvent.JOINS_FINISHED)
        return JoinsFinished()

    def _situation(self) -> str:
        return self.stage.name.lower().replace("_", " ")
