"""Gap rows: how many updates are missing, in which range, when, and why."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from skerry import cbor
from skerry.codec.envelope import GAP, INTERNAL, Update
from skerry.errors import RecordingError
from skerry.recording.rows import Columns

RECORDING_GAP_COUNT_MAX: Final = 1000
"""Gaps that wait to be written, each of a node or a sender. A group may have any number of senders.
Beyond it the others become one gap."""

_TAGS: Final = {"count": 1, "first": 2, "stop": 3, "reason": 4, "first_ns": 5, "last_ns": 6}
"""The keys of a recorded gap, by the names of its fields."""
_IS_DROPPED: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Updates that are missing from a recording."""

    count: int
    """Number of missing updates; 0 if it is unknown."""
    first: int = 0
    stop: int = 0
    """Range of positions at the node, or of sequence numbers if the row has a sender; both are 0 if
    it is unknown."""
    reason: str = ""
    first_ns: int = 0
    last_ns: int = 0
    """Wall times of the first and the last."""
    is_dropped: bool = False
    """Whether the recorder had received the updates and dropped them, in contrast to updates that
    were published while no recorder was connected."""

    def joined(self, later: Gap) -> Gap:
        """Both gaps as one, with the reason of this one."""
        firsts = [gap.first for gap in (self, later) if gap.stop]
        return Gap(
            count=self.count + later.count,
            first=min(firsts, default=0),
            stop=max(self.stop, later.stop),
            reason=self.reason,
            first_ns=min(self.first_ns, later.first_ns),
            last_ns=max(self.last_ns, later.last_ns),
            is_dropped=self.is_dropped or later.is_dropped,
        )


class Missing:
    """Gaps that are not written yet, by node and sender.

    Beyond a limit, the gaps of all further nodes and senders become one gap without a range.
    """

    def __init__(self, *, gap_count_max: int = RECORDING_GAP_COUNT_MAX) -> None:
        self._gap_count_max = gap_count_max
        self._gaps: dict[tuple[int, int], Gap] = {}

    def __len__(self) -> int:
        """Number of gaps that are not written yet."""
        return len(self._gaps)

    @property
    def first_ns(self) -> int:
        """Time of the first missing update; 0 if nothing is missing."""
        return min((gap.first_ns for gap in self._gaps.values()), default=0)

    def leave_out(self, columns: Columns, reason: str) -> int:
        """Add gaps for rows that were given up; the number of updates. Gap rows stay gaps."""
        count = 0
        for (node, sender), gap in _gaps_of(columns, reason):
            # Only a gap row that was given up has a sender or another reason.
            count += gap.count if gap.reason == reason else 0
            self.add(gap, node=node, sender=sender)
        return count

    def add(self, gap: Gap, *, node: int = 0, sender: int = 0) -> None:
        origin = (node, sender)
        if origin not in self._gaps and len(self._gaps) >= self._gap_count_max - 1:
            # Positions of several nodes have no common range.
            origin = (0, 0)
            gap = replace(gap, first=0, stop=0)
        before = self._gaps.get(origin)
        self._gaps[origin] = gap if before is None else before.joined(gap)

    def updates(self, *, space: str) -> list[Update]:
        """The gap rows to write."""
        return [
            gap_update(gap, space=space, node=node, sender=sender)
            for (node, sender), gap in self._gaps.items()
        ]

    def clear(self) -> None:
        self._gaps.clear()


def gap_update(
    gap: Gap, *, space: str, type_name: str = "", sender: int = 0, node: int = 0
) -> Update:
    """The row of a gap, with the time of the first missing update."""
    facts = {tag: getattr(gap, name) for name, tag in _TAGS.items()}
    payload = cbor.dumps({**facts, **({_IS_DROPPED: True} if gap.is_dropped else {})})
    return Update(
        type_name=type_name,
        subject="",
        operation=GAP,
        present=0,
        key=b"",
        payload=payload,
        space=space,
        sender=sender,
        node=node,
        time_ns=gap.first_ns,
        source=INTERNAL,
    )


def gap_of(payload: bytes) -> Gap:
    """The gap in the payload of a gap row; RecordingError if the payload is invalid."""
    try:
        facts = cbor.loads(payload)
        is_dropped = facts.get(_IS_DROPPED, False) is True
        values = {name: facts[tag] for name, tag in _TAGS.items() if tag in facts}
    except (cbor.CBORError, AttributeError) as error:
        raise RecordingError(f"the payload of a gap row is invalid: {error}") from error
    for name, value in values.items():
        if type(value) is not (str if name == "reason" else int):
            raise RecordingError("the payload of a gap row is invalid: a value has the wrong type")
    return Gap(**{"count": 0, **values}, is_dropped=is_dropped)


def readable_gap(payload: bytes) -> Gap:
    """The gap in the payload of a gap row, without facts if the payload is invalid."""
    try:
        return gap_of(payload)
    except RecordingError as error:
        return Gap(count=0, reason=str(error))


def _gaps_of(columns: Columns, reason: str) -> Iterator[tuple[tuple[int, int], Gap]]:
    """One gap per node for the rows that are given up, and the gap rows among them."""
    nodes, senders = array("q", columns.node), array("q", columns.sender)
    times, positions = array("q", columns.time_ns), array("q", columns.position)
    ends = array("i", columns.payload_offsets)
    by_node: dict[int, list[int]] = {}
    for index, operation in enumerate(columns.operation):
        if operation == GAP:
            gap = readable_gap(columns.payload[ends[index] : ends[index + 1]])
            yield (nodes[index], senders[index]), gap
        else:
            by_node.setdefault(nodes[index], []).append(index)
    for node, indexes in by_node.items():
        numbers = [positions[index] for index in indexes if positions[index]]
        gap = Gap(
            count=len(indexes),
            first=min(numbers, default=0),
            stop=max(numbers, default=-1) + 1,
            reason=reason,
            first_ns=min(times[index] for index in indexes),
            last_ns=max(times[index] for index in indexes),
            is_dropped=True,
        )
        yield (node, 0), gap
