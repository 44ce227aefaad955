"""Origins of connections, and the networks that rules name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, Literal, TypeAlias

OriginKind: TypeAlias = Literal["tcp", "tls", "websocket", "unix", "inside"]

_KINDS_OF_THIS_COMPUTER: Final = ("unix", "inside")
_IPV6_SHARED_BITS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the listener knows about a connection before its handshake."""

    kind: OriginKind
    host: str = ""
    """The address of the other end, without a port; empty if there is none."""
    certificate: str = ""
    """The common name in the certificate of a client of mutual TLS; empty without one."""

    @property
    def address(self) -> IPv4Address | IPv6Address | None:
        """The parsed address; None if there is none or if it is not an IP address."""
        try:
            address = ip_address(self.host)
        except ValueError:
            return None
        # A socket of both families reports IPv4 addresses as mapped ones; rules name IPv4.
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return mapped or address

    @property
    def share(self) -> str:
        """The address whose quotas a client uses; empty if it has none.

        For IPv6 it is the /64 network, as one computer has all addresses of such a network.
        Unix sockets, and clients inside the program of the node, have no address.
        """
        if self.kind in _KINDS_OF_THIS_COMPUTER:
            return ""
        address = self.address
        if isinstance(address, IPv6Address) and not address.is_loopback:
            return str(ip_network((address, _IPV6_SHARED_BITS), strict=False))
        return str(address or self.host)

    @property
    def is_trusted(self) -> bool:
        """Whether a connection is trusted before its handshake."""
        return self.kind in _KINDS_OF_THIS_COMPUTER or self.certificate != ""

    @property
    def is_local(self) -> bool:
        """Whether the client is on this computer: Unix socket, inside the program, or loopback."""
        if self.kind in _KINDS_OF_THIS_COMPUTER:
            return True
        address = self.address
        return address is not None and address.is_loopback


INSIDE: Final = Origin(kind="inside")
"""A client in the program of the node."""


_PatternKind: TypeAlias = Literal["", "unix", "inside", "local"]
_PATTERN_KINDS: Final[dict[str, _PatternKind]] = {
    "unix": "unix",
    "inside": "inside",
    "local": "local",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginPattern:
    """The set of origins that a rule names; by default all of them."""

    kind: _PatternKind = ""
    network: IPv4Network | IPv6Network | None = None

    def has(self, origin: Origin) -> bool:
        if self.kind == "local":
            return origin.is_local
        if self.kind:
            return origin.kind == self.kind
        if self.network is None:
            return True
        address = origin.address if origin.kind not in _KINDS_OF_THIS_COMPUTER else None
        return address is not None and address in self.network


@lru_cache(maxsize=1024)
def parse_origin_pattern(text: str) -> OriginPattern:
    """Parse a set of origins: empty, `unix`, `inside`, `local`, an address or a network.

    Raises ValueError for anything else.
    """
    if text == "":
        return OriginPattern()
    kind = _PATTERN_KINDS.get(text)
    if kind is not None:
        return OriginPattern(kind=kind)
    try:
        return OriginPattern(network=ip_network(text, strict=False))
    except ValueError:
        raise ValueError(
            f"{text!r} is not a network: write unix, inside, local, an address, or a network"
            " such as 10.1.0.0/16"
        ) from None
