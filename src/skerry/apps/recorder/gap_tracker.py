"""Gaps and removals in the recording of a node: what happened while the recorder was not connected.

After a reconnect, the node sends all cached objects again. Objects that existed before and are
missing now are recorded as removed, and a gap row states how many updates were missed.
"""

from __future__ import annotations

from typing import Final

from skerry.apps.recorder.node_rows import NodeRows, RecordedType
from skerry.apps.recorder.recorded_types import RecordedTypes
from skerry.apps.recorder.row_queue import RowQueue
from skerry.codec.encoder import head
from skerry.codec.envelope import REMOVE
from skerry.codec.heads import skip
from skerry.codec.pieces import split
from skerry.codec.plans import StructPlan
from skerry.codec.subjects import default_subject
from skerry.errors import CodecError, LimitExceeded, SchemaError
from skerry.ids import NODE_CLIENT
from skerry.protocol.access.header import Header
from skerry.recording.columns import DESCRIPTOR_TYPES
from skerry.recording.gaps import Gap
from skerry.runtime.clock import wall_ns
from skerry.runtime.recordings.resume_point import ResumePoint
from skerry.schema.model import StructType

_AWAY: Final = "the recorder was not running"
_LOST: Final = "the connection to the node was lost"
_RESTARTED: Final = "the node was restarted"


class GapTracker:
    """Records a node and its gaps. `is_whole` states whether all its updates are recorded."""

    def __init__(self, queue: RowQueue, *, space: str, is_whole: bool) -> None:
        self._queue = queue
        self._space = space
        self._is_whole = is_whole
        self._types = RecordedTypes()
        self.intake = NodeRows(queue, space=space)
        self.intake.types = self._types.known
        self.intake.on_service = self.learn_type
        self.intake.on_resumed = self._resumed
        self._lost: tuple[int, int, int] = (0, 0, 0)
        """Node, position and time of the last update before the connection was lost."""
        self._reason = _LOST
        self.has_previous = False
        """Whether the objects of the previous connection are still to be compared."""
        for type_ in self._types.internal():
            queue.describe(type_)

    def learn_type(self, header: Header, payload: bytes) -> None:
        """Learn a type from a description that the node sent to this client."""
        # A description with a position was published by a client. The definition that the node
        # serves, and in which it sends objects, is the one without.
        if header.type_name in DESCRIPTOR_TYPES and header.position < 0:
            try:
                type_ = self._types.learn(header.type_name, payload)
            except (CodecError, SchemaError, LimitExceeded):
                return  # The connection is closed for that by its own check.
            if isinstance(type_, StructType):
                self._queue.describe(type_)

    def resume_after(self, ending: ResumePoint) -> None:
        """Continue an existing recording: a gap from its end to the first update is missing."""
        self._lost = ending.node, ending.position, ending.time_ns
        self._reason = _AWAY
        self.intake.position = ending.position
        self.intake.is_resuming = True

    def connection_lost(self) -> None:
        """The connection was lost: remember the last update, for the gap after the reconnect."""
        intake = self.intake
        if not intake.is_resuming:
            # Without an update, the time of the snapshot is used, or else the local clock: a gap
            # that starts at time 0 would be taken literally.
            time_ns = max(int(intake.time_ns), int(intake.snapshot_ns)) or wall_ns()
            self._lost = int(intake.node), int(intake.position), time_ns
            self._reason = _LOST
        intake.connection_lost()
        self.has_previous = True

    def finish_snapshot(self) -> None:
        """All cached objects were received: record previous objects that are missing as removed."""
        self.has_previous = False
        for known in self._types.known.values():
            previous, known.previous = known.previous, {}
            for key, subject in previous.items():
                if key not in known.subjects:
                    self._write_removal(known, key, subject)

    def end(self) -> None:
        """The recording ends: append a gap if the connection is lost."""
        if self.intake.is_resuming:
            self.intake.is_resuming = False
            node, position, time_ns = self._lost
            reason = f"{self._reason}, until the recording ended"
            gap = Gap(count=0, first=position + 1, reason=reason, first_ns=time_ns, last_ns=time_ns)
            self._queue.append_gap(gap, node=node)

    def _resumed(self, node: int, position: int, time_ns: int) -> None:
        """The first update after a lost connection: append a gap for the updates in between."""
        before, last, last_ns = self._lost
        reason = self._reason
        if position == last + 1 and node == before:
            return
        if not position or not last:
            gap = Gap(count=0, reason=reason, first_ns=last_ns, last_ns=time_ns)
        elif node != before or position <= last:
            restarted = f"{reason}: {_RESTARTED}"
            gap = Gap(count=0, first=last + 1, reason=restarted, first_ns=last_ns, last_ns=time_ns)
        else:
            gap = Gap(
                count=position - last - 1,
                first=last + 1,
                stop=position,
                reason=reason if self._is_whole else f"{reason}; the count is of all updates",
                first_ns=last_ns,
                last_ns=time_ns,
            )
        self._queue.append_gap(gap, node=before)

    def _write_removal(self, known: RecordedType, key: bytes, subject: str) -> None:
        # By the clock of the node, which orders all rows.
        now_ns = max(self.intake.snapshot_ns, self.intake.time_ns)
        payload = payload_of_key(known.plan, key)
        self._queue.rows.append(
            known.name,
            subject or default_subject(known.plan, split(known.plan, payload, 0)),
            REMOVE,
            known.plan.key_mask,
            key,
            payload,
            self._space,
            known.fingerprint,
            NODE_CLIENT,
            self.intake.node,
            # The removal has no sequence number and no position, only a time.
            0,
            0,
            now_ns,
            now_ns,
            known.source,
        )


def payload_of_key(plan: StructPlan, key: bytes) -> bytes:
    """The payload of an object that has only this key."""
    pos = 1 if len(plan.keys) < 24 else 2
    values = {}
    for field in plan.keys:
        stop = skip(plan, key, pos, len(key))
        values[int(field.tag)] = key[pos:stop]
        pos = stop
    fields = [field for field in plan.fields if int(field.tag) in values]
    return head(0xA0, len(fields)) + b"".join(
        field.head + values[int(field.tag)] for field in fields
    )
