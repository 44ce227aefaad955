"""Where recorded updates are played to: a node, or a multicast group."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Protocol

from skerry.apps.recorder_group import GroupKind, GroupWishes
from skerry.apps.recorder_node import NodeWishes
from skerry.apps.recorder_witness import payload_of_key
from skerry.client.aio import open_session
from skerry.client.distributor import aio
from skerry.client.events import BYTES_NAME, bytes_of
from skerry.client.opening import Opener, default_endpoint
from skerry.client.session import Session
from skerry.client.states import Refusal, SpaceState, StateChanged
from skerry.codec.envelope import REMOVE, SNAPSHOT, Update
from skerry.codec.pieces import split
from skerry.codec.subjects import default_subject
from skerry.engine.carrier.types import describing
from skerry.errors import (
    CodecError,
    Disconnected,
    LimitExceeded,
    LocalProtocolError,
    SchemaMismatchError,
    WouldBlock,
)
from skerry.limits import RECORDER_SUBJECT_COUNT_MAX
from skerry.objects.base import codec_of
from skerry.objects.classes import class_of
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.header import Header, write_header
from skerry.protocol.access.wire import Wire
from skerry.protocol.distributor.config import Dialect
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.endpoints import parse_endpoint
from skerry.schema.internal import internal_types
from skerry.schema.model import StructType, dependencies

__all__ = ["GroupTarget", "NodeTarget", "ReplayTarget"]

_DESCRIBE_NS: Final = 1_000_000_000
"""How often a type that is in use is described to a group, for those who came later."""


class ReplayTarget(Protocol):
    """Takes updates again."""

    left_out: Counter[str]
    """Updates that could not be played, by reason."""

    async def open(self) -> None: ...
    async def play(self, update: Update, type_: StructType | None) -> None: ...
    async def begin_round(self) -> None: ...  # of a loop: what is there goes
    async def close(self) -> None: ...  # when this returns all has arrived, as far as one can know


class NodeTarget:
    """Publishes updates to a node: bytes as they were, with the times at which they were sent."""

    def __init__(self, wishes: NodeWishes, *, tell: Callable[[str], None]) -> None:
        self._wishes = wishes
        self._tell = tell
        self._session: Session | None = None
        self._wire = Wire()
        self._usable: dict[int, bool] = {}
        """Whether the node's definition is the recorded one, by fingerprint."""
        self._subjects: dict[tuple[int, bytes], str] = {}
        self._there: dict[tuple[str, bytes], tuple[StructType, str]] = {}
        """Objects that were made here, for the next round."""
        self._failure: Exception | None = None
        self.left_out: Counter[str] = Counter()

    async def open(self) -> None:
        """Connect, and ask for the types; ConnectFailed when there is no node."""
        wishes = self._wishes
        place = parse_endpoint(wishes.endpoint or default_endpoint(os.environ))
        session = self._session = await open_session(
            wishes.endpoint,
            name="skerry-replay",
            types=(),
            preload=(),
            secret=wishes.secret,
            timeout=wishes.timeout_s,
            wait=False,
            ca=wishes.ca,
            cert=wishes.cert,
            key=wishes.key,
            origin=False,
            send_bytes_max=4 * 1024 * 1024,
            queue_count_max=1,
        )
        self._wire = Opener(place).wire(session.core.types.registry)
        session.state_listeners.append(self._state_changed)
        session.refusal_listeners.append(self._refused)
        await session.request_types((), wishes.timeout_s)

    async def play(self, update: Update, type_: StructType | None) -> None:
        """Publish an update; waits while the node does not keep up."""
        if self._failure is not None:
            raise self._failure
        if type_ is None:
            self.left_out["its type is not described"] += 1
            return
        if type_.flags.internal and type_.name != BYTES_NAME:
            self.left_out["only a node says this"] += 1
            return
        if not self._is_usable(type_, update.fingerprint):
            self.left_out[f"the node knows another {type_.name}"] += 1
            return
        await self._publish(self._header(update, type_), update.payload, type_)
        if type_.flags.cached:
            self._note(update, type_)

    async def begin_round(self) -> None:
        """Remove what the round before has made."""
        there, self._there = self._there, {}
        for (name, key), (type_, subject) in there.items():
            plan = codec_of(class_of(type_)).plan
            header = Header(name)
            header.attributes = plan.key_mask
            header.remove_obj = 1
            header.subject = subject
            await self._publish(header, payload_of_key(plan, key), type_)

    async def close(self) -> None:
        """Wait until the node has it all, and leave."""
        if self._session is None:
            return
        try:
            if self._failure is None:
                await self._session.flush(self._wishes.timeout_s)
        finally:
            await self._session.close()

    async def _publish(self, header: Header, payload: bytes, type_: StructType) -> None:
        session = self._session
        assert session is not None
        frame = self._wire.frame(header, payload)
        while True:
            try:
                is_due = session.core.buffer.add(frame, type_, type_.name)
                break
            except WouldBlock:
                session.carry()
                await session.drain(None)
        if is_due:
            session.loop.call_soon(session.carry)

    def _header(self, update: Update, type_: StructType) -> Header:
        header = Header(update.type_name)
        sent_ns = update.sent_ns if update.sent_ns >= 0 else update.time_ns
        header.sent_time = seconds_of_ns(sent_ns)
        # What was there is the whole object: what it does not have is not to stay from before.
        is_whole = update.operation == SNAPSHOT
        header.attributes = type_.mask if is_whole else update.present
        header.remove_obj = 1 if update.operation == REMOVE else 0
        header.subject = self._chosen_subject(update, type_)
        return header

    def _chosen_subject(self, update: Update, type_: StructType) -> str:
        """The subject, unless it is the default one."""
        if type_.name == BYTES_NAME:
            return update.subject
        place = (update.fingerprint, update.key)
        own = self._subjects.get(place)
        if own is None:
            plan = codec_of(class_of(type_)).plan
            own = default_subject(plan, split(plan, update.payload, 0))
            if len(self._subjects) >= RECORDER_SUBJECT_COUNT_MAX:
                self._subjects.clear()
            self._subjects[place] = own
        return "" if update.subject == own else update.subject

    def _is_usable(self, type_: StructType, number: int) -> bool:
        known = self._usable.get(number)
        if known is None:
            assert self._session is not None
            try:
                self._session.core.types.registry.add(type_, origin="the recording")
                known = True
            except SchemaMismatchError as error:
                self._tell(f"updates of {type_.name} are left out: {error}")
                known = False
            self._usable[number] = known
        return known

    def _note(self, update: Update, type_: StructType) -> None:
        place = (update.type_name, update.key)
        if update.operation == REMOVE:
            self._there.pop(place, None)
        else:
            self._there[place] = (type_, self._chosen_subject(update, type_))

    def _state_changed(self, change: StateChanged) -> None:
        if change.state is SpaceState.DISCONNECTED:
            self._tell(f"the connection is lost ({change.reason}); trying to get it back")
        elif change.state is SpaceState.CONNECTED:
            self._tell("connected again")
        elif self._failure is None and change.reason != "the space is closed":
            self._failure = Disconnected(change.reason)

    def _refused(self, refusal: Refusal) -> None:
        self.left_out[f"not permitted: {refusal.what}"] += 1


class GroupTarget:
    """Publishes updates to a multicast group, as bytes or as objects."""

    def __init__(self, wishes: GroupWishes, *, tell: Callable[[str], None]) -> None:
        self._wishes = wishes
        self._kind: GroupKind = wishes.kind
        self._tell = tell
        self._connection: aio.Connection | None = None
        self._publisher: aio.Publisher | None = None
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
            hears_own=False,
        )
        self._publisher = self._connection.publisher(on_event=lambda _event: None)

    async def play(self, update: Update, type_: StructType | None) -> None:
        """Publish an update; waits for bandwidth."""
        if self._kind == "bytes":
            await self._play_bytes(update)
        elif type_ is None:
            self.left_out["its type is not described"] += 1
        elif type_.flags.internal:
            self.left_out["only a node says this"] += 1
        else:
            await self._describe(type_, update.fingerprint)
            header = Header(update.type_name)
            header.sent_time = seconds_of_ns(
                update.sent_ns if update.sent_ns >= 0 else update.time_ns
            )
            header.attributes = update.present
            header.remove_obj = 1 if update.operation == REMOVE else 0
            await self._publish(update.subject, write_header(header) + update.payload)

    async def begin_round(self) -> None:
        """Nothing is kept in a group."""

    async def close(self) -> None:
        """Send what is held back, stay a moment for those who lost something, and leave."""
        if self._publisher is not None:
            await self._publisher.drain()
            self._publisher.close()
        if self._connection is not None:
            await self._connection.close()

    async def _play_bytes(self, update: Update) -> None:
        if update.type_name != BYTES_NAME:
            self.left_out["an object, in a group of bytes"] += 1
            return
        try:
            data = bytes_of(update.payload)
        except CodecError:
            self.left_out["no bytes"] += 1
            return
        await self._publish(update.subject, data)

    async def _describe(self, type_: StructType, number: int) -> None:
        now_ns = monotonic_ns()
        described_ns = self._described.get(number)
        if described_ns is not None and now_ns - described_ns < _DESCRIBE_NS:
            return
        self._described[number] = now_ns
        for part in (*dependencies(type_), type_):
            if part.name not in internal_types():
                await self._publish(*describing(part))

    async def _publish(self, subject: str, data: bytes) -> None:
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
                return
            else:
                return
