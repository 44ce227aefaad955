"""The parameters of a node in a system."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

from skerry.protocol.link.config import DATAGRAM_BYTES_MIN, LinkConfig
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeTypes
from skerry.protocol.picture.entries import NodeEntry
from skerry.protocol.rtps.sealed_datagrams import LINK_SEAL_BYTES
from skerry.protocol.sealing.group_keys import KeyRing

__all__ = ["Rejoin", "SystemConfig"]


class Rejoin(enum.Enum):
    """What a full node does that the system has excluded."""

    AUTO = "auto"
    """It takes a new id and joins again."""
    MANUAL = "manual"
    """It leaves, and its program ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemConfig:
    """A node, its system, and where it is reached."""

    system: str
    """Nodes with the same name are one system."""
    name: str
    node_types: NodeTypes
    type_name: str
    control: Address
    """The unicast address of the control channel."""
    data: Address
    """The unicast address of the data channel."""
    seeds: tuple[Address, ...] = ()
    """Addresses at which other nodes may be."""
    seed_groups: tuple[Address, ...] = ()
    """Multicast groups in which other nodes may be."""
    link: LinkConfig = field(default=LinkConfig())
    alone_timeout_ns: int = 0
    """How long a node waits for others before it is a system of its own; 0 for a suitable time."""
    clock_skew_ns_max: int = 60_000_000_000
    """A node whose clock differs by more may not join."""
    rejoin: Rejoin = Rejoin.AUTO
    black_list: frozenset[int] = frozenset()
    """Incarnations that were stopped."""
    keys: KeyRing | None = None
    """The keys with which all datagrams of the system are sealed (`runtime.key_files.read_keys`);
    None for a system in clear. All nodes have the same."""
    freshness_ns: int = 300_000_000_000
    """How far from now the time of a sealed datagram may be; 0 accepts any, for wrong clocks."""
    node_id: int = 0
    """The id of the node until it joins again; 0 for a random one."""
    is_vetoed: Callable[[NodeEntry], bool] | None = None
    """Asked about each node that wants to join."""

    def __post_init__(self) -> None:
        least = DATAGRAM_BYTES_MIN + LINK_SEAL_BYTES
        if self.keys is not None and self.link.datagram_bytes < least:
            raise ValueError(
                f"datagram_bytes = {self.link.datagram_bytes}: with keys it is at least {least}"
            )
