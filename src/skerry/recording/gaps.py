"""Rows that say what is missing: how many, from where to where, since when, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skerry import cbor
from skerry.codec.envelope import GAP, INTERNAL, Update
from skerry.errors import RecordingError

__all__ = ["Gap", "gap_of", "gap_update"]

_COUNT: Final = 1
_FIRST: Final = 2
_STOP: Final = 3
_REASON: Final = 4
_FIRST_NS: Final = 5
_LAST_NS: Final = 6


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
        )


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
        reason = facts.get(_REASON, "")
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
    )
