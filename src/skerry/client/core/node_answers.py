"""What the node says besides objects: answers to what it was asked, refusals, and types."""

from __future__ import annotations

from typing import Any, Final

from skerry.client.core.claims import Claims
from skerry.client.core.flushes import Flushes
from skerry.client.core.known_types import KnownTypes
from skerry.client.core.request_calls import call_of, give_back
from skerry.client.core.requests import SentRequests
from skerry.client.core.states import Refusal, TypeConflict
from skerry.client.core.subscriptions import JOIN_MARK, LEAVE_MARK, SubscribedTypes
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import ClientConnection
from skerry.protocol.access.header import ABSENT, Header
from skerry.protocol.machine import MachineEvent
from skerry.schema.model import StructType

__all__ = ["FLUSH_MARK", "NodeAnswers", "TypesRequest"]

FLUSH_MARK: Final = "skerry-flush"
"""In our echoes: a program may send echoes of its own, with numbers of its own."""


class TypesRequest:
    """A question to the node for its types."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        """Only these; all if there are none."""
        self.is_done = False

    def send(self, connection: ClientConnection, now_s: float) -> None:
        """Ask it, on each connection until it is answered."""
        message = internal_class("DotsDescriptorRequest")()
        if self.names:
            message.whitelist = self.names
        connection.send_message(message, now_s)


class NodeAnswers:
    """Gives each answer to who waits for it."""

    def __init__(
        self,
        types: KnownTypes,
        interests: SubscribedTypes,
        flushes: Flushes,
        claims: Claims,
        requests: SentRequests,
    ) -> None:
        self.types_requests: list[TypesRequest] = []
        """Those without an answer, oldest first."""
        self._types = types
        self._interests = interests
        self._flushes = flushes
        self._claims = claims
        self._requests = requests

    def take(
        self, connection: ClientConnection, header: Header, message: Any, now_s: float
    ) -> list[MachineEvent]:
        """Process a message of one of the types in `SERVICES`; returns events for the program."""
        name = header.type_name
        if name == "DotsEcho":
            self._echo(message, now_s)
        elif name == "DotsCacheInfo":
            self._cache_info(message, now_s)
        elif name == "SkerryResponse":
            self._requests.answered(message)
        elif name == "SkerryRequest":
            self._request(connection, message, now_s)
        elif name == "SkerryClaimed":
            self._claims.stands(message)
        elif name == "SkerryRefusal":
            return [self._refusal(message)]
        else:
            return self._description(connection, header, message)
        return []

    def _echo(self, message: Any, now_s: float) -> None:
        if message.request:
            return
        if message.data == FLUSH_MARK:
            self._flushes.answered(message.identifier or 0)
        elif message.data == LEAVE_MARK:
            self._interests.left(now_s)
        elif message.data == JOIN_MARK:
            self._interests.echoed(now_s)

    def _cache_info(self, message: Any, now_s: float) -> None:
        if message.endTransmission:
            self._interests.told_all(message.typeName or "", now_s)
        if message.endDescriptorRequest and self.types_requests:
            self.types_requests.pop(0).is_done = True

    def _request(self, connection: ClientConnection, message: Any, now_s: float) -> None:
        call = call_of(connection, message)
        claim = self._claims.server(call.type_name, call.handler)
        if claim is None or claim.take is None:
            # Given to us just before the node heard that we answer no more.
            give_back(call, now_s)
        else:
            claim.take(call)

    def _refusal(self, message: Any) -> MachineEvent:
        refusal = Refusal(what=message.what or "", reason=message.reason or "")
        self._flushes.refused(refusal)
        if message.groupName is not None:
            self._interests.refused(message.groupName, message.subscriptionId, str(refusal))
        return refusal

    def _description(
        self, connection: ClientConnection, header: Header, message: Any
    ) -> list[MachineEvent]:
        known = self._types.conflicts
        # A description with a sender is one that a client sent to the node, which passed it on.
        is_forwarded = header.sender != ABSENT
        found, is_new = self._types.learn_description(message, is_forwarded=is_forwarded)
        if not is_forwarded:
            connection.note_received(found)
        if is_new and isinstance(found, StructType):
            self._interests.type_known(found)
        own = self._types.by_name.get(found.name)
        if own is not None and self._types.is_narrow(own.name) and not connection.is_described(own):
            # The node does not know the program's definition, so it leaves nothing out.
            self._interests.narrowed(own.name)
        return [
            TypeConflict(name=conflict.known.name, difference=conflict.difference())
            for conflict in self._types.conflicts
            if conflict not in known
        ]
