"""The node's end of a connection: greets, lets a client in or not, and keeps the order of things.

What a client publishes or asks for comes out as arrivals, and the node decides about it.
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
    ConnectionStage,
    ReceivedFrame,
    broken_by,
)
from skerry.protocol.access.header import Header
from skerry.protocol.access.json.reading import JsonReading
from skerry.protocol.access.json.wire import JsonWire
from skerry.protocol.access.outgoing import Outgoing
from skerry.protocol.access.wire import Wire

__all__ = ["ConnectAsked", "JoinsFinished", "ServerConnection", "ServerInput"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectAsked:
    """A client introduced itself; answer with `accept` or `reject`."""

    name: str
    wants_preload: bool
    response: str
    """To the challenge; empty when it gave none."""
    cnonce: str
    extensions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinsFinished:
    """The client joined all it wants to have before it starts; answer with `finish_preload`."""


_NO_CLIENT: Final = 0
"""The client id of a connection that never became a client's."""

ServerInput: TypeAlias = (
    ReceivedFrame | ConnectAsked | JoinsFinished | ConnectionEnded | ConnectionBroken
)


class ServerConnection(AccessConnection):
    """One client, as its node sees it."""

    def __init__(self, wire: Wire, *, client_id: int, outgoing: Outgoing | None = None) -> None:
        super().__init__(wire, outgoing)
        if isinstance(wire, JsonWire):
            # Names of fields are those of the client's own definition.
            wire.definition = self.definition
        self.client_id = client_id
        self.name = "<not_set>"
        self._has_joined = False

    def greet(
        self,
        server_name: str,
        now_s: float,
        *,
        challenge: int | None = None,
        extensions: bool = False,
    ) -> None:
        """The first words on a connection; with a challenge, the client has to prove itself.

        With `extensions` the client hears that it may use the additions to the protocol.
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
        """What is whole now; and what is wrong with the bytes behind it, if anything is.

        Of version 2 there is a shorter way, by the cutter of the wire.
        """
        arrived, fault = self._feed(data)
        if fault is not None:
            self._is_over = True
        return arrived, fault

    def reading(self, data: bytes) -> JsonReading | None:
        """How to read a large JSON message in steps; None for what `feed` takes."""
        wire = self.wire
        return wire.reading(data) if isinstance(wire, JsonWire) else None

    def broke(self, error: DecodeError) -> ConnectionBroken:
        """Report a fault in a message that was read in steps; no more input is read."""
        self._is_over = True
        return broken_by(error)

    def understand(self, header: Header, payload: bytes) -> ServerInput:
        """What a transmission means at this point of the talk."""
        message: Any = self._opened(header, payload)
        if isinstance(message, (ReceivedFrame, ConnectionBroken)):
            return message
        if header.type_name == "DotsMsgError" and self.stage is not ConnectionStage.CONNECTING:
            return ConnectionEnded(code=message.errorCode or 0, text=message.errorText or "")
        if header.type_name == "DotsMsgConnect" and self.stage is ConnectionStage.CONNECTING:
            return self._introduction(message)
        if header.type_name == "DotsMsgConnect" and self.stage is ConnectionStage.EARLY_SUBSCRIBE:
            if message.preloadClientFinished is not True:
                return ConnectionBroken(
                    message="DotsMsgConnect", detail="expected preloadClientFinished"
                )
            if self._has_joined:
                return ConnectionBroken(message="DotsMsgConnect", detail="it came twice")
            self._has_joined = True
            return JoinsFinished()
        return ConnectionBroken(
            message=header.type_name, detail=f"not expected while {self._situation()}"
        )

    def accept(self, asked: ConnectAsked, now_s: float, *, has_additions: bool = False) -> None:
        """Accept the client; `has_additions`: it knows our additions and may use them."""
        self.name = asked.name
        self.renews = has_additions
        if isinstance(self.wire, JsonWire):
            self.wire.has_additions = has_additions
        self._answer(asked, now_s, is_accepted=True)
        self.stage = (
            ConnectionStage.EARLY_SUBSCRIBE if asked.wants_preload else ConnectionStage.CONNECTED
        )

    def reject(self, asked: ConnectAsked, now_s: float) -> None:
        """Tell the client that it may not come in; the stream is to be closed then."""
        self.name = asked.name
        self._answer(asked, now_s, is_accepted=False)
        self.stage = ConnectionStage.CLOSED

    def turn_away(self, now_s: float, *, reason: str = "") -> None:
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
        self.stage = ConnectionStage.CLOSED

    def finish_preload(self, now_s: float) -> None:
        """All that the client joined early is on its way; from now on it is connected."""
        self.send_message(internal_class("DotsMsgConnectResponse")(preloadFinished=True), now_s)
        self.stage = ConnectionStage.CONNECTED

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

    def _situation(self) -> str:
        return self.stage.name.lower().replace("_", " ")
