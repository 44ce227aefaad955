"""A node with one link, whose members are given. For tests of the link alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import LinkStatistics, NotFull, RecordsReceived, Stalled
from skerry.protocol.link.link import Link
from skerry.protocol.machine import Address, MachineEvent, Transmit
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.rtps.entities import Channel
from skerry.testing.node import Setting

__all__ = [
    "DATA_PORT",
    "FIELD",
    "GROUP",
    "SERVER",
    "TYPES",
    "LinkDelivered",
    "LinkHost",
    "content_of",
    "number_of",
]

GROUP: Final = Address("239.192.77.1", 26651)
DATA_PORT: Final = 26661
SERVER: Final = NodeType(
    name="server",
    multicast_control="239.192.77.1:26650",
    multicast_data="239.192.77.1:26651",
    window_packet_count=20,
    ack_request_threshold=10,
)
"""Its windows are smaller than usual, so that few messages fill them."""
FIELD: Final = NodeType(name="field")
"""Nodes that are reached by unicast only."""
TYPES: Final = NodeTypes([SERVER, FIELD])
_DATA_TYPE: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkDelivered(MachineEvent):
    """Messages of another node, by their numbers."""

    sender: str
    is_single: bool
    is_reliable: bool
    numbers: tuple[int, ...]


class LinkHost:
    """A machine that numbers the messages it sends, and includes the nodes of a roster."""

    def __init__(
        self,
        setting: Setting,
        roster: Mapping[str, tuple[int, NodeType]],
        *,
        config: LinkConfig | None = None,
        types: NodeTypes = TYPES,
    ) -> None:
        """`roster` has the id and type of each node by its name. All but this one are known."""
        node, own_type = roster[setting.name]
        self.names = {number: name for name, (number, _) in roster.items()}
        self.nodes = {name: number for number, name in self.names.items()}
        self.type_name = own_type.name
        self.window = own_type.window_packet_count
        self._types = types
        self.link = Link(
            channel=Channel.DATA,
            node=node,
            node_types=types,
            own_type=own_type,
            now_ns=setting.now_ns,
            config=config,
            wall_offset_ns=setting.wall_offset_ns,
            tracer=setting.tracer,
        )
        self.stalled: list[Stalled] = []
        self.sent: dict[str, int] = {}
        """How many messages were accepted, by stream: a type, a node, or either with `?`."""
        self.refused: set[str] = set()
        """Streams that have refused a message, and not reported room since."""
        self._roster = roster
        for name in roster:
            if name != setting.name:
                self.meet(name)

    def meet(self, name: str) -> None:
        """Know a node again that was excluded."""
        node, node_type = self._roster[name]
        self.link.meet(node, node_type, Address(name, DATA_PORT))

    def include(self, *names: str, now_ns: int) -> None:
        for name in names:
            self.link.include(self.nodes[name], now_ns)

    def send_all(
        self,
        now_ns: int,
        *,
        type_name: str = "server",
        size: int = 8,
        is_reliable: bool = True,
        key: int | None = None,
    ) -> bool:
        """Send the next number to all nodes of a type."""
        stream = type_name if is_reliable else f"{type_name}?"
        number = self.sent.get(stream, 0)
        data = content_of(number, size)
        is_sent = self.link.send_all(
            self._types.named(type_name),
            _DATA_TYPE,
            data,
            now_ns,
            is_reliable=is_reliable,
            key=key,
        )
        self._note(stream, number, is_sent=is_sent)
        return is_sent

    def send_to(self, name: str, now_ns: int, *, size: int = 8, is_reliable: bool = True) -> bool:
        """Send the next number to one node."""
        stream = name if is_reliable else f"{name}?"
        number = self.sent.get(stream, 0)
        data = content_of(number, size)
        is_sent = self.link.send_to(
            self.nodes[name], _DATA_TYPE, data, now_ns, is_reliable=is_reliable
        )
        self._note(stream, number, is_sent=is_sent)
        return is_sent

    def _note(self, stream: str, number: int, *, is_sent: bool) -> None:
        if is_sent:
            self.sent[stream] = number + 1
        else:
            self.refused.add(stream)

    # -- the contract

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        self.receive_at(data, source, Address("", DATA_PORT), now_ns)

    def receive_at(self, data: bytes, source: Address, destination: Address, now_ns: int) -> None:
        self.link.receive(data, source, now_ns, is_multicast=destination == GROUP)

    def advance(self, now_ns: int) -> None:
        self.link.advance(now_ns)

    def deadline_ns(self) -> int | None:
        return self.link.deadline_ns()

    def take_transmits(self) -> Sequence[Transmit]:
        return self.link.take_transmits()

    def take_events(self) -> Sequence[MachineEvent]:
        found: list[MachineEvent] = []
        for event in self.link.take_events():
            if isinstance(event, RecordsReceived):
                found.append(
                    LinkDelivered(
                        sender=self.names[event.node],
                        is_single=event.is_single,
                        is_reliable=event.is_reliable,
                        numbers=tuple(number_of(data) for _, _, data in event.records),
                    )
                )
                continue
            if isinstance(event, Stalled):
                self.stalled.append(event)
            if isinstance(event, NotFull):
                stream = self.names[event.node] if event.node else event.node_type
                assert stream in self.refused, f"{event} without a refusal before"
                self.refused.remove(stream)
            found.append(event)
        return found

    def statistics(self) -> LinkStatistics:
        return self.link.statistics()


def content_of(number: int, size: int) -> bytes:
    """A message with a number, which all of its bytes depend on."""
    data = number.to_bytes(8, "big")
    return data if size == 8 else (data * (size // 8 + 1))[:size]


def number_of(data: bytes) -> int:
    """The number in a message, whose content has to be right."""
    number = int.from_bytes(data[:8], "big")
    assert data == content_of(number, len(data)), f"message {number} was changed"
    return number


def host_of(node: Any) -> LinkHost:
    machine = node.machine
    assert isinstance(machine, LinkHost)
    return machine
