"""Rows that say what is missing: how many, from where to where, since when, and why."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from skerry import cbor
from skerry.codec.envelope import GAP, INTERNAL, Update
from skerry.errors import RecordingError
from skerry.recording.rows import Columns

__all__ = ["RECORDING_GAP_COUNT_MAX", "Gap", "Missing", "gap_of", "gap_update", "readable_gap"]

RECORDING_GAP_COUNT_MAX: Final = 1000
"""Gaps that wait to be written, each of a node or a sender. A group may have any number of senders.
Beyond it the others become one gap."""

_COUNT: Final = 1
_FIRST: Final = 2
_STOP: Final = 3
_REASON: Final = 4
_FIRST_NS: Final = 5
_LAST_NS: Final = 6
_IS_DROPPED: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Updates that are missing from a recording."""

    count: int
    """How many; 0 if nobody knows."""
    first: int = 0
    stop: int = 0
    """Positions at the node between which they were, or sequence numbers where the sender is
    named; both 0 if nobody knows."""
    reason: str = ""
    first_ns: int = 0
    last_ns: int = 0
    """Wall times between which they came."""
    is_dropped: bool = False
    """Whether the recorder had received them and could not keep them: that is damage, and not an
    absence of the recorder."""

    def joined(self, later: Gap) -> Gap:
        """Both as one, with the reason of this one."""
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
    """Rows that were left out and of which no gap tells yet, by node and sender.

    Past a bound of those, what is missing of all others is one gap without a range.
    """

    def __init__(self, *, gap_count_max: int = RECORDING_GAP_COUNT_MAX) -> None:
        self._gap_count_max = gap_count_max
        self._gaps: dict[tuple[int, int], Gap] = {}

    def __len__(self) -> int:
        """Gaps that are to be told."""
        return len(self._gaps)

    @property
    def first_ns(self) -> int:
        """When the first of what is missing came; 0 if nothing is."""
        return min((gap.first_ns for gap in self._gaps.values()), default=0)

    def leave_out(self, columns: Columns, reason: str) -> int:
        """Note that these rows are missing; how many updates that are. Gaps stay what they are."""
        count = 0
        for (node, sender), gap in _gaps_of(columns, reason):
            # Only a gap that is left out itself has a sender or another reason.
            count += gap.count if gap.reason == reason else 0
            self.add(gap, node=node, sender=sender)
        return count

    def add(self, gap: Gap, *, node: int = 0, sender: int = 0) -> None:
        """Note a gap."""
        place = (node, sender)
        if place not in self._gaps and len(self._gaps) >= self._gap_count_max - 1:
            # Numbers of several nodes have no range.
            place = (0, 0)
            gap = replace(gap, first=0, stop=0)
        before = self._gaps.get(place)
        self._gaps[place] = gap if before is None else before.joined(gap)

    def updates(self, *, space: str) -> list[Update]:
        """The rows that tell of all of it."""
        return [
            gap_update(gap, space=space, node=node, sender=sender)
            for (node, sender), gap in self._gaps.items()
        ]

    def clear(self) -> None:
        """All of it is told."""
        self._gaps.clear()


def gap_update(
    gap: Gap, *, space: str, type_name: str = "", sender: int = 0, node: int = 0
) -> Update:
    """The row of a gap. It stands where the missing ones began."""
    payload = cbor.dumps(
        {
            _COUNT: gap.count,
            _FIRST: gap.first,
            _STOP: gap.stop,
            _REASON: gap.reason,
            _FIRST_NS: gap.first_ns,
            _LAST_NS: gap.last_ns,
            **({_IS_DROPPED: True} if gap.is_dropped else {}),
        }
    )
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
    """What the payload of a gap row says; RecordingError if it is none."""
    try:
        facts = cbor.loads(payload)
        numbers = [facts.get(tag, 0) for tag in (_COUNT, _FIRST, _STOP, _FIRST_NS, _LAST_NS)]
        reason, is_dropped = facts.get(_REASON, ""), facts.get(_IS_DROPPED, False)
    except (cbor.CBORError, AttributeError) as error:
        raise RecordingError(f"a gap row does not say what is missing: {error}") from error
    if not all(type(number) is int for number in numbers) or not isinstance(reason, str):
        raise RecordingError("a gap row does not say what is missing: it has other kinds of values")
    count, first, stop, first_ns, last_ns = numbers
    return Gap(
        count=count,
        first=first,
        stop=stop,
        reason=reason,
        first_ns=first_ns,
        last_ns=last_ns,
        is_dropped=is_dropped is True,
    )


def readable_gap(payload: bytes) -> Gap:
    """The same, where a row that does not tell what is missing only tells that something is."""
    try:
        return gap_of(payload)
    except RecordingError as error:
        return Gap(count=0, reason=str(error))


def _gaps_of(columns: Columns, reason: str) -> Iterator[tuple[tuple[int, int], Gap]]:
    """What is missing when these rows are, by node, and the gaps that were told by them."""
    nodes, senders = array("q", columns.node), array("q", columns.sender)
    times, positions = array("q", columns.time_ns), array("q", columns.position)
    ends = array("i", columns.payload_offsets)
    by_node: dict[int, list[int]] = {}
    for index, operation in enumerate(columns.operation):
        if operation == GAP:
            told = readable_gap(columns.payload[ends[index] : ends[index + 1]])
            yield (nodes[index], senders[index]), told
        else:
            by_node.setdefault(nodes[index], []).append(index)
    for node, places in by_node.items():
        numbers = [positions[index] for index in places if positions[index]]
        gap = Gap(
            count=len(places),
            first=min(numbers, default=0),
            stop=max(numbers, default=-1) + 1,
            reason=reason,
            first_ns=min(times[index] for index in places),
            last_ns=max(times[index] for index in places),
            is_dropped=True,
        )
        yield (node, 0), gap
