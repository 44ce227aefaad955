"""Network interfaces of this computer, by name or by address, with the facts multicast needs."""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from skerry.errors import ConfigError, ConnectFailed
from skerry.suggestions import nearest

_GET_ADDRESSES: Final = 0x8912
_GET_ADDRESS: Final = 0x8915
_GET_FLAGS: Final = 0x8913
_GET_MTU: Final = 0x8921
_IS_UP: Final = 0x1
_IS_LOOPBACK: Final = 0x8
_HAS_MULTICAST: Final = 0x1000
_MTU_UNKNOWN: Final = 1500
_ADDRESSES_V6: Final = Path("/proc/net/if_inet6")
_REQUEST_BYTES: Final = 40
"""Size of an entry of the list of IPv4 addresses: a name of 16 bytes, and a socket address."""
_REQUEST_COUNT_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    name: str
    index: int
    address: str
    """Empty if it has no address of the family."""
    mtu: int = _MTU_UNKNOWN
    is_up: bool = True
    is_loopback: bool = False
    has_multicast: bool = True
    """Whether its flags state multicast. Those of the loopback interface do not, but it works."""


def parse_group(text: str, *, key: str = "distributor.group") -> tuple[str, int]:
    """Parse `239.192.7.1:4711` or `[ff15::1]:4711`; ConfigError, with this key, otherwise."""
    host, colon, port = text.rpartition(":")
    try:
        group = ip_address(host.removeprefix("[").removesuffix("]"))
        number = int(port)
    except ValueError:
        raise _refusal(key, f"{text!r} is not of the form ADDRESS:PORT") from None
    if not colon or (group.version == 6) != host.startswith("["):
        detail = f"{text!r}: write an IPv6 address in brackets, and an IPv4 address without"
        raise _refusal(key, detail)
    if not group.is_multicast:
        raise _refusal(key, f"{group} is not the address of a multicast group")
    if not 0 < number < 65_536:
        raise _refusal(key, f"{number} in {text!r} is not a port")
    return str(group), number


def find_interface(
    text: str, *, group: str, port: int, key: str = "distributor.interface"
) -> Interface:
    """The interface with this name or address; for an empty text the one the system chooses.

    ConfigError, with this key, if there is no such interface, ConnectFailed if the system has no
    route.
    """
    family = socket.AF_INET6 if ":" in group else socket.AF_INET
    known = list_interfaces(family)
    if not text:
        return _chosen(known, family, group, port, key)
    for interface in known:
        if text in (interface.name, interface.address):
            return interface
    try:
        address = str(ip_address(text))
    except ValueError:
        names = [interface.name for interface in known]
        guess = nearest(text, names)
        raise ConfigError(
            key=key,
            detail=f"there is no network interface {text!r}",
            hint=f"did you mean {guess!r}?" if guess else f"there are {', '.join(names)}",
        ) from None
    return _with_further_address(address, family, key)


def list_interfaces(family: int = socket.AF_INET) -> list[Interface]:
    """The interfaces, each with its first address of this family."""
    addresses = _addresses_v6() if family == socket.AF_INET6 else {}
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for index, name in socket.if_nameindex():
            flags = _ask_number(probe, name, _GET_FLAGS, "=H", 0)
            if family == socket.AF_INET6:
                address = addresses.get(index, "")
            else:
                address = _address_v4(probe, name)
            found.append(
                Interface(
                    name=name,
                    index=index,
                    address=address,
                    mtu=_ask_number(probe, name, _GET_MTU, "=i", _MTU_UNKNOWN),
                    is_up=bool(flags & _IS_UP),
                    is_loopback=bool(flags & _IS_LOOPBACK),
                    has_multicast=bool(flags & _HAS_MULTICAST),
                )
            )
    return found


def list_addresses(family: int = socket.AF_INET) -> list[Interface]:
    """All addresses of this family, each with its interface."""
    by_name = {interface.name: interface for interface in list_interfaces(family)}
    if family == socket.AF_INET6:
        by_index = {interface.index: interface for interface in by_name.values()}
        found = [
            replace(by_index[index], address=address)
            for index, address, _ in _rows_v6()
            if index in by_index
        ]
    else:
        # The label of a further address may be longer than the name: eth0:1.
        found = [
            replace(by_name[name], address=address)
            for label, address in _rows_v4()
            if (name := label.partition(":")[0]) in by_name
        ]
    return found or [interface for interface in by_name.values() if interface.address]


def _rows_v4() -> list[tuple[str, str]]:
    """Label and address of all IPv4 addresses; empty where the system does not list them."""
    if sys.platform != "linux":
        return []
    import fcntl

    rows = ctypes.create_string_buffer(_REQUEST_BYTES * _REQUEST_COUNT_MAX)
    request = struct.pack("@iP", len(rows), ctypes.addressof(rows))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        (used,) = struct.unpack_from("@i", fcntl.ioctl(probe.fileno(), _GET_ADDRESSES, request))
    raw = rows.raw
    return [
        (raw[at : at + 16].split(b"\0")[0].decode(), socket.inet_ntoa(raw[at + 20 : at + 24]))
        for at in range(0, used, _REQUEST_BYTES)
    ]


def _chosen(known: list[Interface], family: int, group: str, port: int, key: str) -> Interface:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((group, port))
        except OSError as error:
            failure = ConnectFailed(f"there is no route to the group {group}: {error.strerror}")
            failure.hint = (
                "name an interface that has an IPv6 address"
                if ":" in group
                else "name an interface; 127.0.0.1 stays on this computer"
            )
            raise failure from None
        address = probe.getsockname()[0].partition("%")[0]
    for interface in known:
        if interface.address == address:
            return interface
    return _with_further_address(address, family, key)


def _with_further_address(address: str, family: int, key: str) -> Interface:
    """The interface with an address that is not listed: it may have several."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            raise ConfigError(
                key=key,
                detail=f"no network interface of this computer has the address {address}",
                hint="`ip address` lists the addresses",
            ) from None
    return Interface(name="", index=0, address=address)


def _address_v4(probe: socket.socket, name: str) -> str:
    raw = _ask(probe, name, _GET_ADDRESS)
    return socket.inet_ntoa(raw[20:24]) if raw else ""


def _ask_number(probe: socket.socket, name: str, what: int, form: str, default: int) -> int:
    raw = _ask(probe, name, what)
    return int(struct.unpack_from(form, raw, 16)[0]) if raw else default


def _ask(probe: socket.socket, name: str, what: int) -> bytes:
    if sys.platform != "linux":
        return b""
    import fcntl

    try:
        return fcntl.ioctl(probe.fileno(), what, struct.pack("256s", name.encode()[:15]))
    except OSError:
        return b""  # It has none, or was removed meanwhile.


def _addresses_v6() -> dict[int, str]:
    """An address of each interface: the first, or a global one if there is any."""
    found: dict[int, str] = {}
    for index, address, scope in _rows_v6():
        if index not in found or scope == "00":
            found[index] = address
    return found


def _rows_v6() -> list[tuple[int, str, str]]:
    """Interface index, address and scope of all IPv6 addresses."""
    try:
        lines = _ADDRESSES_V6.read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    rows = [line.split() for line in lines]
    return [
        (int(index, 16), str(ip_address(bytes.fromhex(digits))), scope)
        for digits, index, _, scope, *_ in rows
    ]


def _refusal(key: str, detail: str) -> ConfigError:
    return ConfigError(
        key=key,
        detail=detail,
        hint="write a group as 239.192.7.1:4711 or [ff15::7:1]:4711",
    )
