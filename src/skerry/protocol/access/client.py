"""A client's end of a connection: introduces itself, says what it wants early, and listens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import (
    Arrival,
    Broken,
    Connection,
    Ended,
    Stage,
)
from skerry.protocol.access.header import Header
from skerry.protocol.access.secrets import digest
from skerry.protocol.access.wire import Wire

__all__ = ["Accepted", "ClientConnection", "ClientInput", "Connected", "Rejected", "SecretMissing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The node let us in. With early subscribe: join now, then call `finish_joins`."""

    client_id: int
    has_preload: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """All that was joined early has arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The node does not let us in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretMissing:
    """The node wants a proof, and we have no secret to give one."""


ClientInput: TypeAlias = Arrival | Accepted | Connected | Rejected | SecretMissing | Ended | Broken


class ClientConnection(Connection):
    """One node, as its client sees it. `cnonce` is to be new for each connection."""

    def __init__(
        self,
        wire: Wire,
        *,
        name: str,
        cnonce: str,
        secret: str | None = None,
        wants_preload: bool = True,
    ) -> None:
        super().__init__(wire)
        self.name = name
        self.client_id = 0
        self.server_name = ""
        self._cnonce = cnonce
        self._secret = secret
        self._wants_preload = wants_preload

    def receive(self, data: bytes, now_s: float) -> list[ClientInput]:
        """What the bytes mean, in order. Nothing follows one that ends the connection."""
        if self._is_over or self.stage is Stage.CLOSED:
            return []
        inputs: list[ClientInput] = []
        arrived, fault = self._feed(data)
        for header, payload in arrived:
            item = self._understand(header, payload, now_s)
            if item is None:
                continue
            inputs.append(item)
            if isinstance(item, (Ended, Broken, Rejected, SecretMissing)):
                self._is_over = True
                return inputs
        if fault is not None:
            self._is_over = True
            inputs.append(fault)
        return inputs

    def finish_joins(self, now_s: float) -> None:
        """Everything that is wanted early was joined."""
        self.send_message(internal_class("DotsMsgConnect")(preloadClientFinished=True), now_s)

    def join(self, group: str, now_s: float) -> None:
        """Ask for all objects of a type, those that are there and those to come."""
        self._member(group, "join", now_s)

    def leave(self, group: str, now_s: float) -> None:
        """Ask for no more of them."""
        self._member(group, "leave", now_s)

    def _member(self, group: str, event: str, now_s: float) -> None:
        events = internal_class("DotsMemberEvent")
        self.send_message(internal_class("DotsMember")(groupName=group, event=events[event]), now_s)

    def _understand(self, header: Header, payload: bytes, now_s: float) -> ClientInput | None:
        message: Any = self._opened(header, payload)
        if isinstance(message, (Arrival, Broken)):
            return message
        if header.type_name == "DotsMsgError":
            return Ended(code=message.errorCode or 0, text=message.errorText or "")
        if header.type_name == "DotsMsgHello":
            return self._introduce(message, now_s)
        if header.type_name == "DotsMsgConnectResponse" and self.server_name:
            return self._answered(message)
        return Broken(message=header.type_name, detail="not expected now")

    def _introduce(self, hello: Any, now_s: float) -> ClientInput | None:
        if self.stage is not Stage.CONNECTING or self.server_name:
            return Broken(message="DotsMsgHello", detail="it came twice")
        self.server_name = hello.serverName or "<unnamed>"
        connect = internal_class("DotsMsgConnect")(
            clientName=self.name, preloadCache=self._wants_preload
        )
        if hello.authenticationRequired:
            if self._secret is None:
                return SecretMissing()
            connect.authChallengeResponse = digest(
                name=self.name,
                secret=self._secret,
                nonce=hello.authChallenge or 0,
                cnonce=self._cnonce,
            )
            connect.cnonce = self._cnonce
        self.send_message(connect, now_s)
        return None

    def _answered(self, response: Any) -> ClientInput:
        if self.stage is Stage.CONNECTING and response.accepted is False:
            self.stage = Stage.CLOSED
            return Rejected()
        if self.stage is Stage.CONNECTING and response.clientId is not None:
            self.client_id = response.clientId
            has_preload = bool(response.preload)
            self.stage = Stage.EARLY_SUBSCRIBE if has_preload else Stage.CONNECTED
            return Accepted(client_id=self.client_id, has_preload=has_preload)
        if self.stage is Stage.EARLY_SUBSCRIBE and response.preloadFinished:
            self.stage = Stage.CONNECTED
            return Connected()
        return Broken(message="DotsMsgConnectResponse", detail="not expected now")
