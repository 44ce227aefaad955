"""Which web pages may open a WebSocket to a node, or read the pages that it serves.

A browser lets any page connect to any host, and tells that host in `Origin` where the page came
from. Programs that are no browsers send no `Origin`. Without a look at it, any page that somebody
opens could talk to the node on that person's computer.

A page may also let its own name resolve to this computer for a moment (DNS rebinding). The browser
then treats the node as the host of that page, lets the page read the responses, and sends no
`Origin`. Only `Host` shows it: it has the name of the page's host.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

__all__ = ["ANY_ORIGIN", "host_fault", "origin_fault", "own_names"]

ANY_ORIGIN = "*"
"""Stands for all pages."""


def origin_fault(
    *,
    origins: Sequence[str],
    hosts: Sequence[str],
    allowed: Collection[str],
    own_names: Collection[str],
) -> str | None:
    """Why a page may not connect, from the headers `Origin` and `Host` of its request.

    Allowed are the origins that are named, and pages of the host that the request is for. That
    host must be an address, `localhost` or a name of this computer: any other name may be one
    that a stranger made point here for a moment, to look like the same host.
    """
    if not origins or ANY_ORIGIN in allowed:
        return None
    if len(origins) > 1 or len(hosts) != 1:
        return "the request has not one Origin and one Host"
    origin = origins[0]
    if origin in allowed:
        return None
    host = _host_of(f"//{hosts[0]}")
    if host and host == _host_of(origin) and _is_own(host, own_names):
        return None
    return f"pages of {origin!r:.100} may not connect here"


def host_fault(hosts: Sequence[str], own_names: Collection[str]) -> str | None:
    """Why a request is not for this computer, from its headers `Host`.

    Allowed are addresses, `localhost` and names of this computer. Programs may leave the header
    out, browsers do not.
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
    """Names of this computer."""
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
