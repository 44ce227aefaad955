"""Rows of updates from a node: the loop that runs for each recorded update.

It replaces the stores and events of a space (`client.core.update_intake`). It reads the header, the
key and the subject of each object; the payload is copied into the row. It keeps one entry for
each existing object, since the wire does not distinguish a create from an update. This module is
compiled.
"""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from skerry.codec.envelope import CREATE, REMOVE, SNAPSHOT, UPDATE
from skerry.codec.frame import FrameCutter
from skerry.codec.pieces import Pieces, canonical_key, split_again
from skerry.codec.plans import StructPlan
from skerry.codec.subjects import default_subject, text_level
from skerry.engine.dispatch.client_queue import TIME_S_MAX
from skerry.errors import CodecError
from skerry.ids import NODE_CLIENT
from skerry.limits import CACHE_OBJECT_COUNT_MAX, RECORDER_SUBJECT_COUNT_MAX
from skerry.objects.times import ns_of_seconds
from skerry.protocol.access.header import Header, read_header
from skerry.recording.rows import Rows

RECORDER_OBJECT_COUNT_MAX: Final = CACHE_OBJECT_COUNT_MAX
"""Objects that a recorder remembers to distinguish a create from an update: as many as the node can
have. Beyond it an object that is not remembered is recorded as updated."""

NO_KEY: Final = b"\x80"
"""The canonical key of an object of a type without key fields."""


class RecordedType:
    """A type, and the keys of its existing objects."""

    def __init__(
        self, plan: StructPlan, *, fingerprint: int, is_cached: bool, source: str, is_service: bool
    ) -> None:
        self.name: str = plan.name
        self.plan: StructPlan = plan
        self.fingerprint: i64 = fingerprint
        self.is_cached: bool = is_cached
        self.source: str = source
        self.is_service: bool = is_service
        """Whether its objects are protocol messages to this client, which the space processes."""
        self.has_key: bool = bool(plan.keys)
        self.own_subject: str = "/" + text_level(plan.name)
        """The default subject of an object without a key."""
        self.subjects: dict[bytes, str] = {}
        """Default subjects of existing objects by key, empty if not needed yet; for message types,
        a bounded cache of default subjects."""
        self.previous: dict[bytes, str] = {}
        """Objects of the previous connection, until the new snapshot is complete."""


class NodeRows:
    """Writes the rows of all updates of a node into `queue`."""

    def __init__(
        self,
        queue: Any,
        *,
        space: str,
        object_count_max: int = RECORDER_OBJECT_COUNT_MAX,
        subject_count_max: int = RECORDER_SUBJECT_COUNT_MAX,
    ) -> None:
        self.types: dict[str, RecordedType] = {}
        self.rows: Rows = queue.rows
        """Where the next row is appended; the queue takes its content."""
        self.row_count_max: i64 = queue.row_count_max
        self.byte_count_max: i64 = queue.byte_count_max
        self.on_service: Any = None
        """Called with header and payload of protocol messages to this client."""
        self.on_resumed: Any = None
        """Called with node, position (0 if the node does not count) and time of the first update
        after a lost connection."""
        self.is_resuming: bool = False
        """Whether the first update after a lost connection is awaited."""
        self.node: i64 = 0
        self.position: i64 = 0
        """The highest position received."""
        self.time_ns: i64 = 0
        self.snapshot_ns: i64 = 0
        """Time at which the node sent the last cached object."""
        self.object_count: i64 = 0
        """Existing objects in `subjects` of all cached types."""
        self.received_count: i64 = 0
        self.unreadable_count: i64 = 0
        """Updates without a key, because their payload does not decode as their type."""
        self._queue: Any = queue
        self._space: str = space
        self._object_count_max: i64 = object_count_max
        self._subject_count_max: i64 = subject_count_max
        self._pieces: Pieces = Pieces(b"")
        """Reused for every object."""

    def take_frames(self, cutter: FrameCutter) -> bool:
        """Write frames until one is not an object; returns False with the cutter at that frame."""
        while cutter.step():
            body = cutter.body()
            header, size = read_header(body, 0)
            if not self.take_one(header, body[size:]):
                return False
        return True

    def take(self, arrived: list[tuple[Header, bytes]], start: int) -> int:
        """Write messages from `start` on; returns the index of the first that is not an object."""
        index = start
        while index < len(arrived):
            header, payload = arrived[index]
            if not self.take_one(header, payload):
                return index
            index += 1
        return index

    def take_one(self, header: Header, payload: bytes) -> bool:
        """Write the row of an object; False if the space has to process the message, too."""
        known = self.types.get(header.type_name)
        if known is None or header.attributes < 0:
            return False
        if known.is_service:
            self.on_service(header, payload)
            if header.position < 0:
                return False
            # A client published it, such as the description of a type: it is also recorded.
        is_snapshot: bool = header.from_cache >= 0
        sent_ns: i64 = sent_ns_of(header.sent_time)
        time_ns: i64 = _time_ns(header.server_sent_time)
        if is_snapshot and sent_ns >= 0 and (sent_ns < time_ns or time_ns <= 0):
            # The header of a cached object only has its send time, by the clock of its publisher.
            # If that clock is ahead, the row would be ordered after updates that follow it.
            time_ns = sent_ns
        position: i64 = header.position
        if position < 0:
            # A foreign host sends no positions: updates are numbered in order of arrival.
            position = 0 if is_snapshot else self.position + 1
        if is_snapshot:
            self.snapshot_ns = _time_ns(header.server_sent_time)
            if position > self.position and not self.is_resuming:
                self.position = position
        else:
            if self.is_resuming:
                self.is_resuming = False
                counted: i64 = position if header.position >= 0 else 0
                self.on_resumed(int(header.node), int(counted), int(time_ns))
            self.position = position
            self.time_ns = time_ns
        self.node = header.node
        sequence: i64 = header.sequence
        if is_snapshot or header.position < 0:
            # Two recorders of a foreign host would give the same sequence to different updates.
            sequence = 0
        elif header.sender == NODE_CLIENT or sequence < 0:
            # Updates of the node itself have a position only.
            sequence = position
        self._write(known, header, payload, is_snapshot, sequence, position, sent_ns, time_ns)
        return not known.is_service

    def connection_lost(self) -> None:
        """Keep the existing objects as previous ones: the node sends a new snapshot after this."""
        for known in self.types.values():
            if known.is_cached:
                # Kept if the connection is lost twice in a row: they are still to be compared.
                previous = known.previous
                previous.update(known.subjects)
                known.previous = previous
                known.subjects = {}
        self.object_count = 0
        self.is_resuming = True

    def _write(
        self,
        known: RecordedType,
        header: Header,
        payload: bytes,
        is_snapshot: bool,
        sequence: i64,
        position: i64,
        sent_ns: i64,
        time_ns: i64,
    ) -> None:
        key = NO_KEY
        fingerprint: i64 = known.fingerprint
        if known.has_key:
            try:
                split_again(self._pieces, known.plan, payload, 0)
                key = canonical_key(known.plan, self._pieces)
            except CodecError:
                self.unreadable_count += 1
                key = b""
                fingerprint = 0
        operation: i64 = self._operation(known, header, key, is_snapshot)
        subject = header.subject or self._default_subject(known, key, operation)
        if operation == REMOVE and known.is_cached and known.subjects.pop(key, None) is not None:
            self.object_count -= 1
        rows = self.rows
        rows.append(
            known.name,
            subject,
            operation,
            header.attributes,
            key,
            payload,
            self._space,
            fingerprint,
            max(header.sender, 0),
            header.node,
            sequence,
            position,
            sent_ns,
            time_ns,
            known.source,
        )
        self.received_count += 1
        if rows.count >= self.row_count_max or rows.byte_count >= self.byte_count_max:
            self._queue.hand_over()

    def _operation(self, known: RecordedType, header: Header, key: bytes, is_snapshot: bool) -> i64:
        if not known.is_cached:
            return CREATE
        if header.remove_obj == 1:
            return REMOVE
        if not key:
            # Without a key the object is unknown.
            return SNAPSHOT if is_snapshot else UPDATE
        is_there: bool = key in known.subjects
        if not is_there and self.object_count < self._object_count_max:
            known.subjects[key] = ""
            self.object_count += 1
        elif not is_there:
            # Above the bound it is unknown whether the object existed. It is not recorded as
            # created, since that would end the life of an existing object in the tables.
            return SNAPSHOT if is_snapshot else UPDATE
        if is_snapshot:
            return SNAPSHOT
        return UPDATE if is_there else CREATE

    def _default_subject(self, known: RecordedType, key: bytes, operation: i64) -> str:
        subjects = known.subjects
        found = subjects.get(key)
        if found:
            return found
        if not key:
            return known.own_subject
        subject = known.own_subject
        if known.has_key:
            subject = default_subject(known.plan, self._pieces)
        if not known.is_cached:
            if len(subjects) >= self._subject_count_max:
                subjects.clear()
            subjects[key] = subject
        elif found is not None:
            subjects[key] = subject
        return subject


def sent_ns_of(seconds: float) -> i64:
    """The time of a header in nanoseconds; -1 if it is missing or not a valid time."""
    # Written so that NaN is rejected, too.
    if -TIME_S_MAX <= seconds <= TIME_S_MAX:
        return ns_of_seconds(seconds)
    return -1


def _time_ns(seconds: float) -> i64:
    """The time that a node put into a header; 0 if it is out of range."""
    return ns_of_seconds(seconds) if -TIME_S_MAX <= seconds <= TIME_S_MAX else 0
