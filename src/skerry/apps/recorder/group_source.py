"""A source of recordings: a multicast group, of bytes or of objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from skerry.apps.recorder.group_rows import DATAGRAM_SPAN, GroupRows
from skerry.apps.recorder.link_rows import LinkRows
from skerry.apps.recorder.recorded_types import RecordedTypes
from skerry.apps.recorder.row_queue import RowQueue
from skerry.client.distributor import aio
from skerry.codec.envelope import DISTRIBUTOR
from skerry.errors import CodecError, LimitExceeded, SchemaError
from skerry.protocol.distributor.config import Dialect
from skerry.protocol.distributor.events import (
    CommunicationFailed,
    Delivered,
    Nagging,
    SenderInfo,
    StartUnknown,
    UpdatesLost,
)
from skerry.protocol.distributor.receiving.link_quality import sender_number
from skerry.protocol.machine import MachineEvent
from skerry.protocol.patterns import PatternTree
from skerry.recording.columns import DESCRIPTOR_TYPES
from skerry.recording.gaps import Gap
from skerry.runtime.clock import wall_ns
from skerry.runtime.recordings.resume_point import ResumePoint
from skerry.schema.internal import LINK_TYPE
from skerry.schema.model import StructType

__all__ = ["GroupKind", "GroupSource", "GroupWishes"]

GroupKind = Literal["bytes", "objects"]

_U32: Final = 0xFFFFFFFF
_SENDER_COUNT_MAX: Final = 4096
"""Senders whose numbers are remembered. Each that starts anew is another one, and it is quickly
computed again."""
_BUFFER_BYTES: Final = 8 * 1024 * 1024
_DESCRIPTIONS: Final = tuple(f"/{name}/" for name in DESCRIPTOR_TYPES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWishes:
    """Which group is recorded, and what of it."""

    group: str
    interface: str = ""
    ttl: int = 1
    dialect: str = "java"
    kind: GroupKind = "bytes"
    key_file: str = ""
    segment_bytes: int = 0
    """Size of the largest datagram that is published; 0 to choose."""
    types: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()

    @property
    def has_links(self) -> bool:
        """Whether it is recorded how well datagrams arrive: with all, or where it is named."""
        return LINK_TYPE in self.types or not (self.types or self.subjects)


class GroupSource:
    """Records what is published in a group. `tell` hears of what goes wrong in it."""

    def __init__(
        self,
        queue: RowQueue,
        wishes: GroupWishes,
        *,
        space: str,
        tell: Callable[[str], None],
        ending: ResumePoint | None = None,
    ) -> None:
        self._queue = queue
        self._ending = ending
        """Where a recorder before this one ended."""
        self._wishes = wishes
        self._tell = tell
        self._types = RecordedTypes(DISTRIBUTOR)
        self.intake = GroupRows(queue, self._types.known, space=space)
        self.intake.by_sender = self._types.by_sender
        self.intake.on_description = self._described
        self._patterns = PatternTree()
        for pattern in wishes.subjects:
            self._patterns.add(pattern, True)
        if wishes.types:
            self.intake.wanted = frozenset(wishes.types)
        self._links = LinkRows(queue, space=space, is_wanted=wishes.has_links)
        self._senders: dict[SenderInfo, int] = {}
        self._connection: aio.AsyncGroupConnection | None = None
        self.lost_count = 0
        """A group is never lost: there is nobody to be connected to."""

    @property
    def name(self) -> str:
        """What is recorded, for people."""
        return self._wishes.group

    @property
    def taken_count(self) -> int:
        """Updates that came."""
        return int(self.intake.taken_count)

    @property
    def is_complete(self) -> bool:
        """There is nothing to wait for."""
        return self._connection is not None

    async def start(self) -> None:
        """Join the group; ConnectFailed when that cannot be done."""
        for type_ in self._types.internal():
            self._queue.describe(type_)
        wishes = self._wishes
        self._connection = await aio.open(
            wishes.group,
            interface=wishes.interface,
            ttl=wishes.ttl,
            dialect=Dialect(wishes.dialect),
            key_file=wishes.key_file,
            application="skerry-record",
            socket_buffer_bytes=_BUFFER_BYTES,
        )
        if self._ending is not None:
            reason = "the recorder was not running"
            gap = Gap(count=0, reason=reason, first_ns=self._ending.time_ns, last_ns=wall_ns())
            self._queue.tell_gap(gap)
        self._connection.tap(self.heard)

    async def stop(self) -> None:
        """Leave the group."""
        if self._connection is not None:
            self._tell_links(self._connection)
            await self._connection.close(linger=False)
        self.intake.give_up()

    def check(self) -> None:
        """A group never ends; from time to time it is told how well its datagrams arrive."""
        if self._connection is not None and self._links.is_due():
            self._tell_links(self._connection)

    def heard(self, event: MachineEvent) -> None:
        """Something happened in the group."""
        if isinstance(event, Delivered):
            self._take(event)
        elif isinstance(event, UpdatesLost):
            self._lost(event)
        elif isinstance(event, (CommunicationFailed, Nagging, StartUnknown)):
            self._tell(f"trouble in the group {self.name}: {event}")

    def _take(self, event: Delivered) -> None:
        assert event.numbers is not None
        updates = event.updates
        numbers = [(first, _first_sequence(number)) for first, number in event.numbers]
        if self._wishes.subjects:
            updates, numbers = self._selected(updates, numbers)
        is_bytes = self._wishes.kind == "bytes"
        take = self.intake.take_bytes if is_bytes else self.intake.take_objects
        take(updates, numbers, self._sender(event.sender), wall_ns())

    def _selected(
        self, updates: list[tuple[str, bytes]], numbers: list[tuple[int, int]]
    ) -> tuple[list[tuple[str, bytes]], list[tuple[int, int]]]:
        """Those that were asked for, and what describes them; each is counted by its own place."""
        kept: list[tuple[str, bytes]] = []
        places: list[tuple[int, int]] = []
        for (first, sequence), (stop, _) in pairwise([*numbers, (len(updates), 0)]):
            for index in range(first, stop):
                subject = updates[index][0]
                if self._patterns.matches_any(subject) or subject.startswith(_DESCRIPTIONS):
                    places.append((len(kept), sequence + index - first))
                    kept.append(updates[index])
        return kept, places

    def _sender(self, sender: SenderInfo) -> int:
        number = self._senders.get(sender)
        if number is None:
            if len(self._senders) >= _SENDER_COUNT_MAX:
                self._senders.clear()
            number = self._senders[sender] = sender_number(sender)
        return number

    def _lost(self, event: UpdatesLost) -> None:
        now_ns = wall_ns()
        count = (event.stop_seq - event.first_seq) & _U32
        gap = Gap(
            # A datagram may have had any number of updates.
            count=0,
            first=event.first_seq * DATAGRAM_SPAN,
            stop=(event.first_seq + count) * DATAGRAM_SPAN,
            reason=f"{count} datagrams were lost: {event.reason.value}",
            first_ns=now_ns,
            last_ns=now_ns,
        )
        number = self._sender(event.sender)
        self._queue.tell_gap(gap, node=number, sender=number)

    def _tell_links(self, connection: aio.AsyncGroupConnection) -> None:
        now = connection.statistics()
        receiver = f"{now.interface}:{now.sender_id}"
        for link in connection.take_links():
            number = self._sender(link.sender)
            self._links.write(link.message(receiver), sender=number, node=number)

    def _described(self, descriptor: str, payload: bytes, sender: int) -> None:
        try:
            type_ = self._types.learn(descriptor, payload, sender=sender)
        except (CodecError, SchemaError, LimitExceeded):
            self.intake.unreadable_count += 1
            return
        if isinstance(type_, StructType):
            self._queue.describe(type_)
            self.intake.described(type_.name)


def _first_sequence(datagram: int) -> int:
    """What the first update of a datagram is counted as."""
    # Numbers are told without the wrap of 32 bits; one from before the first is that of the wire.
    return (datagram if datagram >= 0 else datagram & _U32) * DATAGRAM_SPAN
