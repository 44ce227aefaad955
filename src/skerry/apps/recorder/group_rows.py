"""Rows of updates from a multicast group: the loop that runs for each recorded update.

The sender is recorded as the node, since that is where the update enters the group. The number of
its datagram and the index in the datagram form both sequence and position, so that two recorders of
one group give equal numbers. This module is compiled.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from mypy_extensions import i64

from skerry.apps.recorder.node_rows import NO_KEY, RecordedType, sent_ns_of
from skerry.client.core.received_types import BYTES_NAME
from skerry.codec.encoder import head
from skerry.codec.envelope import CREATE, DISTRIBUTOR, REMOVE, UPDATE
from skerry.codec.pieces import Pieces, canonical_key, split_again
from skerry.errors import CodecError
from skerry.protocol.access.header import Header, read_header
from skerry.recording.rows import Rows

RECORDER_WAITING_BYTES_MAX: Final = 4 * 1024 * 1024
"""Objects of a group that wait in a recorder for the description of their type, which arrives
within one configuration interval. Beyond it the oldest are recorded without it."""

DATAGRAM_SPAN: Final = 65536
"""Sequence numbers per datagram: no datagram has as many updates as bytes."""

_HEAD_COUNT_MAX: Final = 4096
_WAITING_BYTES: Final = 500
"""Approximate memory of a waiting object besides its payload: header, subject and numbers."""


class GroupRows:
    """Rows of all updates of a group. `types` are those that were described in it."""

    def __init__(
        self,
        queue: Any,
        types: dict[str, RecordedType],
        *,
        space: str,
        waiting_bytes_max: int = RECORDER_WAITING_BYTES_MAX,
    ) -> None:
        self.rows: Rows = queue.rows
        self.row_count_max: i64 = queue.row_count_max
        self.byte_count_max: i64 = queue.byte_count_max
        self.types: dict[str, RecordedType] = types
        self.by_sender: dict[int, dict[str, RecordedType]] = {}
        """The types that each sender described, by which its objects are recorded."""
        self.wanted: frozenset[str] | None = None
        """Types whose objects are recorded; None for all."""
        self.on_description: Any = None
        """Called with the type and the bytes of a description, and with its sender."""
        self.received_count: i64 = 0
        self.unreadable_count: i64 = 0
        """Updates in a group of objects that do not decode as objects."""
        self._queue: Any = queue
        self._space: str = space
        self._bytes: RecordedType = types[BYTES_NAME]
        self._heads: dict[int, bytes] = {}
        """The encoded head of a payload, by the number of its bytes."""
        self._pieces: Pieces = Pieces(b"")
        self._waiting: deque[tuple[Header, str, bytes, int, int, int]] = deque()
        """Objects of unknown types: header, subject, payload, sender, sequence and time."""
        self._waiting_bytes: i64 = 0
        self._waiting_bytes_max: i64 = waiting_bytes_max

    def take_bytes(
        self,
        updates: list[tuple[str, bytes]],
        numbers: list[tuple[int, int]],
        sender: i64,
        time_ns: i64,
    ) -> None:
        """Write the rows of updates that are bytes.

        `numbers` are pairs of an index and the sequence of that update; following updates count on.
        The first pair has index 0.
        """
        known = self._bytes
        rows = self.rows
        place: i64 = 0
        sequence: i64 = 0
        next_start: i64 = 0
        index: i64 = 0
        for subject, data in updates:
            if index == next_start:
                sequence = numbers[place][1]
                place += 1
                next_start = numbers[place][0] if place < len(numbers) else -1
            size = len(data)
            before = self._heads.get(size)
            if before is None:
                before = self._head(size)
            rows.append(
                known.name,
                subject,
                CREATE,
                2,
                NO_KEY,
                before + data,
                self._space,
                known.fingerprint,
                sender,
                sender,
                sequence,
                sequence,
                -1,
                time_ns,
                DISTRIBUTOR,
            )
            sequence += 1
            index += 1
            if rows.count >= self.row_count_max or rows.byte_count >= self.byte_count_max:
                self._queue.hand_over()
        self.received_count += index

    def take_objects(
        self,
        updates: list[tuple[str, bytes]],
        numbers: list[tuple[int, int]],
        sender: i64,
        time_ns: i64,
    ) -> None:
        """Write the rows of updates that are objects with headers, and learn described types."""
        place: i64 = 0
        sequence: i64 = 0
        next_start: i64 = 0
        index: i64 = 0
        for subject, data in updates:
            if index == next_start:
                sequence = numbers[place][1]
                place += 1
                next_start = numbers[place][0] if place < len(numbers) else -1
            self._take_object(subject, data, sender, sequence, time_ns)
            sequence += 1
            index += 1
        self.received_count += index

    def type_described(self, name: str) -> None:
        """Write the objects that waited for the description of this type."""
        waiting = self._waiting
        self._waiting = deque()
        self._waiting_bytes = 0
        for item in waiting:
            if item[0].type_name == name:
                self._write(*item)
            else:
                self._waiting.append(item)
                self._waiting_bytes += _WAITING_BYTES + len(item[2])

    def write_waiting(self) -> None:
        """Write all waiting objects although their types are unknown."""
        while self._waiting:
            item = self._waiting.popleft()
            self._waiting_bytes -= _WAITING_BYTES + len(item[2])
            self._write(*item)

    def _head(self, size: int) -> bytes:
        if len(self._heads) >= _HEAD_COUNT_MAX:
            self._heads.clear()
        made = b"\xa1\x01" + head(0x40, size)
        self._heads[size] = made
        return made

    def _take_object(
        self, subject: str, data: bytes, sender: i64, sequence: i64, time_ns: i64
    ) -> None:
        try:
            header, size = read_header(data, 0)
        except CodecError:
            self.unreadable_count += 1
            return
        if header.attributes < 0 or not header.type_name:
            self.unreadable_count += 1
            return
        payload = data[size:]
        name = header.type_name
        if name == "StructDescriptorData" or name == "EnumDescriptorData":
            self.on_description(name, payload, int(sender))
        elif self.wanted is not None and name not in self.wanted:
            return
        elif name in self.types:
            self._write(header, subject, payload, int(sender), int(sequence), int(time_ns))
        else:
            self._waiting.append(
                (header, subject, payload, int(sender), int(sequence), int(time_ns))
            )
            self._waiting_bytes += _WAITING_BYTES + len(payload)
            while self._waiting_bytes > self._waiting_bytes_max:
                item = self._waiting.popleft()
                self._waiting_bytes -= _WAITING_BYTES + len(item[2])
                self._write(*item)

    def _write(
        self, header: Header, subject: str, payload: bytes, sender: int, sequence: int, time_ns: int
    ) -> None:
        own = self.by_sender.get(sender)
        known = None if own is None else own.get(header.type_name)
        if known is None:
            known = self.types.get(header.type_name)
        key = b""
        fingerprint: i64 = 0
        operation: i64 = CREATE
        if known is not None:
            try:
                split_again(self._pieces, known.plan, payload, 0)
                key = canonical_key(known.plan, self._pieces)
                fingerprint = known.fingerprint
            except CodecError:
                # The sender uses another definition of the type than the described one.
                self.unreadable_count += 1
            if known.is_cached:
                operation = REMOVE if header.remove_obj == 1 else UPDATE
        rows = self.rows
        rows.append(
            header.type_name,
            subject,
            operation,
            header.attributes,
            key,
            payload,
            self._space,
            fingerprint,
            sender,
            sender,
            sequence,
            sequence,
            sent_ns_of(header.sent_time),
            time_ns,
            DISTRIBUTOR,
        )
        if rows.count >= self.row_count_max or rows.byte_count >= self.byte_count_max:
            self._queue.hand_over()
