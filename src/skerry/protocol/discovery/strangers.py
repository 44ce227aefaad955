"""Nodes that are not known, although datagrams of them arrive.

They send to a group that this node has joined, or to an address that an earlier node had. Discovery
asks them, since none of the addresses that it asks otherwise may lead to them: a node that was
silent for long is no longer known to the others, and may be the seed of none.
"""

from __future__ import annotations

from typing import Final

from skerry.protocol.machine import Address

__all__ = ["STRANGER_COUNT_MAX", "Strangers"]

STRANGER_COUNT_MAX: Final = 50
"""As many as are asked at once. Anyone can send datagrams with invented ids; the others are
ignored meanwhile."""
_PAUSE_NS_MIN: Final = 1_000_000_000
_PAUSE_NS_MAX: Final = 32_000_000_000
"""A stranger that does not answer, as a node of another system, is asked again after one second,
two, four and so on, then this often."""
_SILENT_NS: Final = 2 * _PAUSE_NS_MAX
"""One from which nothing arrived for this time is forgotten."""


class _Stranger:
    def __init__(self, now_ns: int) -> None:
        self.address = Address("")
        self.heard_ns = now_ns
        self.due_ns = now_ns
        self.pause_ns = _PAUSE_NS_MIN


class Strangers:
    """The strangers, and when to ask each of them."""

    def __init__(self) -> None:
        self._strangers: dict[int, _Stranger] = {}

    def heard(self, node: int, address: Address, now_ns: int) -> None:
        """Note that a datagram of an unknown node has arrived from this address."""
        found = self._strangers.get(node)
        if found is None:
            if len(self._strangers) >= STRANGER_COUNT_MAX:
                return
            found = self._strangers[node] = _Stranger(now_ns)
        found.address = address
        found.heard_ns = now_ns

    def forget(self, node: int) -> None:
        """Forget a node, which is known or excluded now."""
        self._strangers.pop(node, None)

    def take_due(self, now_ns: int) -> list[tuple[int, Address]]:
        """Return id and address of the strangers to ask now."""
        due: list[tuple[int, Address]] = []
        for node, one in list(self._strangers.items()):
            if now_ns - one.heard_ns >= _SILENT_NS:
                del self._strangers[node]
            elif now_ns >= one.due_ns:
                due.append((node, one.address))
                one.due_ns = now_ns + one.pause_ns
                one.pause_ns = min(2 * one.pause_ns, _PAUSE_NS_MAX)
        return due
