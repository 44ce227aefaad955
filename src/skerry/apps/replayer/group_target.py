"""Plays recorded updates to a multicast group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from skerry.apps.recorder.group_source import GroupKind, GroupOptions
from skerry.apps.replayer.targets import send_time_ns, unplayable
from skerry.client.core.received_types import BYTES_NAME, bytes_of
from skerry.client.distributor import aio
from skerry.codec.envelope import REMOVE, Update
from skerry.engine.carriage.distributor.types import describing
from skerry.errors import CodecError, LimitExceeded, LocalProtocolError, WouldBlock
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.header import Header, write_header
from skerry.protocol.distributor.events import TooLargeForJava
from skerry.protocol.machine import MachineEvent
from skerry.runtime.clock import monotonic_ns
from skerry.schema.internal import internal_types
from skerry.schema.model import StructType, dependencies

_DESCRIBE_NS: Final = 1_000_000_000
"""Interval at which a used type is described again, for members that joined later."""


class GroupTarget:
    """Publishes updates to a multicast group, as bytes or as objects."""

    def __init__(self, options: GroupOptions, *, report: Callable[[str], None]) -> None:
        self._options = options
        self._kind: GroupKind = options.kind
        self._report = report
        self._connection: aio.AsyncGroupConnection | None = None
        self._publisher: aio.AsyncPublisher | None = None
        self._described: dict[int, int] = {}
        """When each type was last described, by fingerprint."""
        self.left_out: Counter[str] = Counter()

    async def open(self) -> None:
        """Join the group; ConnectFailed if that fails."""
        self._connection = await self._options.open(
            application="skerry-replay", segment_bytes=self._options.segment_bytes, hears_own=False
        )
        self._publisher = self._connection.publisher(on_event=self._note)

    def _note(self, event: MachineEvent) -> None:
        if isinstance(event, TooLargeForJava):
            self._report(str(event))

    async def play(self, update: Update, type_: StructType | None) -> bool:
        """Publish an update; blocks while the bandwidth limit is reached."""
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
        header.sent_time = seconds_of_ns(send_time_ns(update))
        header.attributes = update.present
        header.remove_obj = 1 if update.operation == REMOVE else 0
        return await self._publish(update.subject, write_header(header) + update.payload)

    async def begin_round(self) -> None:
        """Does nothing: a group has no cached objects."""

    async def close(self, *, waits: bool = True) -> None:
        """Send all pending updates, stay for a moment to answer repair requests, and leave."""
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
            self.left_out["its payload is not bytes"] += 1
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
                    self._report(f"{subject} cannot be published in the group: {error}")
                self.left_out["the group cannot transmit it"] += 1
                return False
            else:
                return True
