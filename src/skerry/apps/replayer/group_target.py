"""Recorded updates, published in a multicast group again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from skerry.apps.recorder.group_source import GroupKind, GroupWishes
from skerry.apps.replayer.targets import sent_ns_of, unplayable
from skerry.client.core.events import BYTES_NAME, bytes_of
from skerry.client.distributor import aio
from skerry.codec.envelope import REMOVE, Update
from skerry.engine.carriage.distributor.types import describing
from skerry.errors import (
    CodecError,
    LimitExceeded,
    LocalProtocolError,
    WouldBlock,
)
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.header import Header, write_header
from skerry.protocol.distributor.config import Dialect
from skerry.protocol.distributor.events import TooLargeForJava
from skerry.protocol.machine import MachineEvent
from skerry.runtime.clock import monotonic_ns
from skerry.schema.internal import internal_types
from skerry.schema.model import StructType, dependencies

__all__ = ["GroupTarget"]

_DESCRIBE_NS: Final = 1_000_000_000
"""How often a type that is in use is described to a group, for those who came later."""


class GroupTarget:
    """Publishes updates to a multicast group, as bytes or as objects."""

    def __init__(self, wishes: GroupWishes, *, tell: Callable[[str], None]) -> None:
        self._wishes = wishes
        self._kind: GroupKind = wishes.kind
        self._tell = tell
        self._connection: aio.AsyncGroupConnection | None = None
        self._publisher: aio.AsyncPublisher | None = None
        self._described: dict[int, int] = {}
        """When each type was described last, by fingerprint."""
        self.left_out: Counter[str] = Counter()

    async def open(self) -> None:
        """Join the group; ConnectFailed when that cannot be done."""
        wishes = self._wishes
        self._connection = await aio.open(
            wishes.group,
            interface=wishes.interface,
            ttl=wishes.ttl,
            dialect=Dialect(wishes.dialect),
            key_file=wishes.key_file,
            application="skerry-replay",
            segment_bytes=wishes.segment_bytes,
            hears_own=False,
        )
        self._publisher = self._connection.publisher(on_event=self._note)

    def _note(self, event: MachineEvent) -> None:
        if isinstance(event, TooLargeForJava):
            self._tell(str(event))

    async def play(self, update: Update, type_: StructType | None) -> bool:
        """Publish an update; waits for bandwidth."""
        if self._kind == "bytes":
            return await self._play_bytes(update)
        reason = unplayable(update, type_)
        if reason is None and type_ is not None and type_.flags.internal:
            reason = "bytes, in a group of objects"
        if reason is not None:
            self.left_out[reason] += 1
            return False
        assert type_ is not None
        await self._describe(type_, update.fingerprint)
        header = Header(update.type_name)
        header.sent_time = seconds_of_ns(sent_ns_of(update))
        header.attributes = update.present
        header.remove_obj = 1 if update.operation == REMOVE else 0
        return await self._publish(update.subject, write_header(header) + update.payload)

    async def begin_round(self) -> None:
        """Nothing is kept in a group."""

    async def close(self, *, waits: bool = True) -> None:
        """Send what is held back, stay a moment for those who lost something, and leave."""
        if self._publisher is not None:
            if waits:
                await self._publisher.drain()
            self._publisher.close()
        if self._connection is not None:
            await self._connection.close()

    async def _play_bytes(self, update: Update) -> bool:
        if update.type_name != BYTES_NAME:
            self.left_out["an object, in a group of bytes"] += 1
            return False
        try:
            data = bytes_of(update.payload)
        except CodecError:
            self.left_out["no bytes"] += 1
            return False
        return await self._publish(update.subject, data)

    async def _describe(self, type_: StructType, number: int) -> None:
        now_ns = monotonic_ns()
        described_ns = self._described.get(number)
        if described_ns is not None and now_ns - described_ns < _DESCRIBE_NS:
            return
        self._described[number] = now_ns
        for part in (*dependencies(type_), type_):
            if part.name not in internal_types():
                await self._publish(*describing(part))

    async def _publish(self, subject: str, data: bytes) -> bool:
        publisher: Any = self._publisher
        while True:
            try:
                publisher.publish(subject, data)
            except WouldBlock:
                await publisher.drain()
            except (LocalProtocolError, LimitExceeded) as error:
                if not self.left_out:
                    self._tell(f"{subject} cannot be published in the group: {error}")
                self.left_out["the group does not carry it"] += 1
                return False
            else:
                return True
