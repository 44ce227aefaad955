"""Whether what was published has reached the node: echoes under way, and what they vouch for.

The node answers an echo after everything that came before it. When a connection is lost, publishes
that went out on it and were not vouched for may have arrived or not. Nobody can tell, so it is
said: by a flush that waits, or else by the next one. A flush that has nothing in doubt is asked
anew on the next connection.
"""

from __future__ import annotations

from typing import Final

from skerry.client.core.states import Refusal
from skerry.errors import Disconnected, Refused, SkerryError

__all__ = ["REFUSAL_COUNT_MAX", "Flush", "Flushes"]

REFUSAL_COUNT_MAX: Final = 100
"""Refusals of the node that a space keeps for the next flush. The first ones show what is wrong."""


class Flush:
    """One wait for the node."""

    def __init__(self, number: int, covered_count: int) -> None:
        self.number = number
        self.covered_count = covered_count
        """Publishes that it vouches for, counted from the first of the space."""
        self.is_done = False
        self.error: SkerryError | None = None

    def finish(self, error: SkerryError | None = None) -> None:
        """It is over; with an error if it failed."""
        self.is_done = True
        self.error = error


class Flushes:
    """All of them."""

    def __init__(self) -> None:
        self._waiting: dict[int, Flush] = {}
        self._last_number = 0
        self._confirmed_count = 0
        self._doubtful_count = 0
        self._refusals: list[Refusal] = []
        self._why = ""
        """Why the last connection was lost."""

    def __len__(self) -> int:
        return len(self._waiting)

    def waiting(self) -> list[Flush]:
        """Those without an answer, oldest first."""
        return list(self._waiting.values())

    def begin(self, published_count: int) -> Flush:
        """A new one; Disconnected when it could not vouch for what was published before."""
        if self._doubtful_count:
            count, self._doubtful_count = self._doubtful_count, 0
            raise _doubt(count, self._why)
        self._last_number += 1
        flush = Flush(self._last_number, published_count)
        self._waiting[flush.number] = flush
        return flush

    def answered(self, number: int) -> None:
        """An echo came back."""
        flush = self._waiting.pop(number, None)
        if flush is None:
            return
        self._confirmed_count = max(self._confirmed_count, flush.covered_count)
        refusals, self._refusals = self._refusals, []
        flush.finish(_refused(refusals) if refusals else None)

    def given_up(self, flush: Flush) -> None:
        """Nobody waits for it any more."""
        self._waiting.pop(flush.number, None)

    def refused(self, refusal: Refusal) -> None:
        """The node did not permit something; the next flush tells."""
        if len(self._refusals) < REFUSAL_COUNT_MAX:
            self._refusals.append(refusal)

    def lost(self, moved_count: int, why: str) -> int:
        """The connection is gone, after so many publishes went out: how many are in doubt.

        What was refused just before may well be the reason, and is told with it.
        """
        self._why = "; ".join([why, *(f"it refused {last}" for last in self._refusals[-1:])])
        before, self._confirmed_count = self._confirmed_count, moved_count
        count = moved_count - before
        if not count:
            return 0
        told_count = 0
        for flush in self.waiting():
            if flush.covered_count > before:
                del self._waiting[flush.number]
                told_count = min(flush.covered_count, moved_count) - before
                flush.finish(_doubt(told_count, self._why))
        self._doubtful_count += count - told_count
        return count

    def end(self, error: SkerryError) -> None:
        """There will be no answers."""
        for flush in self._waiting.values():
            flush.finish(error)
        self._waiting.clear()


def _doubt(count: int, why: str) -> Disconnected:
    many = "1 publish was" if count == 1 else f"{count} publishes were"
    error = Disconnected(
        f"{many} under way when the connection was lost, and may not have arrived: {why}"
    )
    error.hint = "publish them again where it matters"
    return error


def _refused(refusals: list[Refusal]) -> Refused:
    rest = f", and {len(refusals) - 1} more" if len(refusals) > 1 else ""
    return Refused(f"the node refused {refusals[0]}{rest}")
