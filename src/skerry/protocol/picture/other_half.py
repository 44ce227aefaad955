"""Which half of a system leaves, when two halves of it meet again.

Each half has excluded the nodes of the other one, and refuses them. A node that was cut off alone
learns only by the refusals of all others that its half is small.
"""

from __future__ import annotations

from typing import Final

__all__ = ["OtherHalf"]

_WAIT_NS: Final = 1_500_000_000
"""After the first refusal, those of the other nodes are awaited for this time."""


class OtherHalf:
    """The half of this system that refuses this node, by what its nodes say of it."""

    def __init__(self) -> None:
        self.due_ns: int | None = None
        """When to decide which half leaves; None if there is no other half."""
        self.is_inside = False
        """Whether a node refuses this one that belonged to its own half a moment ago, so that the
        size of this half is not known until the decision."""
        self._refusals: dict[int, tuple[int, int, int]] = {}
        """Size and elected node of the other half, and the reason, by the node that refused."""

    def refused(
        self, node: int, size: int, elected: int, reason: int, now_ns: int, *, was_alive: bool
    ) -> None:
        """Note the refusal of one of its nodes. `was_alive` is whether it was alive here."""
        self.is_inside |= was_alive
        self._refusals[node] = size, elected, reason
        self.due_ns = self.due_ns or now_ns + _WAIT_NS

    def decide(self, size: int, elected: int, now_ns: int) -> tuple[int, int] | None:
        """Compare with the own half when it is due: return the reason for which this node has to
        leave and the node that gave it, or None if it stays or decides later."""
        if self.due_ns is None or now_ns < self.due_ns:
            return None
        self.due_ns = None
        self.is_inside = False
        theirs = max((count, id_, by) for by, (count, id_, _) in self._refusals.items())
        reason = self._refusals[theirs[2]][2]
        self._refusals.clear()
        return (reason, theirs[2]) if theirs[:2] > (size, elected) else None
