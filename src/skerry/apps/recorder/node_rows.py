"""What a node sends to a recorder, as rows: the loop that runs for each recorded update.

It replaces the stores and events of a space (`client.core.update_intake`). It reads the header, the
key and the subject of each object; the payload goes into the row unchanged. It keeps one entry for
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

__all__ = ["NO_KEY", "RECORDER_OBJECT_COUNT_MAX", "NodeRows", "RecordedType", "sent_ns_of"]

RECORDER_OBJECT_COUNT_MAX: Final = CACHE_OBJECT_COUNT_MAX
"""Objects that a recorder remembers to distinguish a create from an update: as many as the node can
have. Beyond it an object that is not remembered is recorded as updated."""

NO_KEY: Final = b"\x80"
"""The canonical key of an object of a type without key fields."""


class RecordedType:
    """A type as the recorder needs it, and which of its objects are there."""

    def __init__(
        self, plan: StructPlan, *, fingerprint: int, is_cached: bool, source: str, is_service: bool
    ) -> None:
        self.name: str = plan.name
        self.plan: StructPlan = plan
        self.fingerprint: i64 = fingerprint
        self.is_cached: bool = is_cached
        self.source: str = source
        self.is_service: bool = is_service
        """Whether its objects are said to us alone: the space looks at them."""
        self.has_key: bool = bool(plan.keys)
        self.own_subject: str = "/" + text_level(plan.name)
        """The default subject of an object without a key."""
        self.subjects: dict[bytes, str] = {}
        """The objects that are there, by key; of messages some that came before. With their
        default subjects, or nothing where those were not needed yet."""
        self.former: dict[bytes, str] = {}
        """What was there on the connection before, until all is told anew."""


class NodeRows:
    """Rows of all that a node tells. `queue` gives the rows to write to, and takes full ones."""

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
        """Where the next row goes; the queue changes it."""
        self.row_count_max: i64 = queue.row_count_max
        self.byte_count_max: i64 = queue.byte_count_max
        self.on_service: Any = None
        """Called with header and payload of what the node says to us alone."""
        self.on_resumed: Any = None
        """Called with node, position (0 if the node does not count) and time of the first update
        after a lost connection."""
        self.is_resuming: bool = False
        """Whether that is awaited."""
        self.node: i64 = 0
        """The node of the last update."""
        self.position: i64 = 0
        """The highest position there was."""
        self.time_ns: i64 = 0
        """The time of the last update."""
        self.told_ns: i64 = 0
        """When the node told last what there is."""
        self.object_count: i64 = 0
        """Objects that are there, as far as they are remembered."""
        self.taken_count: i64 = 0
        self.unreadable_count: i64 = 0
        """Updates without a key: their bytes are not what their type says."""
        self._queue: Any = queue
        self._space: str = space
        self._object_count_max: i64 = object_count_max
        self._subject_count_max: i64 = subject_count_max
        self._pieces: Pieces = Pieces(b"")
        """For one object after the other."""

    def take_frames(self, cutter: FrameCutter) -> bool:
        """Take frames as long as they are of objects; if not all are, the cutter is at another."""
        while cutter.step():
            body = cutter.body()
            header, size = read_header(body, 0)
            if not self.take_one(header, body[size:]):
                return False
        return True

    def take(self, arrived: list[tuple[Header, bytes]], start: int) -> int:
        """The same for what was cut already; gives the place of what is not taken."""
        index = start
        while index < len(arrived):
            header, payload = arrived[index]
            if not self.take_one(header, payload):
                return index
            index += 1
        return index

    def take_one(self, header: Header, payload: bytes) -> bool:
        """Write the row of an object; false for what the space has to look at, too."""
        known = self.types.get(header.type_name)
        if known is None or header.attributes < 0:
            return False
        if known.is_service:
            self.on_service(header, payload)
            if header.position < 0:
                return False
            # What a client said to all, such as the description of a type.
        is_told: bool = header.from_cache >= 0
        sent_ns: i64 = sent_ns_of(header.sent_time)
        time_ns: i64 = _time_ns(header.server_sent_time)
        if is_told and sent_ns >= 0 and (sent_ns < time_ns or time_ns <= 0):
            # Of what was there the header only tells when it was sent last, by the clock of its
            # publisher. If that is ahead, the row would come after updates that are still to come.
            time_ns = sent_ns
        position: i64 = header.position
        if position < 0:
            # Hosts that do not count are counted for: the order is all that is known.
            position = 0 if is_told else self.position + 1
        if is_told:
            self.told_ns = _time_ns(header.server_sent_time)
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
        if is_told or header.position < 0:
            # Two recorders of a host that does not count would give one number to two updates.
            sequence = 0
        elif header.sender == NODE_CLIENT or sequence < 0:
            # What the node itself says is counted by its position alone.
            sequence = position
        self._write(known, header, payload, is_told, sequence, position, sent_ns, time_ns)
        return not known.is_service

    def lost(self) -> None:
        """The connection is lost: what was there is told anew on the next one."""
        for known in self.types.values():
            if known.is_cached:
                # Who is lost twice in a row still has to account for what was there first.
                former = known.former
                former.update(known.subjects)
                known.former = former
                known.subjects = {}
        self.object_count = 0
        self.is_resuming = True

    def _write(
        self,
        known: RecordedType,
        header: Header,
        payload: bytes,
        is_told: bool,
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
        operation: i64 = self._operation(known, header, key, is_told)
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
        self.taken_count += 1
        if rows.count >= self.row_count_max or rows.byte_count >= self.byte_count_max:
            self._queue.hand_over()

    def _operation(self, known: RecordedType, header: Header, key: bytes, is_told: bool) -> i64:
        if not known.is_cached:
            return CREATE
        if header.remove_obj == 1:
            return REMOVE
        if not key:
            # Nobody can say which object it is.
            return SNAPSHOT if is_told else UPDATE
        is_there: bool = key in known.subjects
        if not is_there and self.object_count < self._object_count_max:
            known.subjects[key] = ""
            self.object_count += 1
        elif not is_there:
            # Past the bound nobody knows; then it is not told as new, which would end a life.
            return SNAPSHOT if is_told else UPDATE
        if is_told:
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
    """A time that a header tells; -1 if it tells none, or one that is none."""
    # Not the other way round: what is no number is not between them either.
    if -TIME_S_MAX <= seconds <= TIME_S_MAX:
        return ns_of_seconds(seconds)
    return -1


def _time_ns(seconds: float) -> i64:
    """The time that a node put into a header; 0 if it is out of range."""
    return ns_of_seconds(seconds) if -TIME_S_MAX <= seconds <= TIME_S_MAX else 0
