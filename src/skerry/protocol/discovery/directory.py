"""The nodes and addresses that are known, and the nodes that are excluded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from skerry.ids import hash64
from skerry.protocol.discovery.descriptions import NodeDescription
from skerry.protocol.machine import Address

__all__ = [
    "DISCOVERY_NODE_COUNT_MAX",
    "DISCOVERY_SEED_COUNT_MAX",
    "EXCLUDED_COUNT_MAX",
    "Directory",
    "ExcludedNode",
    "KnownNode",
]

DISCOVERY_NODE_COUNT_MAX: Final = 2000
"""Nodes that are known, and as many that others named: twice the largest system. Anyone can send a
message of discovery, unless the system has keys."""
DISCOVERY_SEED_COUNT_MAX: Final = 1000
"""Addresses to ask at."""
EXCLUDED_COUNT_MAX: Final = 100_000
"""Nodes that are refused. The oldest are forgotten first; the picture remembers as many."""


class ExcludedNode:
    def __init__(self, reason: int, until_ns: int | None, address: Address | None) -> None:
        self.reason = reason
        self.until_ns = until_ns
        """When it is accepted again; None for never."""
        self.address = address
        """Where it is asked then; None if nothing was received from it."""
        self.refused_ns: int | None = None


class KnownNode:
    """A node from which something was received."""

    def __init__(self, description: NodeDescription) -> None:
        self.description = description
        self.packets: set[int] = set()
        """The parts of its answer that have arrived."""
        self.packet_count = 0
        """The parts of its answer; 0 if none has arrived."""
        self.answered_count = 0
        """Answers to it since the last tick."""
        self.probed_count = 0
        """Answers to its probes since the last tick."""
        self.clock_offset_ns: int | None = None
        """By how much its wall clock is ahead; None until it was measured."""

    @property
    def is_complete(self) -> bool:
        """Whether all parts of its answer have arrived, and its clock was measured."""
        is_whole = 0 < self.packet_count <= len(self.packets)
        return is_whole and self.clock_offset_ns is not None

    def packet_received(self, packet: int, packet_count: int) -> None:
        """Note a part of its answer; there may be fewer parts than last time."""
        self.packet_count = packet_count
        self.packets = {one for one in (*self.packets, packet) if one < packet_count}


class Directory:
    """What discovery knows. Each node is in at most one of `known`, `reported` and `excluded`."""

    def __init__(self, own_node: int, own_address: Address) -> None:
        self.own_address = own_address
        self.known: dict[int, KnownNode] = {}
        self.reported: dict[int, NodeDescription] = {}
        """Nodes that others named, and from which nothing was received yet."""
        self.seeds: dict[int, Address] = {}
        """Addresses at which a node may be, by their id."""
        self.excluded: dict[int, ExcludedNode] = {}
        """Nodes that are refused, oldest first."""
        self._own_node = own_node
        self._given: set[Address] = set()
        """Addresses that were a seed once, to which a node may return."""

    @staticmethod
    def seed_id(address: Address) -> int:
        """Return the id under which an address is asked."""
        return hash64(address.text)

    def add_seeds(self, addresses: Iterable[Address]) -> None:
        """Add addresses to ask at, except for those that are known."""
        taken = {one.description.control for one in self.known.values()} | {self.own_address}
        for address in addresses:
            if address not in taken and len(self.seeds) < DISCOVERY_SEED_COUNT_MAX:
                self.seeds[self.seed_id(address)] = address
                if len(self._given) < DISCOVERY_SEED_COUNT_MAX:
                    self._given.add(address)

    def drop_seed(self, seed_id: int) -> None:
        """Forget an address: it is that of a known node, or the own one."""
        self.seeds.pop(seed_id, None)

    def add_known(self, description: NodeDescription) -> KnownNode | None:
        """Add a node from which something was received; None if there are too many."""
        if len(self.known) >= DISCOVERY_NODE_COUNT_MAX:
            return None
        self.reported.pop(description.node, None)
        self.drop_seed(self.seed_id(description.control))
        known = self.known[description.node] = KnownNode(description)
        return known

    def add_reported(self, description: NodeDescription) -> None:
        """Add a node that another one named."""
        node = description.node
        is_new = node != self._own_node and node not in self.known and not self.is_excluded(node)
        if is_new and len(self.reported) < DISCOVERY_NODE_COUNT_MAX:
            self.reported[node] = description

    def is_excluded(self, node: int) -> bool:
        return node in self.excluded

    def exclude(self, node: int, reason: int, until_ns: int | None) -> None:
        """Forget a node, and refuse it until then. Another node may start at its address."""
        known = self.known.pop(node, None)
        address = None if known is None else known.description.control
        self.reported.pop(node, None)
        self.excluded[node] = ExcludedNode(reason, until_ns, address)
        if len(self.excluded) > EXCLUDED_COUNT_MAX:
            del self.excluded[next(iter(self.excluded))]
        # The other node must not hear of this one before it is accepted again.
        if until_ns is None and address in self._given:
            self.add_seeds([address])

    def readmit(self, node: int) -> None:
        """Accept an excluded node again."""
        self.excluded.pop(node, None)

    def expire(self, now_ns: int) -> None:
        """Accept nodes again whose time is over, and ask them."""
        for node, one in list(self.excluded.items()):
            if one.until_ns is not None and now_ns >= one.until_ns:
                del self.excluded[node]
                if one.address is not None:
                    self.add_seeds([one.address])
