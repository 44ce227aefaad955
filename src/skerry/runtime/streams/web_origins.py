"""Decides which web pages may open a WebSocket to a node, or read the pages that it serves.

A browser lets any page connect to any host, and sends the origin of the page in the header
`Origin`. Other programs send no `Origin`. Without this check, any web page could connect to the
node on the computer of its reader.

The host name of a page may also resolve to this computer for a moment (DNS rebinding). The browser
then treats the node as the host of that page, lets the page read the responses, and sends no
`Origin`. Only the header `Host` reveals it: it has the host name of the page.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

ANY_ORIGIN = "*"
"""Allows all pages."""


def origin_fault(
    *,
    origins: Sequence[str],
    hosts: Sequence[str],
    allowed: Collection[str],
    own_names: Collection[str],
) -> str | None:
    """Why a page may not connect, from the headers `Origin` and `Host` of its request; or None.

    The configured origins are allowed, and pages of the host to which the request is addressed.
    That host must be an address, `localhost` or a name of this computer: any other name may be one
    that an attacker made resolve to this computer (DNS rebinding).
    """
    if not origins or ANY_ORIGIN in allowed:
        return None
    if len(origins) > 1 or len(hosts) != 1:
        return "the request must have one Origin and one Host"
    origin = origins[0]
    if origin in allowed:
        return None
    host = _host_of(f"//{hosts[0]}")
    if host and host == _host_of(origin) and _is_own(host, own_names):
        return None
    return f"pages of {origin!r:.100} may not connect here"


def host_fault(hosts: Sequence[str], own_names: Collection[str]) -> str | None:
    """Why a request is not for this computer, from its headers `Host`; or None.

    Addresses, `localhost` and names of this computer are allowed. Programs may omit the header,
    browsers do not.
    """
    if not hosts:
        return None
    if len(hosts) > 1:
        return "the request has more than one Host"
    host = _host_of(f"//{hosts[0]}")
    if host and _is_own(host, own_names):
        return None
    return f"{hosts[0]!r:.100} is not a name of this computer"


def own_names() -> frozenset[str]:
    """Host names of this computer."""
    name = socket.gethostname().lower()
    return frozenset({name, name.partition(".")[0], f"{name.partition('.')[0]}.local"})


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_own(host: str, own_names: Collection[str]) -> bool:
    if host == "localhost" or host in own_names:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
