"""What must hold for a distributor, whatever the network does.

Publishers number their updates, and the number stands in the data. What a datagram carries is seen
on the wire, so that a loss which a receiver tells by numbers of datagrams can be held against the
updates that are missing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import Delivered, LossReason, SenderInfo, UpdatesLost
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.distributor.messages import (
    REQUEST,
    RETRANSMISSION,
    START,
    UPDATE,
    WHOLE,
    RepairRequest,
)
from skerry.protocol.distributor.receiving.unpacking import unpack
from skerry.protocol.distributor.segments import first_piece
from skerry.protocol.distributor.subjects import Subjects
from skerry.protocol.distributor.wire import JAVA_WIRE
from skerry.protocol.machine import MachineEvent
from skerry.testing.checkers import Checker
from skerry.testing.node import Node
from skerry.testing.packet import Packet
from skerry.testing.world import World

__all__ = [
    "AllAccounted",
    "AllDelivered",
    "FewAnswers",
    "NothingGivenUp",
    "StreamsInOrder",
    "mark",
    "marked",
]

_Stream = tuple[str, int, int]
"""A sender in one life: address, sender id and the low bits of its start."""

_U32: Final = 0xFFFFFFFF


def mark(number: int, size: int) -> bytes:
    """Data of `size` bytes, or a few more, by which an update is known."""
    return f"{number}:".encode().ljust(size, b".")


def marked(data: bytes) -> int:
    """The number that `mark` was given."""
    return int(data.partition(b":")[0])


class StreamsInOrder(Checker):
    """Updates of each sender come in order and once, and none is left out that is not told lost."""

    def __init__(self) -> None:
        self._carriers: dict[_Stream, dict[int, set[int]]] = defaultdict(dict)
        """Numbers of the datagrams that carried an update, by its number."""
        self._next: dict[tuple[str, int, _Stream], int] = {}
        self._lost: dict[tuple[str, int, _Stream], list[tuple[int, int]]] = defaultdict(list)
        self._subjects = Subjects()
        self._subjects.add("/...", None)

    def arrived(self, packet: Packet) -> str | None:
        data = packet.data
        if data[2] in (UPDATE, RETRANSMISSION):
            stream = _wire_stream(data)
            seq = int.from_bytes(data[20:24], "big")
            if data[3] & WHOLE == WHOLE:
                updates: list[tuple[str, bytes]] = []
                assert unpack(data, 4, self._subjects.memo, self._subjects, updates)
                for _, content in updates:
                    self._carriers[stream][marked(content)] = {seq}
            elif data[3] & START:
                _, total, content = first_piece(data, text_length_bytes=4)
                self._carriers[stream][marked(content)] = _pieces(seq, total, len(data), content)
        return None

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, UpdatesLost):
            key = (node.name, node.life, _stream(event.sender))
            self._lost[key].append((event.first_seq, event.stop_seq))
        if isinstance(event, Delivered):
            key = (node.name, node.life, _stream(event.sender))
            for _, content in event.updates:
                fault = self._check(key, marked(content))
                if fault is not None:
                    return fault
        return None

    def _check(self, key: tuple[str, int, _Stream], number: int) -> str | None:
        expected = self._next.get(key, number)
        self._next[key] = number + 1
        if number < expected:
            return f"{key[0]} got number {number} of {key[2]} again or too late"
        for missing in range(expected, number):
            carriers = self._carriers[key[2]].get(missing)
            if carriers is None or not self._is_told(key, carriers):
                return f"{key[0]} did not get number {missing} of {key[2]}, and was not told"
        return None

    def _is_told(self, key: tuple[str, int, _Stream], carriers: set[int]) -> bool:
        return any(
            (seq - first) & _U32 < (stop - first) & _U32
            for first, stop in self._lost[key]
            for seq in carriers
        )


class NothingGivenUp(Checker):
    """With a cache that is large enough and patience, only a sender that was gone loses updates."""

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, UpdatesLost) and event.reason is not LossReason.REMOVED:
            return f"{node.name} lost {event.first_seq} to {event.stop_seq}: {event.reason.value}"
        return None


class AllAccounted(Checker):
    """Counts the updates of each publisher at a receiver, and whether a loss was reported."""

    def __init__(self) -> None:
        self._published: dict[_Stream, tuple[str, int]] = {}
        self._delivered: dict[tuple[str, _Stream], int] = defaultdict(int)
        self._told: set[tuple[str, _Stream]] = set()
        self.lost_count = 0

    def published(self, node: Node[GroupConnection], count: int) -> None:
        """A publisher has ended after so many updates."""
        self._published[_identity_stream(node.machine.identity)] = node.name, count

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, Delivered):
            self._delivered[node.name, _stream(event.sender)] += len(event.updates)
        if isinstance(event, UpdatesLost):
            self._told.add((node.name, _stream(event.sender)))
            self.lost_count += 1
        return None

    def missing(self, node: Node[Any]) -> list[str]:
        """Publishers of which this receiver misses updates without a report."""
        return [
            name
            for stream, (name, count) in self._published.items()
            if self._delivered[node.name, stream] < count and (node.name, stream) not in self._told
        ]


class AllDelivered(Checker):
    """In the end each receiver has the last update of each publisher, and waits for nothing."""

    def __init__(self) -> None:
        self._published: dict[str, tuple[_Stream, int]] = {}
        self._delivered: dict[tuple[str, int, _Stream], int] = {}

    def published(self, node: Node[GroupConnection], number: int) -> None:
        """The last update of this publisher by now."""
        self._published[node.name] = (_identity_stream(node.machine.identity), number)

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, Delivered):
            key = (node.name, node.life, _stream(event.sender))
            self._delivered[key] = marked(event.updates[-1][1])
        return None

    def liveness(self, world: World) -> str | None:
        for node in world.nodes.values():
            if not node.machine.match("/any"):
                continue
            for name, (stream, number) in self._published.items():
                last = self._delivered.get((node.name, node.life, stream))
                if last != number:
                    return f"{node.name} has number {last} of {name}, which is at {number}"
        return None


class FewAnswers(Checker):
    """Counts what is asked for and sent again, as one node hears it."""

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name
        self.asked_count = 0
        """Datagrams asked for, each as often as it was."""
        self.answer_count = 0

    def arrived(self, packet: Packet) -> str | None:
        if packet.destination.name == self._node_name:
            if packet.data[2] == REQUEST:
                request = JAVA_WIRE.decode(packet.data)
                assert isinstance(request, RepairRequest)
                self.asked_count += request.last_seq - request.first_seq + 1
            elif packet.data[2] == RETRANSMISSION:
                self.answer_count += 1
        return None


def _stream(sender: SenderInfo) -> _Stream:
    return sender.address, sender.sender_id, sender.start & _U32


def _wire_stream(data: bytes) -> _Stream:
    header = JAVA_WIRE.decode_header(data)
    return ".".join(map(str, header.address)), header.sender_id, header.start


def _pieces(seq: int, total: int, datagram_bytes: int, content: bytes) -> set[int]:
    """The numbers of all pieces of a large update, by its first one, which is a full datagram."""
    room = datagram_bytes - 28
    count = 1 + -(-(total - len(content)) // room)
    return {(seq + index) & _U32 for index in range(count)}


def _identity_stream(identity: SenderIdentity) -> _Stream:
    address = ".".join(map(str, identity.address))
    return address, identity.sender_id, identity.start_ms & _U32
