"""Recorded updates, published to a node again."""

from __future__ import annotations

import os
from collections import ChainMap, Counter
from collections.abc import Callable
from typing import Final, cast

from skerry.apps.recorder.gap_tracker import payload_of_key
from skerry.apps.recorder.node_source import NodeWishes
from skerry.apps.replayer.targets import sent_ns_of, unplayable
from skerry.client.core.events import BYTES_NAME
from skerry.client.core.states import Refusal, SpaceState, StateChanged
from skerry.client.io.endpoint_opener import EndpointOpener, default_endpoint
from skerry.client.io.session import Session
from skerry.codec.envelope import REMOVE, SNAPSHOT, Update
from skerry.codec.pieces import split
from skerry.codec.subjects import default_subject
from skerry.errors import (
    CodecError,
    Disconnected,
    WouldBlock,
)
from skerry.limits import RECORDER_SUBJECT_COUNT_MAX
from skerry.objects.base import codec_of
from skerry.objects.classes import class_of
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import Wire
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.schema.evolve import Change
from skerry.schema.model import NamedType, StructType
from skerry.schema.union import obstacle, unite_deep

__all__ = ["NodeTarget"]

_SEND_BYTES_MAX: Final = 4 * 1024 * 1024
"""What may wait for the node before the replay does."""


class NodeTarget:
    """Publishes updates to a node: bytes as they were, with the times at which they were sent."""

    def __init__(
        self, wishes: NodeWishes, *, tell: Callable[[str], None], is_looping: bool = False
    ) -> None:
        self._wishes = wishes
        self._tell = tell
        self._is_looping = is_looping
        """Whether there will be another round, before which this one's objects have to go."""
        self._session: Session | None = None
        self._wire = Wire()
        self._usable: dict[int, bool] = {}
        """Whether a recorded definition is compatible with the node's, by fingerprint."""
        self._united: dict[str, NamedType] = {}
        """The union of the compatible recorded definitions, by name, which is sent to the node."""
        self._subjects: dict[tuple[int, bytes], str] = {}
        self._there: dict[tuple[str, bytes], tuple[StructType, str]] = {}
        """Objects that were made here, for the next round."""
        self._failure: Exception | None = None
        self._is_away = False
        self.left_out: Counter[str] = Counter()

    async def open(self) -> None:
        """Connect, and ask for the types; ConnectFailed when there is no node."""
        wishes = self._wishes
        place = parse_endpoint(wishes.endpoint or default_endpoint(os.environ))
        session = self._session = await wishes.open(
            "skerry-replay", tells_origin=False, send_bytes_max=_SEND_BYTES_MAX
        )
        by_name = cast("dict[str, NamedType]", session.core.types.by_name)
        self._wire = EndpointOpener(place).wire(ChainMap(self._united, by_name))
        session.state_listeners.append(self._state_changed)
        session.refusal_listeners.append(self._refused)
        await session.request_types((), wishes.timeout_s)

    async def play(self, update: Update, type_: StructType | None) -> bool:
        """Publish an update; waits while the node does not keep up."""
        if self._failure is not None:
            raise self._failure
        reason = unplayable(update, type_)
        if reason is None:
            assert type_ is not None
            if self._is_usable(type_, update.fingerprint):
                return await self._play(update, type_)
            reason = f"the node knows another {type_.name}"
        self.left_out[reason] += 1
        return False

    async def _play(self, update: Update, type_: StructType) -> bool:
        try:
            header = self._header(update, type_)
        except CodecError:
            self.left_out[f"its bytes are no {type_.name}"] += 1
            return False
        await self._publish(header, update.payload, type_)
        if self._is_looping and type_.flags.cached:
            self._note(update, type_, header.subject)
        return True

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

    async def close(self, *, waits: bool = True) -> None:
        """Wait until the node has it all, and leave; Disconnected if it may not have it all."""
        if self._session is None:
            return
        try:
            if self._failure is None and not waits and self._is_away:
                error = Disconnected("the node is away, and may not have all that was played")
                error.hint = "play it again from the beginning when the node is back"
                raise error
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
                united = self._united.get(type_.name, type_)
                is_due = session.core.buffer.add(frame, united, type_.name)
                break
            except WouldBlock:
                session.write_output()
                await session.drain(None)
        if is_due:
            session.loop.call_soon(session.write_output)

    def _header(self, update: Update, type_: StructType) -> Header:
        header = Header(update.type_name)
        header.sent_time = seconds_of_ns(sent_ns_of(update))
        # What was there is the whole object: what it does not have is not to stay from before.
        is_whole = update.operation == SNAPSHOT
        header.attributes = update.present | (type_.mask if is_whole else 0)
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
        usable = self._usable.get(number)
        if usable is None:
            change = self._unite(type_)
            if change is not None:
                self._tell(f"updates of {type_.name} are left out: {change}")
            usable = self._usable[number] = change is None
        return usable

    def _unite(self, type_: StructType) -> Change | None:
        """Add a recorded definition to the union; returns why it cannot be replayed, if so."""
        assert self._session is not None
        served = self._session.core.types.by_name.get(type_.name)
        united = type_
        for known in (served, self._united.get(type_.name)):
            if known is None:
                continue
            found = unite_deep(known, united) if isinstance(known, StructType) else None
            if not isinstance(found, StructType):
                return found or obstacle(known, type_)
            united = found
        self._united[type_.name] = united
        return None

    def _note(self, update: Update, type_: StructType, subject: str) -> None:
        place = (update.type_name, update.key)
        if update.operation == REMOVE:
            self._there.pop(place, None)
        else:
            self._there[place] = (type_, subject)

    def _state_changed(self, change: StateChanged) -> None:
        self._is_away = change.state is not SpaceState.CONNECTED
        if change.state is SpaceState.DISCONNECTED:
            lost = change.unconfirmed_count
            missing = f", and {lost} updates may be lost with it" if lost else ""
            self._tell(f"the connection is lost ({change.reason}){missing}; trying to get it back")
        elif change.state is SpaceState.CONNECTED:
            self._tell("connected again")
        elif self._failure is None and change.reason != "the space is closed":
            self._failure = Disconnected(change.reason)

    def _refused(self, refusal: Refusal) -> None:
        self.left_out[f"not permitted: {refusal.what}"] += 1
