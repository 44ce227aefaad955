"""Creates and tunes sockets: bound to all addresses of a host, or to a file with permissions.

A socket that is bound and does not listen yet accepts no connections, so the permissions of its
file are set in between.
"""

from __future__ import annotations

import asyncio
import errno
import grp
import os
import resource
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_PORT_ATTEMPTS: Final = 20
"""Number of ports to try until one is free on all addresses of a host."""
_SEND_BYTES_MIN: Final = 1024 * 1024
"""Size of the send buffer in DOTS hosts."""
_TCP_SEND_BYTES: Final = Path("/proc/sys/net/ipv4/tcp_wmem")


async def bind_tcp(host: str, port: int) -> list[socket.socket]:
    """Sockets at all addresses of a host, with the same port; OSError if one is in use."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    for left in reversed(range(_PORT_ATTEMPTS)):
        try:
            return _bind_all(addresses, port)
        except OSError as error:
            # A port that the system chose at one address may be in use at another.
            if port or not left or error.errno != errno.EADDRINUSE or len(addresses) == 1:
                raise
    raise AssertionError("the last try either returns or raises")


class SocketFile:
    """The file of a Unix socket, to be removed by the node that created it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = _identity(path)

    def remove(self) -> None:
        """Remove the file, unless another node has replaced it."""
        if _identity(self._path) == self._identity:
            self._path.unlink(missing_ok=True)


def bind_unix(
    path: Path, *, mode: int, group: str | None = None
) -> tuple[socket.socket, SocketFile]:
    """A Unix socket at a path, with the permissions `mode` and `group`.

    A socket that a crashed node left is replaced. OSError if a process listens there.
    """
    _free(path)
    made = socket.socket(socket.AF_UNIX)
    try:
        made.setblocking(False)
        made.bind(os.fspath(path))
        file = SocketFile(path)
        try:
            # Before it listens: until then it accepts no connections.
            path.chmod(mode)
            if group is not None:
                os.chown(path, -1, _group_id(group))
        except BaseException:
            file.remove()
            raise
    except BaseException:
        made.close()
        raise
    return made, file


SILENCE_S_MAX: Final = 25
"""Time without any acknowledgement after which the computer of a peer counts as gone, so that other
clients get its claims. Sent bytes may wait longer than that: the program may only be stopped."""
_KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Keep-alive probes on an idle connection: 10 s + 3 * 5 s = `SILENCE_S_MAX`."""


def tune(raw: socket.socket) -> None:
    """Set the options of a connection: no delay, keep-alive probes, size of the send buffer."""
    if raw.family == socket.AF_UNIX:
        _set_send_buffer(raw)
        return
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        # Without these options the system probes after hours.
        if hasattr(socket, name):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    # Linux grows the buffer of a TCP connection as needed, but not any more once a size was set;
    # and the limit for a size that is set is far lower.
    if not _buffers_grow():
        _set_send_buffer(raw)


def raise_descriptor_limit() -> int:
    """Raise the limit of open files of this process to the highest allowed; the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _bind_all(
    addresses: Sequence[tuple[int, tuple[Any, ...]]],
    port: int,
) -> list[socket.socket]:
    bound: list[socket.socket] = []
    try:
        for family, address in addresses:
            made = socket.socket(family, socket.SOCK_STREAM)
            bound.append(made)
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # Otherwise the socket for all IPv6 addresses would also use those of IPv4.
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind((address[0], port, *address[2:]))
            port = made.getsockname()[1]
    except BaseException:
        for made in bound:
            made.close()
        raise
    return bound


def _free(path: Path) -> None:
    """Remove a socket that a crashed node left; OSError if a process listens there."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        # The system answers for a Unix socket at once. If it would block, a process listens.
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except BlockingIOError:
            pass
    raise OSError(errno.EADDRINUSE, "another node listens there")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _group_id(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise OSError(errno.ENOENT, f"there is no group {name} on this computer") from None


def _set_send_buffer(raw: socket.socket) -> None:
    if raw.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < _SEND_BYTES_MIN:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES_MIN)


def _buffers_grow() -> bool:
    """Whether the system grows TCP buffers to the wanted size by itself."""
    try:
        return int(_TCP_SEND_BYTES.read_text(encoding="ascii").split()[2]) >= _SEND_BYTES_MIN
    except (OSError, ValueError, IndexError):
        return False
