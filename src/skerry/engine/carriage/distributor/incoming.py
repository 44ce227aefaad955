"""From the group to the node: messages are checked as strictly as by the node, then forwarded.

Any program can send to the group, so no message of it may make the node close the connection of the
carriage. A message that the node would reject is dropped here, and counted by reason.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from typing import Any, Final

from skerry.engine.carriage.distributor.events import DefinitionConflict, MessagesGivenUp
from skerry.engine.carriage.distributor.node_client import NodeClient
from skerry.engine.carriage.distributor.types import CarriedTypes, describing
from skerry.engine.types.definitions import Definitions
from skerry.errors import CodecError, SchemaError
from skerry.objects.descriptors import from_description
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import header_fault
from skerry.protocol.access.header import Header, copy_header, write_header
from skerry.protocol.access.header_repeats import HeaderReader
from skerry.protocol.distributor.events import SenderInfo
from skerry.protocol.machine import MachineEvent
from skerry.schema.model import NamedType
from skerry.schema.union import obstacle, unite
from skerry.tracing import DropReason

CARRIER_WAITING_BYTES_MAX: Final = 4 * 1024 * 1024
"""Objects of a group that wait in a node for the description of their type, which arrives within
one configuration interval. Beyond it the oldest are dropped and counted."""
CARRIER_CONFLICT_COUNT_MAX: Final = 1000
"""Types with conflicting definitions of senders that a node remembers. Beyond it the oldest is
forgotten, and detected again."""

_DESCRIPTORS: Final = ("StructDescriptorData", "EnumDescriptorData")
_WAIT_INTERVAL_COUNT: Final = 2
"""How many description intervals a message waits: senders describe a type in each interval."""

_ENTRY_BYTES: Final = 512
"""Memory of a waiting message besides its bytes; a sender may send many small ones."""

_Sender = tuple[str, int, int]


class _WaitingMessages:
    """Messages of a type that is not described yet."""

    def __init__(self, due_ns: int) -> None:
        self.due_ns = due_ns
        self.updates: list[tuple[SenderInfo, str, bytes]] = []
        self.size = 0


class GroupIncoming:
    def __init__(
        self,
        registry: Definitions,
        types: CarriedTypes,
        node: NodeClient,
        *,
        interval_ns: int,
    ) -> None:
        self._registry = registry
        self._types = types
        self._node = node
        self._wait_ns = _WAIT_INTERVAL_COUNT * interval_ns
        self._headers = HeaderReader()
        self._descriptions: dict[str, bytes] = {}
        """The last description of each type; senders repeat descriptions."""
        self._united: dict[str, NamedType] = {}
        """The union of the definitions of all senders of the group, by name."""
        self._conflicts: dict[tuple[_Sender, str], None] = {}
        self._waiting: dict[str, _WaitingMessages] = {}
        self._waiting_bytes = 0
        self.brought_count = 0
        self.conflict_count = 0
        self.dropped: Counter[DropReason] = Counter()
        self.events: list[MachineEvent] = []

    @property
    def waiting_count(self) -> int:
        """Messages that wait for the description of their type."""
        return sum(len(waiting.updates) for waiting in self._waiting.values())

    def take(self, sender: SenderInfo, subject: str, data: bytes, now_ns: int) -> None:
        """Process an update; it is sent to the node with the next `flush` of the node client."""
        try:
            header, at = self._headers.read(data)
        except CodecError:
            self.dropped[DropReason.MALFORMED] += 1
            return
        if header_fault(header) is not None:
            self.dropped[DropReason.MALFORMED] += 1
        elif not self._node.is_open:
            self.dropped[DropReason.ABSENT] += 1
        elif header.type_name in _DESCRIPTORS:
            self._take_description(sender, header, data, at, now_ns)
        else:
            self._take_message(sender, subject, header, data, at, now_ns)

    def node_opened(self) -> None:
        """Forget all descriptions: they have to be sent again on a new stream to the node."""
        self._descriptions.clear()
        self._united.clear()

    def advance(self, now_ns: int) -> None:
        """Drop messages that waited too long."""
        for name, waiting in list(self._waiting.items()):
            if name in self._registry:
                self._release(name, now_ns)
            elif now_ns >= waiting.due_ns:
                self._give_up(name)

    def deadline_ns(self) -> int | None:
        """When to call `advance`."""
        return min((waiting.due_ns for waiting in self._waiting.values()), default=None)

    # -- messages

    def _take_message(
        self, sender: SenderInfo, subject: str, header: Header, data: bytes, at: int, now_ns: int
    ) -> None:
        name = header.type_name
        carried = self._types.get(name)
        if name in self._waiting and name in self._registry:
            # A client of this node has described the type meanwhile.
            self._release(name, now_ns)
            # `release` read other headers, so this one is not valid any more.
            header, at = self._headers.read(data)
        if carried is None and name not in self._registry:
            self._wait(sender, subject, name, data, now_ns)
        elif carried is None or not carried.is_carried:
            self.dropped[DropReason.SCOPE] += 1
        elif self._conflicts and self._is_in_conflict(sender, carried.names):
            self.dropped[DropReason.CONFLICT] += 1
        else:
            try:
                carried.check(header, data[at:])
            except CodecError:
                self.dropped[DropReason.MALFORMED] += 1
                return
            chosen = "" if carried.is_default(subject) else subject
            if header.subject != chosen:
                header = copy_header(header)
                header.subject = chosen
                data = write_header(header) + data[at:]
            self.brought_count += 1
            self._node.put(data)

    def _wait(self, sender: SenderInfo, subject: str, name: str, data: bytes, now_ns: int) -> None:
        size = len(data) + _ENTRY_BYTES
        while self._waiting and self._waiting_bytes + size > CARRIER_WAITING_BYTES_MAX:
            self._give_up(next(iter(self._waiting)))
        if size > CARRIER_WAITING_BYTES_MAX:
            self.dropped[DropReason.UNDESCRIBED] += 1
            return
        waiting = self._waiting.get(name)
        if waiting is None:
            waiting = self._waiting[name] = _WaitingMessages(now_ns + self._wait_ns)
        waiting.updates.append((sender, subject, data))
        waiting.size += size
        self._waiting_bytes += size

    def _release(self, name: str, now_ns: int) -> None:
        """Forward the messages that waited for a type, before later ones."""
        waiting = self._waiting.pop(name, None)
        if waiting is not None:
            self._waiting_bytes -= waiting.size
            for update in waiting.updates:
                self.take(*update, now_ns)

    def _give_up(self, name: str) -> None:
        waiting = self._waiting.pop(name)
        self._waiting_bytes -= waiting.size
        count = len(waiting.updates)
        self.dropped[DropReason.UNDESCRIBED] += count
        self.events.append(MessagesGivenUp(type_name=name, message_count=count))

    # -- descriptions

    def _take_description(
        self, sender: SenderInfo, header: Header, data: bytes, at: int, now_ns: int
    ) -> None:
        """Describe a type to the node, as the union of the definitions of all senders."""
        try:
            message: Any = internal_class(header.type_name).decode(data[at:])
            name = message.name or ""
            if self._descriptions.get(name) == data:
                return
            found = from_description(message, ChainMap(self._united, self._registry))  # type: ignore[arg-type]
        except CodecError:
            self.dropped[DropReason.MALFORMED] += 1
            return
        except SchemaError:
            # Most often the types inside were described before this carriage joined the group.
            self.dropped[DropReason.UNDESCRIBED] += 1
            return
        known = self._united.get(found.name)
        change = None if known is None else obstacle(known, found)
        if change is not None:
            self._note_conflict(sender, found.name, str(change))
            return
        united = found if known is None else unite(known, found)
        if united != known or found.name not in self._registry:
            self._describe(united, now_ns)
        if found.name not in self._registry:
            # The node refused it because it has too many types; the node client counts that.
            return
        held = self._registry.held(self._node.client_id, found.name)
        if held is not None and not held.is_accepted:
            # The definition of a client of this node takes precedence over that of the group.
            self._note_conflict(sender, found.name, self._difference(united))
            if known is not None:
                self._describe(known, now_ns)
            return
        self._united[found.name] = united
        self._conflicts.pop((_sender_key(sender), found.name), None)
        self._descriptions[found.name] = data
        self._release(found.name, now_ns)

    def _describe(self, type_: NamedType, now_ns: int) -> None:
        """Describe a type to the node at once: messages of it may follow in the same datagram."""
        self._node.put(describing(type_)[1])
        self._node.flush(now_ns)

    def _difference(self, united: NamedType) -> str:
        conflict = self._registry.conflict(self._node.client_id, united.name)
        if conflict is not None:
            return conflict.difference
        return str(obstacle(self._registry[united.name], united) or "a part of it differs")

    def _note_conflict(self, sender: SenderInfo, type_name: str, difference: str) -> None:
        key = (_sender_key(sender), type_name)
        if key in self._conflicts:
            return
        if len(self._conflicts) >= CARRIER_CONFLICT_COUNT_MAX:
            del self._conflicts[next(iter(self._conflicts))]
        self._conflicts[key] = None
        self.conflict_count += 1
        name = f"{sender.application or 'unknown'} at {sender.address}, sender {sender.sender_id}"
        self.events.append(DefinitionConflict(type_name=type_name, sender=name, detail=difference))

    def _is_in_conflict(self, sender: SenderInfo, names: frozenset[str]) -> bool:
        key = _sender_key(sender)
        return any((key, name) in self._conflicts for name in names)


def _sender_key(sender: SenderInfo) -> _Sender:
    # The upper half of the start is known only after the announcement of the sender.
    return sender.address, sender.sender_id, sender.start & 0xFFFFFFFF
