"""What `packing` measures, for where nothing is compiled: fewer and larger steps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

from skerry.protocol.distributor.packing import fit

__all__ = ["Fit", "fit_for_this_build", "plain_fit"]

Fit = Callable[[list[bytes], int, int, int], int]


def plain_fit(pieces: list[bytes], first: int, stop: int, room: int) -> int:
    """What `fit` does, if updates are of about one size; else it may stop too early, never late."""
    size = len(pieces[first]) + 4 + len(pieces[first + 2])
    if size > room:
        return first
    # No more of them are looked at than would fit if all were as small as the first one.
    count = room // size + 1
    ends = list(accumulate(map(len, pieces[first : min(stop, first + 3 * count)])))
    return first + bisect_right(ends, room) // 3 * 3


def fit_for_this_build() -> Fit:
    """The quicker one of the two."""
    is_compiled = not hasattr(fit, "__code__")
    return fit if is_compiled else plain_fit
