"""What `packing` measures, for where nothing is compiled: fewer and larger steps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

from skerry.protocol.distributor.sending.packing import fit

__all__ = ["Fit", "fit_for_this_build", "plain_fit"]

Fit = Callable[[list[bytes], int, int, int], int]


def plain_fit(pieces: list[bytes], first: int, stop: int, room: int) -> int:
    """What `fit` does, if updates are of about one size; else it may stop too early, never late."""
    head = pieces[first]
    count = min(room // (len(head) + len(pieces[first + 1])), (stop - first) // 2)
    if count <= 0:
        return first
    last = first + 2 * count
    # The length of the data stands in the head, so with one head all are of one size.
    if pieces[first:last:2].count(head) == count:
        return last
    # No more of them are looked at than would fit if all were as small as the first one.
    ends = list(accumulate(map(len, pieces[first : min(stop, last + 2)])))
    return first + bisect_right(ends, room) // 2 * 2


def fit_for_this_build() -> Fit:
    """The quicker one of the two."""
    is_compiled = not hasattr(fit, "__code__")
    return fit if is_compiled else plain_fit
