"""Which run of the system this node belongs to: its incarnation.

A full node joins or forms one incarnation in its life. The ids of systems that were stopped are in
a black list, so that a node which was cut off at that time cannot bring an old system back.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Final

from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.node_types import NodeType

__all__ = ["IncarnationMembership"]

_ID_BITS: Final = 62


class IncarnationMembership:
    def __init__(
        self, own_type: NodeType, rng: Random, now_ns: int, *, black_list: Collection[int] = ()
    ) -> None:
        self.incarnation_id = 0
        """0 while the node belongs to none."""
        self.is_detached = False
        """Whether it is the private one of a light node without a system."""
        self._own_type = own_type
        self._rng = rng
        self._started_ns = now_ns
        self._black_list = frozenset(black_list)

    def may_form(self, now_ns: int, alone_timeout_ns: int) -> bool:
        """Return whether this node, which is elected, may begin an incarnation."""
        is_due = now_ns - self._started_ns >= alone_timeout_ns
        return not self.incarnation_id and is_due and self._own_type.can_form

    def form(self, *, is_detached: bool = False) -> None:
        """Begin an incarnation."""
        self.incarnation_id = self._rng.getrandbits(_ID_BITS) + 1
        self.is_detached = is_detached

    def is_open(self, incarnation_id: int) -> bool:
        """Return whether there is such an incarnation, and it was not stopped."""
        return incarnation_id != 0 and incarnation_id not in self._black_list

    def met(self, incarnation_id: int, *, is_light: bool) -> ExclusionReason | bool | None:
        """Process the incarnation of another node.

        Returns True to process what the node says, False to ignore it, and the reason if the node
        has to be excluded. May join that incarnation.
        """
        if not incarnation_id:
            return False
        if incarnation_id == self.incarnation_id:
            return True
        if self._own_type.light:
            if is_light:
                return False
            if self.incarnation_id and not self.is_detached:
                return ExclusionReason.INCARNATION
        elif is_light:
            return False
        elif self.incarnation_id:
            return ExclusionReason.INCARNATION
        if incarnation_id in self._black_list:
            return ExclusionReason.BLACK_LISTED
        self.incarnation_id = incarnation_id
        self.is_detached = False
        return True
