"""Checkers of the distributor.

Publishers number their updates and put the number into the data. A receiver reports a loss by the
sequence numbers of datagrams. The checkers decode the datagrams on the wire to know which updates
each of them held, and compare the reported losses with the updates that are missing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import Delivered, LossReason, SenderInfo, UpdatesLost
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.distributor.messages import (
    RETRANSMISSION,
    START,
    UPDATE,
    WHOLE,
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
    "AllDelivered",
    "NothingGivenUp",
    "Stream",
    "StreamsInOrder",
    "mark",
    "marked",
    "stream_of",
    "stream_of_identity",
]

Stream = tuple[str, int, int]
"""One life of a sender: its address, its sender id and the low 32 bits of its start time."""

_U32: Final = 0xFFFFFFFF


def mark(number: int, size: int) -> bytes:
    """Data of at least `size` bytes that begins with the number of the update."""
    return f"{number}:".encode().ljust(size, b".")


def marked(data: bytes) -> int:
    """The number that `mark` was given."""
    return int(data.partition(b":")[0])


class StreamsInOrder(Checker):
    """The updates of each sender are delivered once and in order; gaps are reported as lost."""

    def __init__(self) -> None:
        self._datagrams: dict[Stream, dict[int, set[int]]] = defaultdict(dict)
        """Sequence numbers of the datagrams that held an update, by the number of the update."""
        self._next: dict[tuple[str, int, Stream], int] = {}
        self._lost: dict[tuple[str, int, Stream], list[tuple[int, int]]] = defaultdict(list)
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
                    self._datagrams[stream][marked(content)] = {seq}
            elif data[3] & START:
                _, total, content = first_piece(data, text_length_bytes=4)
                self._datagrams[stream][marked(content)] = _segment_seqs(
                    seq, total, len(data), content
                )
        return None

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, UpdatesLost):
            key = (node.name, node.life, stream_of(event.sender))
            self._lost[key].append((event.first_seq, event.stop_seq))
        if isinstance(event, Delivered):
            key = (node.name, node.life, stream_of(event.sender))
            for _, content in event.updates:
                fault = self._check(key, marked(content))
                if fault is not None:
                    return fault
        return None

    def _check(self, key: tuple[str, int, Stream], number: int) -> str | None:
        expected = self._next.get(key, number)
        self._next[key] = number + 1
        if number < expected:
            return f"{key[0]} received number {number} of {key[2]} twice or too late"
        for missing in range(expected, number):
            seqs = self._datagrams[key[2]].get(missing)
            if seqs is None or not self._is_reported(key, seqs):
                return f"{key[0]} misses number {missing} of {key[2]} without a report"
        return None

    def _is_reported(self, key: tuple[str, int, Stream], seqs: set[int]) -> bool:
        return any(
            (seq - first) & _U32 < (stop - first) & _U32
            for first, stop in self._lost[key]
            for seq in seqs
        )


class NothingGivenUp(Checker):
    """With a sufficient cache and enough retries, only updates of removed senders are lost."""

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, UpdatesLost) and event.reason is not LossReason.REMOVED:
            return f"{node.name} lost {event.first_seq} to {event.stop_seq}: {event.reason.value}"
        return None


class AllDelivered(Checker):
    """Liveness: each receiver has received the last update of each publisher."""

    def __init__(self) -> None:
        self._published: dict[str, tuple[Stream, int]] = {}
        self._delivered: dict[tuple[str, int, Stream], int] = {}

    def published(self, node: Node[GroupConnection], number: int) -> None:
        """Record the number of the last update of a publisher."""
        self._published[node.name] = (stream_of_identity(node.machine.identity), number)

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, Delivered):
            key = (node.name, node.life, stream_of(event.sender))
            self._delivered[key] = marked(event.updates[-1][1])
        return None

    def liveness(self, world: World) -> str | None:
        for node in world.nodes.values():
            if not node.machine.match("/any"):
                continue
            for name, (stream, number) in self._published.items():
                last = self._delivered.get((node.name, node.life, stream))
                if last != number:
                    return f"{node.name} has number {last} of {name}, whose last number is {number}"
        return None


def stream_of(sender: SenderInfo) -> Stream:
    return sender.address, sender.sender_id, sender.start & _U32


def _wire_stream(data: bytes) -> Stream:
    header = JAVA_WIRE.decode_header(data)
    return ".".join(map(str, header.address)), header.sender_id, header.start


def _segment_seqs(seq: int, total: int, datagram_bytes: int, content: bytes) -> set[int]:
    """Sequence numbers of all segments of a large update whose first segment is `seq`."""
    room = datagram_bytes - 28
    count = 1 + -(-(total - len(content)) // room)
    return {(seq + index) & _U32 for index in range(count)}


def stream_of_identity(identity: SenderIdentity) -> Stream:
    address = ".".join(map(str, identity.address))
    return address, identity.sender_id, identity.start_ms & _U32
