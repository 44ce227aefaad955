"""Plays recorded updates to a node."""

from __future__ import annotations

import os
from collections import ChainMap, Counter
from collections.abc import Callable
from typing import Final, cast

from skerry.apps.recorder.gap_tracker import payload_of_key
from skerry.apps.recorder.node_source import NodeOptions
from skerry.apps.replayer.targets import send_time_ns, unplayable
from skerry.client.core.received_types import BYTES_NAME
from skerry.client.core.states import Refusal, SpaceState, StateChanged
from skerry.client.io.endpoint_opener import EndpointOpener, default_endpoint
from skerry.client.io.session import Session
from skerry.codec.envelope import REMOVE, SNAPSHOT, Update
from skerry.codec.pieces import split
from skerry.codec.subjects import default_subject
from skerry.errors import CodecError, Disconnected, WouldBlock
from skerry.limits import RECORDER_SUBJECT_COUNT_MAX
from skerry.objects.base import codec_of
from skerry.objects.classes import class_of
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import Wire
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.schema.changes import Change
from skerry.schema.model import NamedType, StructType
from skerry.schema.union import obstacle, unite_deep

_SEND_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes that may wait to be sent before the playback blocks."""


class NodeTarget:
    """Publishes updates to a node, with unchanged payloads and their original send times."""

    def __init__(
        self, options: NodeOptions, *, report: Callable[[str], None], is_looping: bool = False
    ) -> None:
        self._options = options
        self._report = report
        self._is_looping = is_looping
        """Whether objects have to be removed before the next round."""
        self._session: Session | None = None
        self._wire = Wire()
        self._usable: dict[int, bool] = {}
        """Whether a recorded definition is compatible with the node's, by fingerprint."""
        self._united: dict[str, NamedType] = {}
        """The union of the compatible recorded definitions, by name, which is sent to the node."""
        self._subjects: dict[tuple[int, bytes], str] = {}
        self._there: dict[tuple[str, bytes], tuple[StructType, str]] = {}
        """Type and subject of the objects that this round created, by type name and key."""
        self._failure: Exception | None = None
        self._is_away = False
        self.left_out: Counter[str] = Counter()

    async def open(self) -> None:
        """Connect and request the types; ConnectFailed if there is no node."""
        options = self._options
        endpoint = parse_endpoint(options.endpoint or default_endpoint(os.environ))
        session = self._session = await options.open(
            "skerry-replay", with_origin=False, send_bytes_max=_SEND_BYTES_MAX
        )
        by_name = cast("dict[str, NamedType]", session.core.types.by_name)
        self._wire = EndpointOpener(endpoint).wire(ChainMap(self._united, by_name))
        session.state_listeners.append(self._state_changed)
        session.refusal_listeners.append(self._refused)
        await session.request_types((), options.timeout_s)

    async def play(self, update: Update, type_: StructType | None) -> bool:
        """Publish an update; blocks while the node is slow."""
        if self._failure is not None:
            raise self._failure
        reason = unplayable(update, type_)
        if reason is None:
            assert type_ is not None
            if self._is_usable(type_, update.fingerprint):
                return await self._play(update, type_)
            reason = f"the node has a conflicting definition of {type_.name}"
        self.left_out[reason] += 1
        return False

    async def _play(self, update: Update, type_: StructType) -> bool:
        try:
            header = self._header(update, type_)
        except CodecError:
            self.left_out[f"its payload does not decode as {type_.name}"] += 1
            return False
        await self._publish(header, update.payload, type_)
        if self._is_looping and type_.flags.cached:
            self._note(update, type_, header.subject)
        return True

    async def begin_round(self) -> None:
        """Remove the objects of the previous round."""
        there, self._there = self._there, {}
        for (name, key), (type_, subject) in there.items():
            plan = codec_of(class_of(type_)).plan
            header = Header(name)
            header.attributes = plan.key_mask
            header.remove_obj = 1
            header.subject = subject
            await self._publish(header, payload_of_key(plan, key), type_)

    async def close(self, *, waits: bool = True) -> None:
        """Flush and disconnect; Disconnected if the node may not have received all updates."""
        if self._session is None:
            return
        try:
            if self._failure is None and not waits and self._is_away:
                error = Disconnected("the node is not connected and may lack some played updates")
                error.hint = "play the recording again from the beginning when the node is back"
                raise error
            if self._failure is None:
                await self._session.flush(self._options.timeout_s)
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
        header.sent_time = seconds_of_ns(send_time_ns(update))
        # A snapshot row is the whole object: fields that it lacks must become unset.
        is_whole = update.operation == SNAPSHOT
        header.attributes = update.present | (type_.mask if is_whole else 0)
        header.remove_obj = 1 if update.operation == REMOVE else 0
        header.subject = self._chosen_subject(update, type_)
        return header

    def _chosen_subject(self, update: Update, type_: StructType) -> str:
        """The subject of the update; empty if it is the default subject."""
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
                self._report(f"updates of {type_.name} are left out: {change}")
            usable = self._usable[number] = change is None
        return usable

    def _unite(self, type_: StructType) -> Change | None:
        """Add a recorded definition to the union; returns the conflict if that fails."""
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
            missing = f"; {lost} updates may be lost" if lost else ""
            self._report(f"connection lost ({change.reason}){missing}; reconnecting")
        elif change.state is SpaceState.CONNECTED:
            self._report("reconnected")
        elif self._failure is None and change.reason != "the space is closed":
            self._failure = Disconnected(change.reason)

    def _refused(self, refusal: Refusal) -> None:
        self.left_out[f"not permitted: {refusal.what}"] += 1
