"""Flushes: echoes by which the node confirms that it has received what was published.

The node answers an echo after everything that it received before. When a connection is lost,
publishes that were sent on it and not confirmed may have arrived or not. The flush that waits
reports that, or else the next one. A flush that covers no such publish is sent again on the next
connection.
"""

from __future__ import annotations

from typing import Final

from skerry.client.core.states import Refusal
from skerry.errors import Disconnected, Refused, SkerryError

REFUSAL_COUNT_MAX: Final = 100
"""Refusals of the node that a space keeps for the next flush. The first ones show what is wrong."""


class Flush:
    """One flush, until the node has answered it."""

    def __init__(self, number: int, covered_count: int) -> None:
        self.number = number
        self.covered_count = covered_count
        """Publishes that it confirms, counted from the first one of the space."""
        self.is_done = False
        self.error: SkerryError | None = None

    def finish(self, error: SkerryError | None = None) -> None:
        self.is_done = True
        self.error = error


class Flushes:
    """The flushes of a space, and how many publishes are confirmed."""

    def __init__(self) -> None:
        self._waiting: dict[int, Flush] = {}
        self._last_number = 0
        self._confirmed_count = 0
        self._doubtful_count = 0
        self._refusals: list[Refusal] = []
        self._why = ""

    def __len__(self) -> int:
        return len(self._waiting)

    def waiting(self) -> list[Flush]:
        """The flushes without an answer, oldest first."""
        return list(self._waiting.values())

    def begin(self, published_count: int) -> Flush:
        """Begin a flush; raises Disconnected if earlier publishes may be lost."""
        if self._doubtful_count:
            count, self._doubtful_count = self._doubtful_count, 0
            raise _doubt(count, self._why)
        self._last_number += 1
        flush = Flush(self._last_number, published_count)
        self._waiting[flush.number] = flush
        return flush

    def answered(self, number: int) -> None:
        """The node has answered an echo."""
        flush = self._waiting.pop(number, None)
        if flush is None:
            return
        self._confirmed_count = max(self._confirmed_count, flush.covered_count)
        refusals, self._refusals = self._refusals, []
        rest = f", and {len(refusals) - 1} more" if len(refusals) > 1 else ""
        flush.finish(Refused(f"the node refused {refusals[0]}{rest}") if refusals else None)

    def forget(self, flush: Flush) -> None:
        """Ignore the answer to a flush whose caller has stopped waiting."""
        self._waiting.pop(flush.number, None)

    def refused(self, refusal: Refusal) -> None:
        """The node refused something; the next flush that is answered reports it."""
        if len(self._refusals) < REFUSAL_COUNT_MAX:
            self._refusals.append(refusal)

    def lost(self, moved_count: int, why: str) -> int:
        """The connection is lost. Returns how many of the sent publishes are not confirmed.

        The reason includes the last refusal, which may be the cause.
        """
        self._why = "; ".join([why, *(f"the node refused {last}" for last in self._refusals[-1:])])
        before, self._confirmed_count = self._confirmed_count, moved_count
        count = moved_count - before
        if not count:
            return 0
        reported_count = 0
        for flush in self.waiting():
            if flush.covered_count > before:
                del self._waiting[flush.number]
                reported_count = min(flush.covered_count, moved_count) - before
                flush.finish(_doubt(reported_count, self._why))
        self._doubtful_count += count - reported_count
        return count

    def end(self, error: SkerryError) -> None:
        """End all flushes with an error, since the space is closed."""
        for flush in self._waiting.values():
            flush.finish(error)
        self._waiting.clear()


def _doubt(count: int, why: str) -> Disconnected:
    many = "1 publish was" if count == 1 else f"{count} publishes were"
    error = Disconnected(
        f"{many} sent when the connection was lost, and may not have arrived: {why}"
    )
    error.hint = "publish them again if they are important"
    return error
