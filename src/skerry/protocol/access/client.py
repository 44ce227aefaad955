"""The client's end of a connection: the handshake, early joins, and received objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from skerry.objects.base import Struct
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import (
    AccessConnection,
    ConnectionBroken,
    ConnectionEnded,
    ReceivedFrame,
)
from skerry.protocol.access.handshake import CLIENT_HANDSHAKE, HandshakeEvent, HandshakeState
from skerry.protocol.access.header import Header
from skerry.protocol.access.json.wire import JsonWire
from skerry.protocol.access.secrets import digest
from skerry.protocol.access.wire import Wire
from skerry.schema.model import NamedType

EXTENSION_SUBJECTS: Final = 1
"""The client understands subjects and the types whose names begin with Skerry."""
EXTENSION_ORIGIN: Final = 2
"""The client wants the node and the position at which each update entered the system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The node accepted the client. With preload: join now, then call `finish_joins`."""

    client_id: int
    has_preload: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """All cached objects of the early joins were received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    reason: str = ""
    """The limit of the node that is reached; empty if a retry would be rejected as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretMissing:
    """The node requires authentication, and the client has no secret."""


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
"""Input after these is discarded."""


class ClientConnection(AccessConnection):
    """The connection of a client to its node. Each connection needs a new `cnonce`.

    `extensions` is a mask of the additions to DOTS that the client understands. It is sent only to
    nodes that support additions.
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
        super().__init__(wire, transitions=CLIENT_HANDSHAKE)
        if isinstance(wire, JsonWire):
            wire.definition = self._written
        self.name = name
        self.client_id = 0
        self.server_name = ""
        self.has_filters = False
        """Whether the node evaluates conditions for its subscribers."""
        self.extensions = 0
        """The additions that both ends understand; known after the hello of the node."""
        self._offered_extensions = extensions
        self._cnonce = cnonce
        self._secret = secret
        self._wants_preload = wants_preload

    def _written(self, name: str) -> NamedType | None:
        """Return the definition by which the node writes objects of a type; None if unknown.

        A node with our additions writes by the definition of the client if it was sent one, else by
        its own.
        """
        return self._sent.get(name) or (self.received.get(name) if self.renews else None)

    def receive(self, data: bytes, now_s: float) -> list[ClientInput]:
        """Return the inputs in the bytes, in order. Input after the end is discarded."""
        if self.is_over:
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
            self._has_input_ended = True
            inputs.append(fault)
        return inputs

    def feed(self, data: bytes) -> tuple[list[tuple[Header, bytes]], ConnectionBroken | None]:
        """Return the transmissions that are complete now, and the fault after them, if any.

        This is the first half of `receive`, for callers that process objects in batches;
        `understand` is the second.
        """
        if self.is_over:
            return [], None
        return self._feed(data)

    def understand(self, header: Header, payload: bytes, now_s: float) -> ClientInput | None:
        """Return the input in one transmission; None if the connection has processed it."""
        item = self._understand(header, payload, now_s)
        if isinstance(item, _LAST):
            self._has_input_ended = True
        return item

    def finish_joins(self, now_s: float) -> None:
        """End the early joins; the node answers when their cached objects are sent."""
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
        """Join the group of a type or of a subject pattern, to receive its objects.

        A filter selects some of them; the caller chooses `subscription_id` for it. With
        `is_conflated` the node may skip outdated states of an object while the client is slow.
        """
        message = _member(group, "join")
        if subscription_id is not None:
            message.subscriptionId = subscription_id
            message.filter = filter_
        if is_conflated and self.extensions & EXTENSION_SUBJECTS:
            message.slow = internal_class("SkerrySlow")["conflate"]
        self.send_message(message, now_s)

    def leave(self, group: str, now_s: float, *, subscription_id: int | None = None) -> None:
        """Leave a group, or end one filtered subscription to it."""
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
        if (
            header.type_name == "DotsMsgConnectResponse"
            and self._state is not HandshakeState.AWAITING_HELLO
        ):
            return self._answered(message)
        return ConnectionBroken(message=header.type_name, detail="not expected now")

    def _introduce(self, hello: Any, now_s: float) -> ClientInput | None:
        if self._state is not HandshakeState.AWAITING_HELLO:
            return ConnectionBroken(message="DotsMsgHello", detail="it came twice")
        self._change(HandshakeEvent.HELLO)
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
        is_awaited = self._state is HandshakeState.AWAITING_RESPONSE
        if is_awaited and response.accepted is False:
            self._change(HandshakeEvent.REJECTED)
            # A node that had no room before the handshake gives no reason, and the client id 0.
            is_no_room = response.clientId == 0
            return Rejected(reason=response.reason or (_NO_ROOM if is_no_room else ""))
        if is_awaited and response.clientId is not None:
            self.client_id = response.clientId
            has_preload = bool(response.preload)
            self._change(
                HandshakeEvent.ACCEPTED_WITH_PRELOAD if has_preload else HandshakeEvent.ACCEPTED
            )
            return Accepted(client_id=self.client_id, has_preload=has_preload)
        if self._state is HandshakeState.EARLY_SUBSCRIBE and response.preloadFinished:
            self._change(HandshakeEvent.PRELOAD_FINISHED)
            return Connected()
        return ConnectionBroken(message="DotsMsgConnectResponse", detail="not expected now")


def _member(group: str, event: str) -> Any:
    events = internal_class("DotsMemberEvent")
    return internal_class("DotsMember")(groupName=group, event=events[event])
