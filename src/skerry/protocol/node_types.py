"""Node types: how the nodes of a type are reached, and what is required of them.

Each node names its type at start. All nodes of a system have the same types in their configuration.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from skerry.errors import ConfigError
from skerry.ids import hash64
from skerry.protocol.machine import Address
from skerry.protocol.rtps.entities import Channel, type_tag

NODE_TYPE_COUNT_MAX: Final = 64
"""Types of one system. Each needs two multicast groups and a stream at every node."""
LINK_WINDOW_COUNT_MAX: Final = 256
"""Packets in flight to one receiver: as many as one acknowledgement can report."""
HEARTBEAT_SLACK_NS: Final = 50_000_000
"""A heartbeat may be late by this much, because event loops and networks are not exact."""
_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """The parameters of one type. The names of times end with their unit."""

    name: str = "node"
    """The name that nodes give at start."""
    multicast_control: str = ""
    """Group and port of the control channel; empty if these nodes are reached by unicast only."""
    multicast_data: str = ""
    """Group and port of the data channel; empty if these nodes are reached by unicast only."""
    heartbeat_interval_ms: int = 1000
    """Time between two keep-alives."""
    lost_heartbeat_count_max: int = 5
    """Keep-alives that may be lost before the node is excluded."""
    window_packet_count: int = 64
    """Packets in flight to one of these nodes."""
    window_bytes: int = 262_144
    """Bytes in flight to one of these nodes. One packet is always allowed."""
    ack_request_threshold: int = 32
    """Packets after which an acknowledgement is requested."""
    retry_timeouts_ms: tuple[int, ...] = (20, 80)
    """Wait before each retransmission; the last one repeats."""
    may_form_system: bool = True
    """Whether such a node may start a system on its own."""
    light: bool = False
    """Whether these nodes only attach to full nodes and may come and go."""
    multicast_ttl: int = 1
    """Multicast TTL; 1 keeps datagrams on the local network."""
    lag_grace_ms: int = 500
    """How long one node may hold up the others of its type before it is served on its own."""
    lag_limit_ms: int = 0
    """How long it is served on its own before it is excluded; 0 for twice the dead timeout."""
    backlog_bytes_max: int = 16 * 1024 * 1024
    """Bytes that may wait for all such nodes together before one is excluded."""

    def __post_init__(self) -> None:
        for value, key, low, high in (
            (self.heartbeat_interval_ms, "heartbeat_interval_ms", 10, 3_600_000),
            (self.lost_heartbeat_count_max, "lost_heartbeat_count_max", 1, 1000),
            (self.window_packet_count, "window_packet_count", 1, LINK_WINDOW_COUNT_MAX),
            (self.window_bytes, "window_bytes", 1, 1 << 30),
            (self.multicast_ttl, "multicast_ttl", 0, 255),
            (self.lag_grace_ms, "lag_grace_ms", 10, 3_600_000),
            (self.lag_limit_ms, "lag_limit_ms", 0, 3_600_000),
            (self.backlog_bytes_max, "backlog_bytes_max", 1, 1 << 40),
        ):
            if not low <= value <= high:
                raise ValueError(f"{key} = {value} is not between {low} and {high}")
        if not 1 <= self.ack_request_threshold <= self.window_packet_count:
            raise ValueError(
                f"ack_request_threshold = {self.ack_request_threshold} is not between 1 and"
                f" window_packet_count = {self.window_packet_count}"
            )
        if not self.name or len(self.name) > 100:
            raise ValueError(f"name = {self.name!r} does not have 1 to 100 characters")
        if not self.retry_timeouts_ms or min(self.retry_timeouts_ms) < 1:
            raise ValueError(
                f"retry_timeouts_ms = {list(self.retry_timeouts_ms)} is not a list of one or more"
                " times of at least 1 ms"
            )
        if bool(self.multicast_control) != bool(self.multicast_data):
            raise ValueError("multicast_control and multicast_data are given together, or neither")
        for key in ("multicast_control", "multicast_data"):
            _check_group(key, getattr(self, key))

    @property
    def id(self) -> int:
        """The hash that identifies the type."""
        return hash64(self.name)

    @property
    def tag(self) -> int:
        """The part of the hash that identifies the type in the ids of streams."""
        return type_tag(self.name)

    @property
    def can_form(self) -> bool:
        """Whether such a node may start a system: light nodes never do."""
        return self.may_form_system and not self.light

    @property
    def heartbeat_ns(self) -> int:
        """Time between two keep-alives."""
        return self.heartbeat_interval_ms * _MS

    @property
    def dead_timeout_ns(self) -> int:
        """How long such a node may be silent."""
        return self.lost_heartbeat_count_max * (self.heartbeat_ns + HEARTBEAT_SLACK_NS)

    @property
    def quiet_ns(self) -> int:
        """A node that was silent for longer is not one that receives nothing although its datagrams
        arrive: none of two keep-alives arrived."""
        return 2 * (self.heartbeat_ns + HEARTBEAT_SLACK_NS)

    @property
    def lag_limit_ns(self) -> int:
        """How long such a node may be served on its own before it is excluded."""
        return self.lag_limit_ms * _MS or 2 * self.dead_timeout_ns

    def retry_timeout_ns(self, transmission_count: int) -> int:
        """Return how long to wait for an acknowledgement after so many transmissions."""
        timeouts_ms = self.retry_timeouts_ms
        return timeouts_ms[min(transmission_count, len(timeouts_ms)) - 1] * _MS

    def window(self, datagram_bytes: int) -> int:
        """Return the packets of this size that may be in flight to such a node."""
        return max(1, min(self.window_packet_count, self.window_bytes // datagram_bytes))

    def ack_threshold(self, window: int) -> int:
        """Return after how many packets of this window an acknowledgement is requested: if it has
        fewer packets because of its bytes, earlier by as much."""
        return max(1, self.ack_request_threshold * window // self.window_packet_count)

    def group(self, channel: Channel) -> Address | None:
        """Return the multicast group of a channel; None if there is none."""
        text = self.multicast_control if channel is Channel.CONTROL else self.multicast_data
        return _address(text) if text else None


class NodeTypes:
    """The node types of a system. Raises ConfigError if they contradict each other."""

    def __init__(self, types: Sequence[NodeType]) -> None:
        if not 1 <= len(types) <= NODE_TYPE_COUNT_MAX:
            raise _wrong(f"{len(types)} types; a system has 1 to {NODE_TYPE_COUNT_MAX}")
        self._by_name: dict[str, NodeType] = {}
        self._by_id: dict[int, NodeType] = {}
        self._by_tag: dict[int, NodeType] = {}
        used: dict[Address, str] = {}
        for one in types:
            if one.name in self._by_name:
                raise _wrong(f"two types have the name {one.name}")
            other = self._by_tag.get(one.tag)
            if other is not None:
                raise _wrong(f"the names {other.name} and {one.name} have the same tag; rename one")
            if one.light and one.may_form_system:
                raise _wrong(
                    f"type {one.name} is light, so it may not form a system:"
                    " set may_form_system = false"
                )
            for channel in Channel:
                group = one.group(channel)
                if group is None:
                    continue
                if group in used:
                    raise _wrong(_twice(group, used[group], one.name))
                for earlier, name in used.items():
                    if (":" in earlier.host) != (":" in group.host):
                        raise _wrong(
                            f"the group {earlier.text} of type {name} and {group.text} of type"
                            f" {one.name} mix IPv4 and IPv6; a system uses one of them"
                        )
                used[group] = one.name
            self._by_name[one.name] = one
            self._by_id[one.id] = one
            self._by_tag[one.tag] = one
        if not any(one.can_form for one in types):
            raise _wrong(
                "no type may form a system, so there would never be one; one type has to be neither"
                " light nor with may_form_system = false"
            )

    def __iter__(self) -> Iterator[NodeType]:
        return iter(self._by_name.values())

    def named(self, name: str) -> NodeType:
        """Return the type with this name. Raises ConfigError if there is none."""
        found = self._by_name.get(name)
        if found is None:
            detail = f"there is no type {name}; the types are {', '.join(self._by_name)}"
            raise ConfigError(key="node.peers.type", detail=detail)
        return found

    def by_id(self, type_id: int) -> NodeType | None:
        """Return the type with this hash; None if it is unknown."""
        return self._by_id.get(type_id)

    def by_tag(self, tag: int) -> NodeType | None:
        """Return the type with this tag in stream ids; None if it is unknown."""
        return self._by_tag.get(tag)


def _wrong(detail: str) -> ConfigError:
    return ConfigError(key="node.peers.types", detail=detail)


def _twice(group: Address, first: str, second: str) -> str:
    where = (
        f"the types {first} and {second}" if first != second else f"type {first}, for both channels"
    )
    return f"the group {group.text} is used twice: by {where}"


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))


def _check_group(key: str, text: str) -> None:
    if not text:
        return
    try:
        address = _address(text)
        parsed = ipaddress.ip_address(address.host)
    except ValueError:
        parsed = None
    if parsed is None or (parsed.version == 6) != text.startswith("["):
        raise ValueError(
            f"{key} = {text!r} is not a group and a port, such as 239.192.77.1:26650 or"
            " [ff18::77:1]:26650"
        )
    if not parsed.is_multicast:
        raise ValueError(f"{key} = {text!r} is not a multicast address")
    if not 0 < address.port < 1 << 16:
        raise ValueError(f"{key} = {text!r}: the port is not between 1 and 65535")
