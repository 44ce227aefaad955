"""A source of recordings: a multicast group, of bytes or of objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

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

GroupKind = Literal["bytes", "objects"]

_U32: Final = 0xFFFFFFFF
_SENDER_COUNT_MAX: Final = 4096
"""Senders whose numbers are cached. A restarted sender is a new one. A number that is no longer
cached is computed again."""
_BUFFER_BYTES: Final = 8 * 1024 * 1024
_DESCRIPTIONS: Final = tuple(f"/{name}/" for name in DESCRIPTOR_TYPES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """A multicast group, and the types and subjects to record."""

    group: str
    interface: str = ""
    ttl: int = 1
    dialect: str = "java"
    kind: GroupKind = "bytes"
    key_file: str = ""
    segment_bytes: int = 0
    """Size of the largest datagram to publish; 0 for the default."""
    types: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()

    async def open(self, **fields: Any) -> aio.AsyncGroupConnection:
        """Join the group; ConnectFailed if that fails."""
        return await aio.open(
            self.group,
            interface=self.interface,
            ttl=self.ttl,
            dialect=Dialect(self.dialect),
            key_file=self.key_file,
            **fields,
        )

    @property
    def has_links(self) -> bool:
        """Whether link quality is recorded: with all types, or if its type is named."""
        return LINK_TYPE in self.types or not (self.types or self.subjects)


class GroupSource:
    """Records the updates of a group. `report` receives messages about problems."""

    def __init__(
        self,
        queue: RowQueue,
        options: GroupOptions,
        *,
        space: str,
        report: Callable[[str], None],
        ending: ResumePoint | None = None,
    ) -> None:
        self._queue = queue
        self._ending = ending
        self._options = options
        self._report = report
        self._types = RecordedTypes(DISTRIBUTOR)
        self.intake = GroupRows(queue, self._types.known, space=space)
        self.intake.by_sender = self._types.by_sender
        self.intake.on_description = self._described
        self._patterns = PatternTree()
        for pattern in options.subjects:
            self._patterns.add(pattern, True)
        if options.types:
            self.intake.wanted = frozenset(options.types)
        self._links = LinkRows(queue, space=space, is_wanted=options.has_links)
        self._senders: dict[SenderInfo, int] = {}
        self._connection: aio.AsyncGroupConnection | None = None
        self.lost_count = 0
        """Always 0: a group has no connection to lose."""

    @property
    def name(self) -> str:
        return self._options.group

    @property
    def received_count(self) -> int:
        return int(self.intake.received_count)

    @property
    def is_complete(self) -> bool:
        """Whether the group is joined: it sends no snapshot."""
        return self._connection is not None

    async def start(self) -> None:
        """Join the group; ConnectFailed if that fails."""
        for type_ in self._types.internal():
            self._queue.describe(type_)
        self._connection = await self._options.open(
            application="skerry-record", socket_buffer_bytes=_BUFFER_BYTES
        )
        if self._ending is not None:
            reason = "the recorder was not running"
            gap = Gap(count=0, reason=reason, first_ns=self._ending.time_ns, last_ns=wall_ns())
            self._queue.append_gap(gap)
        self._connection.tap(self.on_event)

    async def stop(self) -> None:
        if self._connection is not None:
            self._write_links(self._connection)
            await self._connection.close(linger=False)
        self.intake.write_waiting()

    def check(self) -> None:
        """Write rows about link quality when they are due; never raises."""
        if self._connection is not None and self._links.is_due():
            self._write_links(self._connection)

    def on_event(self, event: MachineEvent) -> None:
        """Record the updates and losses of an event, and report problems."""
        if isinstance(event, Delivered):
            self._take(event)
        elif isinstance(event, UpdatesLost):
            self._lost(event)
        elif isinstance(event, (CommunicationFailed, Nagging, StartUnknown)):
            self._report(f"problem in the group {self.name}: {event}")

    def _take(self, event: Delivered) -> None:
        assert event.numbers is not None
        updates = event.updates
        numbers = [(first, _first_sequence(number)) for first, number in event.numbers]
        if self._options.subjects:
            updates, numbers = self._selected(updates, numbers)
        is_bytes = self._options.kind == "bytes"
        take = self.intake.take_bytes if is_bytes else self.intake.take_objects
        take(updates, numbers, self._sender(event.sender), wall_ns())

    def _selected(
        self, updates: list[tuple[str, bytes]], numbers: list[tuple[int, int]]
    ) -> tuple[list[tuple[str, bytes]], list[tuple[int, int]]]:
        """The updates that match the subjects, and type descriptions, with the sequence of each."""
        kept: list[tuple[str, bytes]] = []
        kept_numbers: list[tuple[int, int]] = []
        for (first, sequence), (stop, _) in pairwise([*numbers, (len(updates), 0)]):
            for index in range(first, stop):
                subject = updates[index][0]
                if self._patterns.matches_any(subject) or subject.startswith(_DESCRIPTIONS):
                    kept_numbers.append((len(kept), sequence + index - first))
                    kept.append(updates[index])
        return kept, kept_numbers

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
            # The number of updates in a lost datagram is unknown.
            count=0,
            first=event.first_seq * DATAGRAM_SPAN,
            stop=(event.first_seq + count) * DATAGRAM_SPAN,
            reason=f"{count} datagrams were lost: {event.reason.value}",
            first_ns=now_ns,
            last_ns=now_ns,
        )
        number = self._sender(event.sender)
        self._queue.append_gap(gap, node=number, sender=number)

    def _write_links(self, connection: aio.AsyncGroupConnection) -> None:
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
            self.intake.type_described(type_.name)


def _first_sequence(datagram: int) -> int:
    # Datagram numbers do not wrap at 32 bits; one before the first is negative and is mapped back.
    return (datagram if datagram >= 0 else datagram & _U32) * DATAGRAM_SPAN
