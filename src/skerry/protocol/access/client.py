"""A client's end of a connection: introduces itself, says what it wants early, and listens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from skerry.objects.base import Struct
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import (
    AccessConnection,
    ConnectionBroken,
    ConnectionEnded,
    ConnectionStage,
    ReceivedFrame,
)
from skerry.protocol.access.header import Header
from skerry.protocol.access.json.wire import JsonWire
from skerry.protocol.access.secrets import digest
from skerry.protocol.access.wire import Wire
from skerry.schema.model import NamedType

__all__ = [
    "EXTENSION_ORIGIN",
    "EXTENSION_SUBJECTS",
    "Accepted",
    "ClientConnection",
    "ClientInput",
    "Connected",
    "Rejected",
    "SecretMissing",
]

EXTENSION_SUBJECTS: Final = 1
"""We understand subjects and the types that begin with Skerry."""
EXTENSION_ORIGIN: Final = 2
"""We want to know where each update entered the system, and as the how manieth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The node accepted the client. With early subscribe: join now, then call `finish_joins`."""

    client_id: int
    has_preload: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """All that was joined early has arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The node rejects the client."""

    reason: str = ""
    """Which bound of the node is reached; empty when another attempt would not change anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretMissing:
    """The node wants a proof, and we have no secret to give one."""


ClientInput: TypeAlias = (
    ReceivedFrame
    | Accepted
    | Connected
    | Rejected
    | SecretMissing
    | ConnectionEnded
    | ConnectionBroken
)
_NO_ROOM: Final = "it has no room for another connection now; its log has the limit"
_LAST: Final = (ConnectionEnded, ConnectionBroken, Rejected, SecretMissing)
"""Nothing follows these."""


class ClientConnection(AccessConnection):
    """One node, as its client sees it. `cnonce` is to be new for each connection.

    `extensions` is a mask of what we understand beyond DOTS; it is said to nodes that do, too.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        name: str,
        cnonce: str,
        secret: str | None = None,
        wants_preload: bool = True,
        extensions: int = 0,
    ) -> None:
        super().__init__(wire)
        if isinstance(wire, JsonWire):
            wire.definition = self._written
        self.name = name
        self.client_id = 0
        self.server_name = ""
        self.has_filters = False
        """Whether the node evaluates conditions for its subscribers."""
        self.extensions = 0
        """What beyond DOTS both of us understand; known once the node introduced itself."""
        self._offered_extensions = extensions
        self._cnonce = cnonce
        self._secret = secret
        self._wants_preload = wants_preload

    def _written(self, name: str) -> NamedType | None:
        """The definition by which a node of ours writes objects: ours if it was sent, else its own.

        None where that is not known.
        """
        return self._sent.get(name) or (self._received.get(name) if self.renews else None)

    def receive(self, data: bytes, now_s: float) -> list[ClientInput]:
        """What the bytes mean, in order. Nothing follows one that ends the connection."""
        if self._is_over or self.stage is ConnectionStage.CLOSED:
            return []
        inputs: list[ClientInput] = []
        arrived, fault = self._feed(data)
        for header, payload in arrived:
            item = self.understand(header, payload, now_s)
            if item is None:
                continue
            inputs.append(item)
            if isinstance(item, _LAST):
                return inputs
        if fault is not None:
            self._is_over = True
            inputs.append(fault)
        return inputs

    def feed(self, data: bytes) -> tuple[list[tuple[Header, bytes]], ConnectionBroken | None]:
        """The half of `receive` that cuts: what is whole now, and the fault behind it, if any.

        For who deals with objects faster than one by one; `understand` is the other half.
        """
        if self._is_over or self.stage is ConnectionStage.CLOSED:
            return [], None
        return self._feed(data)

    def understand(self, header: Header, payload: bytes, now_s: float) -> ClientInput | None:
        """What one transmission means; None for one that was dealt with here."""
        item = self._understand(header, payload, now_s)
        if isinstance(item, _LAST):
            self._is_over = True
        return item

    def finish_joins(self, now_s: float) -> None:
        """Everything that is wanted early was joined."""
        self.send_message(internal_class("DotsMsgConnect")(preloadClientFinished=True), now_s)

    def join(
        self,
        group: str,
        now_s: float,
        *,
        subscription_id: int | None = None,
        filter_: Struct | None = None,
        is_conflated: bool = False,
    ) -> None:
        """Ask for the objects of a type or of a subject pattern, those there and those to come.

        With a filter only for those that it selects, under a number of our choice. Conflated: when
        we do not keep up, the node may leave out states of an object that were overtaken.
        """
        message = _member(group, "join")
        if subscription_id is not None:
            message.subscriptionId = subscription_id
            message.filter = filter_
        if is_conflated and self.extensions & EXTENSION_SUBJECTS:
            message.slow = internal_class("SkerrySlow")["conflate"]
        self.send_message(message, now_s)

    def leave(self, group: str, now_s: float, *, subscription_id: int | None = None) -> None:
        """Ask for no more of them."""
        message = _member(group, "leave")
        if subscription_id is not None:
            message.subscriptionId = subscription_id
        self.send_message(message, now_s)

    def _understand(self, header: Header, payload: bytes, now_s: float) -> ClientInput | None:
        message: Any = self._opened(header, payload)
        if isinstance(message, (ReceivedFrame, ConnectionBroken)):
            return message
        if header.type_name == "DotsMsgError":
            return ConnectionEnded(code=message.errorCode or 0, text=message.errorText or "")
        if header.type_name == "DotsMsgHello":
            return self._introduce(message, now_s)
        if header.type_name == "DotsMsgConnectResponse" and self.server_name:
            return self._answered(message)
        return ConnectionBroken(message=header.type_name, detail="not expected now")

    def _introduce(self, hello: Any, now_s: float) -> ClientInput | None:
        if self.stage is not ConnectionStage.CONNECTING or self.server_name:
            return ConnectionBroken(message="DotsMsgHello", detail="it came twice")
        self.server_name = hello.serverName or "<unnamed>"
        connect = internal_class("DotsMsgConnect")(
            clientName=self.name, preloadCache=self._wants_preload
        )
        is_skerry = hello.capabilities is not None and bool(hello.capabilities.skerry)
        if hello.capabilities is not None:
            self.has_filters = bool(hello.capabilities.filteredSubscriptions)
            if is_skerry and self._offered_extensions:
                self.extensions = connect.extensions = self._offered_extensions
                self.renews = True
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
        if self.stage is ConnectionStage.CONNECTING and response.accepted is False:
            self.stage = ConnectionStage.CLOSED
            # A node that had no room before the handshake gives no reason, and the client id 0.
            is_no_room = response.clientId == 0
            return Rejected(reason=response.reason or (_NO_ROOM if is_no_room else ""))
        if self.stage is ConnectionStage.CONNECTING and response.clientId is not None:
            self.client_id = response.clientId
            has_preload = bool(response.preload)
            self.stage = (
                ConnectionStage.EARLY_SUBSCRIBE if has_preload else ConnectionStage.CONNECTED
            )
            return Accepted(client_id=self.client_id, has_preload=has_preload)
        if self.stage is ConnectionStage.EARLY_SUBSCRIBE and response.preloadFinished:
            self.stage = ConnectionStage.CONNECTED
            return Connected()
        return ConnectionBroken(message="DotsMsgConnectResponse", detail="not expected now")


def _member(group: str, event: str) -> Any:
    events = internal_class("DotsMemberEvent")
    return internal_class("DotsMember")(groupName=group, event=events[event])
