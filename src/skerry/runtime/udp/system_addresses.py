"""Where a node of a system is reached: its interfaces by name, address or wild card, and its ports.

The ports follow the expression of RTPS, by which analysers recognize the traffic: nodes on one
computer take the indexes 0, 1, 2 ..., each with a port for control and one for data.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import Final

from skerry.errors import ConfigError, ConnectFailed
from skerry.protocol.rtps.entities import Channel
from skerry.runtime.udp.interfaces import Interface, find_interface, list_addresses

__all__ = [
    "NODE_INDEX_COUNT",
    "SEED_GROUP_V4",
    "LocalAddress",
    "SystemNetworkConfig",
    "default_group",
    "find_local_address",
    "split_address",
    "unicast_port",
]

_PORT_BASE: Final = 7400
_DOMAIN_GAIN: Final = 250
_UNICAST_OFFSET: Final = 10
_NODE_GAIN: Final = 2
_DOMAIN_MAX: Final = (65_535 - _PORT_BASE) // _DOMAIN_GAIN - 1
NODE_INDEX_COUNT: Final = (_DOMAIN_GAIN - _UNICAST_OFFSET) // _NODE_GAIN
"""Nodes of one domain on one computer whose ports are found by themselves."""
SEED_GROUP_V4: Final = "239.192.77.1"
_SEED_GROUP_V6: Final = "ff18::77:1"
_BROADCAST: Final = "255.255.255.255"
_WILD: Final = frozenset("*?")
_BUFFER_BYTES_MIN: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemNetworkConfig:
    """The sockets of a node in a system."""

    control: str = ""
    """Address of the control channel: `192.168.1.5`, `192.168.1.*`, `eth0` or `[fd00::5]`, with or
    without `:PORT`; empty for the interface that the system chooses."""
    data: str = ""
    """Address of the data channel; empty for that of the control channel."""
    ipv6: bool = False
    """Whether an interface is used with its IPv6 address. An address says so itself."""
    domain: int = 77
    """Number from which the ports are derived; nodes of one system have the same."""
    interface_timeout_s: float = 60.0
    """How long the start waits for the interface."""
    socket_buffer_bytes: int = 4 * 1024 * 1024
    """Requested size of each receive and send buffer."""

    def __post_init__(self) -> None:
        for key, value, low, high in (
            ("domain", self.domain, 0, _DOMAIN_MAX),
            ("interface_timeout_s", self.interface_timeout_s, 0, 86_400),
            ("socket_buffer_bytes", self.socket_buffer_bytes, _BUFFER_BYTES_MIN, 1 << 30),
        ):
            if not low <= value <= high:
                raise ValueError(f"{key} = {value} is not between {low} and {high}")
        addresses = {
            key: split_address(getattr(self, key), key=f"node.peers.{key}")
            for key in ("control", "data")
        }
        if addresses["control"][1] and addresses["control"] == addresses["data"]:
            raise ValueError(
                f"control and data are both {self.data!r}; each channel has a port of its own"
            )
        hosts = {key: host for key, (host, _) in addresses.items()}
        for key, host in hosts.items():
            _check_own(host, key=f"node.peers.{key}")
        if all(hosts.values()) and _is_v6(hosts["data"], self.is_v6) != self.is_v6:
            raise ValueError(
                f"control = {self.control!r} and data = {self.data!r} mix IPv4 and IPv6; a system"
                " uses one of them"
            )

    @property
    def is_v6(self) -> bool:
        """Whether the sockets are of IPv6."""
        host, _ = split_address(self.control, key="node.peers.control")
        return self.ipv6 or ":" in host


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAddress:
    """An address of this computer for one channel."""

    host: str
    port: int
    """0 for the first free port of the expression."""
    interface: Interface


def unicast_port(domain: int, channel: Channel, index: int) -> int:
    """The port of a channel of the node with this index on its computer."""
    first = _PORT_BASE + _DOMAIN_GAIN * domain + _UNICAST_OFFSET
    return first + int(channel) + _NODE_GAIN * index


def default_group(position: int, domain: int, channel: Channel, *, is_v6: bool) -> str:
    """The multicast group and port of the node type at this position, counted from 1."""
    host = f"[ff18::77:{position:x}]" if is_v6 else f"239.192.77.{position}"
    return f"{host}:{_PORT_BASE + _DOMAIN_GAIN * domain + int(channel)}"


def split_address(text: str, *, key: str) -> tuple[str, int]:
    """Host and port of `192.168.1.*:26660`, `eth0` or `[fd00::5]:26660`; 0 if there is no port."""
    host, port = text, ""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise _refusal(key, f"{text!r} is not of the form [ADDRESS]:PORT")
        port = rest[1:]
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not port:
        return host, 0
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise _refusal(key, f"{port!r} in {text!r} is not a port")
    return host, int(port)


def find_local_address(text: str, *, key: str, is_v6: bool) -> LocalAddress:
    """The address of this computer that a text names.

    ConfigError if no interface has it, ConnectFailed if the system has no route to choose by.
    """
    host, port = split_address(text, key=key)
    family = socket.AF_INET6 if is_v6 else socket.AF_INET
    if _WILD & set(host):
        interface = _matching(host, family, key)
    else:
        group = _SEED_GROUP_V6 if is_v6 else SEED_GROUP_V4
        if host and is_v6 != _is_v6(host, is_v6):
            raise _refusal(key, f"{text!r}: IPv4 and IPv6 are not mixed in one system")
        interface = find_interface(host, group=group, port=1, key=key)
    if not interface.address:
        version = "IPv6" if is_v6 else "IPv4"
        raise ConnectFailed(f"the interface {interface.name} has no {version} address")
    return LocalAddress(host=interface.address, port=port, interface=interface)


def _matching(pattern: str, family: int, key: str) -> Interface:
    known = list_addresses(family)
    for interface in known:
        if fnmatchcase(interface.address, pattern):
            return interface
    raise ConfigError(
        key=key,
        detail=f"no address of this computer matches {pattern}",
        hint=f"its addresses are {', '.join(one.address for one in known)}",
    )


def _check_own(host: str, *, key: str) -> None:
    """Raise ConfigError for an address that is not that of one interface."""
    try:
        address = ip_address(host)
    except ValueError:
        return
    if address.is_unspecified or address.is_multicast or host == _BROADCAST:
        what = "all interfaces" if address.is_unspecified else "a group of computers"
        raise _refusal(key, f"{host} is the address of {what}; other nodes need that of one")


def _is_v6(host: str, otherwise: bool) -> bool:
    """Whether an address is of IPv6; an interface has both."""
    try:
        return ip_address(host).version == 6
    except ValueError:
        return otherwise


def _refusal(key: str, detail: str) -> ConfigError:
    return ConfigError(
        key=key,
        detail=detail,
        hint="write 192.168.1.5, 192.168.1.*, eth0 or [fd00::5], with or without :PORT",
    )
