"""Network interfaces of this computer, by name or by address, with the facts multicast needs."""

from __future__ import annotations

import socket
import struct
import sys
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from skerry.errors import ConfigError, ConnectFailed
from skerry.suggestions import nearest

__all__ = ["Interface", "find_interface", "list_interfaces", "parse_group"]

_GET_ADDRESS: Final = 0x8915
_GET_FLAGS: Final = 0x8913
_GET_MTU: Final = 0x8921
_IS_UP: Final = 0x1
_IS_LOOPBACK: Final = 0x8
_HAS_MULTICAST: Final = 0x1000
_MTU_UNKNOWN: Final = 1500
_ADDRESSES_V6: Final = Path("/proc/net/if_inet6")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """An interface, with its address of one family."""

    name: str
    index: int
    address: str
    """Empty if it has no address of the family."""
    mtu: int = _MTU_UNKNOWN
    is_up: bool = True
    is_loopback: bool = False
    has_multicast: bool = True
    """Whether its flags state multicast. Those of the loopback interface do not, but it works."""


def parse_group(text: str) -> tuple[str, int]:
    """Parse `239.192.7.1:4711` or `[ff15::1]:4711`; ConfigError for anything else."""
    host, colon, port = text.rpartition(":")
    try:
        group = ip_address(host.removeprefix("[").removesuffix("]"))
        number = int(port)
    except ValueError:
        raise _refusal(text, "it is not of the form ADDRESS:PORT") from None
    if not colon or (group.version == 6) != host.startswith("["):
        raise _refusal(text, "write an IPv6 address in brackets, and an IPv4 address without")
    if not group.is_multicast:
        raise _refusal(text, f"{group} is not the address of a multicast group")
    if not 0 < number < 65_536:
        raise _refusal(text, f"{number} is not a port")
    return str(group), number


def find_interface(text: str, *, group: str, port: int) -> Interface:
    """The interface with this name or address; for an empty text the one the system chooses.

    ConfigError if there is no such interface, ConnectFailed if the system has no route.
    """
    family = socket.AF_INET6 if ":" in group else socket.AF_INET
    known = list_interfaces(family)
    if not text:
        return _chosen(known, family, group, port)
    for interface in known:
        if text in (interface.name, interface.address):
            return interface
    try:
        address = str(ip_address(text))
    except ValueError:
        names = [interface.name for interface in known]
        guess = nearest(text, names)
        raise ConfigError(
            key="distributor.interface",
            origin="given",
            detail=f"there is no network interface {text!r}",
            hint=f"did you mean {guess!r}?" if guess else f"there are {', '.join(names)}",
        ) from None
    return _with_further_address(address, family)


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


def _chosen(known: list[Interface], family: int, group: str, port: int) -> Interface:
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
    return _with_further_address(address, family)


def _with_further_address(address: str, family: int) -> Interface:
    """The interface with an address that is not listed: it may have several."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            raise ConfigError(
                key="distributor.interface",
                origin="given",
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
    try:
        lines = _ADDRESSES_V6.read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    found: dict[int, str] = {}
    for line in lines:
        digits, index, _, scope, *_ = line.split()
        address = str(ip_address(bytes.fromhex(digits)))
        if int(index, 16) not in found or scope == "00":
            found[int(index, 16)] = address
    return found


def _refusal(text: str, detail: str) -> ConfigError:
    return ConfigError(
        key="distributor.group",
        origin=repr(text),
        detail=detail,
        hint="write a group as 239.192.7.1:4711 or [ff15::7:1]:4711",
    )
