"""From the node to the group: messages of clients, each type described before its first one."""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

from skerry.engine.carriage.distributor.types import CarriedType
from skerry.errors import LimitExceeded, LocalProtocolError, WouldBlock
from skerry.protocol.access.header import Header
from skerry.protocol.distributor.connection import GroupConnection
from skerry.tracing import DropReason

_IDLE_INTERVAL_COUNT: Final = 10
"""A type of which no message was sent for so many intervals is not described any more, to save
bandwidth. It is described again before its next message."""


class GroupOutgoing:
    """Publishes messages to the group; those that exceed the bandwidth wait here."""

    def __init__(
        self, connection: GroupConnection, *, interval_ns: int, update_bytes_max: int
    ) -> None:
        self._connection = connection
        self._interval_ns = interval_ns
        self._update_bytes_max = update_bytes_max
        self._used: dict[str, tuple[CarriedType, int]] = {}
        """Types in use, with the time of their last message."""
        self._batch: list[tuple[str, bytes]] = []
        self._pending: deque[tuple[str, bytes]] = deque()
        self._ready_ns = 0
        """When there is bandwidth again for waiting messages."""
        self._repeat_ns: int | None = None
        self.sent_count = 0
        self.described_count = 0
        self.dropped: Counter[DropReason] = Counter()

    @property
    def used_type_count(self) -> int:
        """Types that are in use."""
        return len(self._used)

    @property
    def pending_count(self) -> int:
        """Messages and descriptions that wait for bandwidth."""
        return len(self._pending)

    def send(self, carried: CarriedType, header: Header, body: bytes, at: int, now_ns: int) -> None:
        """Publish a message with the next `flush`."""
        name = carried.type.name
        used = self._used.get(name)
        if used is None or used[0] is not carried:
            self._describe([carried], now_ns)
            if self._repeat_ns is None:
                self._repeat_ns = now_ns + self._interval_ns
        self._used[name] = (carried, now_ns)
        if len(body) > self._update_bytes_max:
            self.dropped[DropReason.SIZE] += 1
            return
        if self._put(carried.subject_of(header, body[at:]), body, now_ns):
            self.sent_count += 1

    def flush(self, now_ns: int) -> None:
        """Publish the messages of the batch for which there is bandwidth; the others wait."""
        if self._batch and not self._pending:
            taken = self._connection.publish_many(self._batch, 0, now_ns)
            del self._batch[:taken]
        if self._batch:
            self._pending.extend(self._batch)
            self._batch.clear()
            self._ready_ns = self._connection.ready_ns(now_ns)

    def advance(self, now_ns: int) -> None:
        """Publish waiting messages, and repeat the descriptions of types in use when due."""
        while self._pending and self._publish(*self._pending[0], now_ns):
            self._pending.popleft()
        if self._repeat_ns is not None and now_ns >= self._repeat_ns:
            self._repeat(now_ns)

    def deadline_ns(self) -> int | None:
        """When to call `advance`."""
        return self._ready_ns if self._pending else self._repeat_ns

    def _repeat(self, now_ns: int) -> None:
        since_ns = now_ns - _IDLE_INTERVAL_COUNT * self._interval_ns
        self._used = {name: used for name, used in self._used.items() if used[1] > since_ns}
        self._repeat_ns = now_ns + self._interval_ns if self._used else None
        # While messages wait for bandwidth, repeated descriptions would only wait as well.
        if not self._pending:
            self._describe([carried for carried, _ in self._used.values()], now_ns)
            self.flush(now_ns)

    def _describe(self, types: list[CarriedType], now_ns: int) -> None:
        """Describe types; a type inside several of them is described once."""
        for subject, data in dict.fromkeys(
            one for carried in types for one in carried.descriptions
        ):
            self.described_count += self._put(subject, data, now_ns)

    def _put(self, subject: str, data: bytes, now_ns: int) -> bool:
        """Add to the batch, or publish alone a subject that is not checked yet.

        Returns False if it was dropped.
        """
        if subject in self._connection.checked_subjects:
            self._batch.append((subject, data))
            return True
        self.flush(now_ns)
        if self._pending:
            self._pending.append((subject, data))
            return True
        dropped = self.dropped.total()
        if not self._publish(subject, data, now_ns):
            self._pending.append((subject, data))
        return self.dropped.total() == dropped

    def _publish(self, subject: str, data: bytes, now_ns: int) -> bool:
        """Publish one message. Returns False if it has to wait."""
        try:
            self._connection.publish(subject, data, now_ns)
        except WouldBlock:
            self._ready_ns = self._connection.ready_ns(now_ns)
            return False
        except (LocalProtocolError, LimitExceeded):
            # Java programs read only ASCII, and a subject has to fit into a datagram.
            self.dropped[DropReason.SUBJECT] += 1
        return True
