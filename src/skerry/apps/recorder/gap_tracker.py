"""What a recorder knows of a node, however it hears of it: an intake, and what was missed.

What the node tells again after the recorder was away is compared with what was there before: what
is gone is written as removed, and a gap says how much was missed.
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

__all__ = ["GapTracker", "payload_of_key"]

_AWAY: Final = "the recorder was not running"
_LOST: Final = "the connection to the node was lost"
_ANOTHER: Final = "the node was started anew"


class GapTracker:
    """Writes what a node tells. `is_whole` says whether it tells everything."""

    def __init__(self, queue: RowQueue, *, space: str, is_whole: bool) -> None:
        self._queue = queue
        self._space = space
        self._is_whole = is_whole
        self._types = RecordedTypes()
        self.intake = NodeRows(queue, space=space)
        self.intake.types = self._types.known
        self.intake.on_service = self.served
        self.intake.on_resumed = self._resumed
        self._lost: tuple[int, int, int] = (0, 0, 0)
        """Node, position and time of the last update before it was lost."""
        self._reason = _LOST
        self.has_former = False
        """Whether what was there before is still to be compared with what is told."""
        for type_ in self._types.internal():
            queue.describe(type_)

    def served(self, header: Header, payload: bytes) -> None:
        """What the node says to us alone: descriptions are learned."""
        # One with a position is what some client says. The node describes in its own words what it
        # is about to send, and that is what counts.
        if header.type_name in DESCRIPTOR_TYPES and header.position < 0:
            try:
                type_ = self._types.learn(header.type_name, payload)
            except (CodecError, SchemaError, LimitExceeded):
                return  # Whoever holds the connection ends it for that.
            if isinstance(type_, StructType):
                self._queue.describe(type_)

    def go_on(self, ending: ResumePoint) -> None:
        """The recording has rows of another time: what came since then is missing."""
        self._lost = ending.node, ending.position, ending.time_ns
        self._reason = _AWAY
        self.intake.position = ending.position
        self.intake.is_resuming = True

    def lost(self) -> None:
        """The node cannot be heard any more, for now."""
        intake = self.intake
        if not intake.is_resuming:
            # If it said nothing yet, then at least it told what there was; or else our own clock
            # has to do, since a gap at the beginning of all time would be believed.
            time_ns = max(int(intake.time_ns), int(intake.told_ns)) or wall_ns()
            self._lost = int(intake.node), int(intake.position), time_ns
            self._reason = _LOST
        intake.lost()
        self.has_former = True

    def told_all(self) -> None:
        """All is told: what was there before and is not now went meanwhile."""
        self.has_former = False
        for known in self._types.known.values():
            former, known.former = known.former, {}
            for key, subject in former.items():
                if key not in known.subjects:
                    self._write_removal(known, key, subject)

    def end(self) -> None:
        """The recording ends, perhaps while the node is away."""
        if self.intake.is_resuming:
            self.intake.is_resuming = False
            node, position, time_ns = self._lost
            reason = f"{self._reason}, until the recording ended"
            gap = Gap(count=0, first=position + 1, reason=reason, first_ns=time_ns, last_ns=time_ns)
            self._queue.tell_gap(gap, node=node)

    def _resumed(self, node: int, position: int, time_ns: int) -> None:
        """The first update after a lost connection: what is between is missing."""
        before, last, last_ns = self._lost
        reason = self._reason
        if position == last + 1 and node == before:
            return
        if not position or not last:
            gap = Gap(count=0, reason=reason, first_ns=last_ns, last_ns=time_ns)
        elif node != before or position <= last:
            anew = f"{reason}: {_ANOTHER}"
            gap = Gap(count=0, first=last + 1, reason=anew, first_ns=last_ns, last_ns=time_ns)
        else:
            gap = Gap(
                count=position - last - 1,
                first=last + 1,
                stop=position,
                reason=reason if self._is_whole else f"{reason}; the count is of all updates",
                first_ns=last_ns,
                last_ns=time_ns,
            )
        self._queue.tell_gap(gap, node=before)

    def _write_removal(self, known: RecordedType, key: bytes, subject: str) -> None:
        # By the clock of the node, which orders all of it.
        now_ns = max(self.intake.told_ns, self.intake.time_ns)
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
            # It has no place of its own in the node's count, only a time.
            0,
            0,
            now_ns,
            now_ns,
            known.source,
        )


def payload_of_key(plan: StructPlan, key: bytes) -> bytes:
    """The object that has nothing but this key."""
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
