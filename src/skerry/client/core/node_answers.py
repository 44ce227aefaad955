"""Processes the messages of the node that are not ordinary objects: answers, refusals and types."""

from __future__ import annotations

from typing import Any, Final

from skerry.client.core.claims import Claims
from skerry.client.core.flushes import Flushes
from skerry.client.core.frame_reading import Misread
from skerry.client.core.known_types import KnownTypes
from skerry.client.core.received_requests import decline, request_of
from skerry.client.core.requests import SentRequests
from skerry.client.core.route_table import DIRECT, SERVICES
from skerry.client.core.states import Refusal, TypeConflict, Unreadable
from skerry.client.core.subscriptions import JOIN_MARK, LEAVE_MARK, Subscriptions
from skerry.client.core.update_intake import UpdateIntake
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import ClientConnection
from skerry.protocol.access.connection import ReceivedFrame, decode_message
from skerry.protocol.access.header import ABSENT, Header
from skerry.protocol.machine import MachineEvent
from skerry.schema.model import StructType

FLUSH_MARK: Final = "skerry-flush"
"""Marks the echoes of flushes: a program may send echoes of its own, with its own numbers."""


class TypesRequest:
    def __init__(self, names: list[str]) -> None:
        self.names = names
        """The names of the requested types; empty for all types."""
        self.is_done = False

    def send(self, connection: ClientConnection, now_s: float) -> None:
        """Send it; on each new connection again, until it is answered."""
        message = internal_class("DotsDescriptorRequest")()
        if self.names:
            message.whitelist = self.names
        connection.send_message(message, now_s)


class NodeAnswers:
    """Gives each message of the node to the part of the space that it is for."""

    def __init__(
        self,
        *,
        types: KnownTypes,
        intake: UpdateIntake,
        subscriptions: Subscriptions,
        flushes: Flushes,
        claims: Claims,
        requests: SentRequests,
    ) -> None:
        self.types_requests: list[TypesRequest] = []
        """Requests for types that are not answered, oldest first."""
        self.unknown_count = 0
        """Objects that were dropped because the program does not know their type or key."""
        self._types = types
        self._intake = intake
        self._subscriptions = subscriptions
        self._flushes = flushes
        self._claims = claims
        self._requests = requests
        self._unreadable_names: set[str] = set()
        """Types of which an object could not be read on this connection."""

    def disconnected(self) -> None:
        """The connection is lost; on the next one, unreadable types are reported again."""
        self._unreadable_names.clear()

    def process(
        self, connection: ClientConnection, item: ReceivedFrame, now_s: float
    ) -> list[MachineEvent]:
        """Process a frame. Returns events for the program.

        Raises CodecError or SchemaError if the node breaks the protocol.
        """
        header, payload = item.header, item.payload
        name = header.type_name
        route = self._subscriptions.routes.of_name(name)
        if route is None and name not in SERVICES:
            # A host may send objects of a type that it has not described.
            self.unknown_count += name not in self._types.by_name
            return []
        events: list[MachineEvent] = []
        if name in SERVICES:
            events = self._answer(connection, header, decode_message(header, payload), now_s)
        if route is not None and header.subscription_id < 0 and name not in DIRECT:
            readable = self._types.readable(name, payload)
            if readable is None:
                self.unknown_count += 1
            else:
                self._intake.deliver(route, header, readable)
        return events

    def unreadable(self, item: Misread) -> list[MachineEvent] | None:
        """Process an object that does not decode as its type; None if that breaks the protocol.

        Where the node serves an incompatible definition of the type, the object may be valid by
        that definition. The program was notified of it. The first object on a connection is
        reported.
        """
        name = item.header.type_name
        if not self._types.has_conflict(name):
            return None
        self.unknown_count += 1
        if name in self._unreadable_names:
            return []
        self._unreadable_names.add(name)
        return [Unreadable(name=name, detail=str(item.error))]

    def _answer(
        self, connection: ClientConnection, header: Header, message: Any, now_s: float
    ) -> list[MachineEvent]:
        match header.type_name:
            case "DotsEcho":
                self._echo(message, now_s)
            case "DotsCacheInfo":
                self._cache_info(message, now_s)
            case "SkerryRefusal":
                return [self._refusal(message)]
            case "SkerryClaimed":
                self._claims.claimed(message)
            case "SkerryRequest":
                self._request(connection, message, now_s)
            case "SkerryResponse":
                self._requests.answered(message)
            case _:
                return self._description(connection, header, message)
        return []

    def _echo(self, message: Any, now_s: float) -> None:
        if message.request:
            return
        if message.data == FLUSH_MARK:
            self._flushes.answered(message.identifier or 0)
        elif message.data == LEAVE_MARK:
            self._subscriptions.leave_echoed(now_s)
        elif message.data == JOIN_MARK:
            self._subscriptions.join_echoed(now_s)

    def _cache_info(self, message: Any, now_s: float) -> None:
        if message.endTransmission:
            self._subscriptions.replay_ended(message.typeName or "", now_s)
        if message.endDescriptorRequest and self.types_requests:
            self.types_requests.pop(0).is_done = True

    def _request(self, connection: ClientConnection, message: Any, now_s: float) -> None:
        request = request_of(connection, message)
        claim = self._claims.service(request.type_name, request.handler)
        if claim is None or claim.on_request is None:
            # The node sent it before it processed the release of the claim.
            decline(request, now_s)
        else:
            claim.on_request(request)

    def _refusal(self, message: Any) -> MachineEvent:
        refusal = Refusal(what=message.what or "", reason=message.reason or "")
        self._flushes.refused(refusal)
        if message.groupName is not None:
            self._subscriptions.refused(message.groupName, message.subscriptionId, str(refusal))
        return refusal

    def _description(
        self, connection: ClientConnection, header: Header, message: Any
    ) -> list[MachineEvent]:
        known = self._types.conflicts
        # A description with a sender is from another client; the node has only forwarded it.
        is_forwarded = header.sender != ABSENT
        found, is_new = self._types.learn_description(message, is_forwarded=is_forwarded)
        if not is_forwarded:
            connection.note_received(found)
        if is_new and isinstance(found, StructType):
            self._subscriptions.type_known(found)
        own = self._types.by_name.get(found.name)
        if own is not None and self._types.is_narrow(own.name) and not connection.is_described(own):
            # The node does not know the program's definition, so it does not drop values that the
            # program cannot read.
            self._subscriptions.routes.narrowed(own.name)
        return [
            TypeConflict(name=conflict.known.name, difference=conflict.difference())
            for conflict in self._types.conflicts
            if conflict not in known
        ]
