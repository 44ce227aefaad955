"""How the sockets of a channel join groups, and send to them, on one interface and on no other."""

from __future__ import annotations

import socket
import struct
from typing import Final

from skerry.protocol.machine import Address
from skerry.runtime.udp.interfaces import Interface

_IP_MULTICAST_ALL: Final = 49
_IPV6_MULTICAST_ALL: Final = 29

SocketAddress = tuple[str, int] | tuple[str, int, int, int]


def socket_address(address: Address, interface: Interface) -> SocketAddress:
    """An address as the functions of a socket take it."""
    host = address.host
    if ":" not in host:
        return host, address.port
    # Addresses that are valid on one interface only.
    is_scoped = host.startswith(("fe80:", "ff"))
    return host, address.port, 0, interface.index if is_scoped else 0


def choose_way(made: socket.socket, own: Address, interface: Interface) -> None:
    """Send to groups on this interface, also to this computer."""
    if ":" in own.host:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface.index)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
    else:
        way = bytes(4) + _interface_v4(own, interface)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, way)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)


def join(made: socket.socket, group: Address, own: Address, interface: Interface) -> None:
    """Join a group on this interface, and on no other."""
    membership = _membership(group, own, interface)
    if ":" in own.host:
        made.setsockopt(socket.IPPROTO_IPV6, _IPV6_MULTICAST_ALL, 0)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, membership)
    else:
        made.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)


def rejoin(made: socket.socket, group: Address, own: Address, interface: Interface) -> None:
    """Leave a group and join it again."""
    membership = _membership(group, own, interface)
    if ":" in own.host:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_LEAVE_GROUP, membership)
    else:
        made.setsockopt(socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, membership)
    join(made, group, own, interface)


def _membership(group: Address, own: Address, interface: Interface) -> bytes:
    if ":" in own.host:
        index = struct.pack("=I", interface.index)
        return socket.inet_pton(socket.AF_INET6, group.host) + index
    return socket.inet_aton(group.host) + _interface_v4(own, interface)


def _interface_v4(own: Address, interface: Interface) -> bytes:
    return socket.inet_aton(own.host) + struct.pack("=i", interface.index)
