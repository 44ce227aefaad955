"""Sockets before anybody uses them: bound to all addresses of a host, or to a file with its rights.

A socket that is bound and does not listen yet lets nobody in, which is the time to set rights.
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

__all__ = [
    "SILENCE_S_MAX",
    "SocketFile",
    "bind_tcp",
    "bind_unix",
    "raise_descriptor_limit",
    "tune",
]

_PORT_TRIES: Final = 20
"""How many ports to try until one is free on all addresses of a host."""
_SEND_BYTES_MIN: Final = 1024 * 1024
"""Room on its way out that hosts of DOTS give a connection."""
_TCP_SEND_BYTES: Final = Path("/proc/sys/net/ipv4/tcp_wmem")


async def bind_tcp(host: str, port: int) -> list[socket.socket]:
    """Sockets at all addresses of a host, all with the same port; OSError when one is taken."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = list(dict.fromkeys((family, place) for family, _, _, _, place in found))
    for left in reversed(range(_PORT_TRIES)):
        try:
            return _bind_all(addresses, port)
        except OSError as error:
            # A port that the system chose at one address may be in use at another.
            if port or not left or error.errno != errno.EADDRINUSE or len(addresses) == 1:
                raise
    raise AssertionError("the last try either returns or raises")


class SocketFile:
    """The file of a Unix socket, which is removed by who made it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = _identity(path)

    def remove(self) -> None:
        """Remove the file, unless another node has put its own there since."""
        if _identity(self._path) == self._identity:
            self._path.unlink(missing_ok=True)


def bind_unix(
    path: Path, *, mode: int, group: str | None = None
) -> tuple[socket.socket, SocketFile]:
    """A socket at a path, which only those may use whom `mode` and `group` permit.

    A socket that a node left behind is replaced. OSError when one answers there.
    """
    _free(path)
    made = socket.socket(socket.AF_UNIX)
    try:
        made.setblocking(False)
        made.bind(os.fspath(path))
        file = SocketFile(path)
        try:
            # Before it listens: up to then nobody comes in, whatever the rights are.
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
"""How long the computer of a peer may answer nothing until it counts as gone: what it held is then
for others. There is no bound on how long sent bytes may wait, since a peer may well be stopped."""
_KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""When a peer is asked to which nothing is under way, how often and how long: so long in all."""


def tune(raw: socket.socket) -> None:
    """Set what each end of a connection has: no delay, a look whether the peer lives, room."""
    if raw.family == socket.AF_UNIX:
        _widen(raw)
        return
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        # Where the system has no such option it looks after hours.
        if hasattr(socket, name):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    # Linux lets the buffer of a TCP connection grow to what it needs, but no more once a size was
    # set; and a size that is set is cut to a limit far lower than the growth's.
    if not _grows():
        _widen(raw)


def raise_descriptor_limit() -> int:
    """Let this process have as many files and connections open as it may; gives the count."""
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
        for family, place in addresses:
            made = socket.socket(family, socket.SOCK_STREAM)
            bound.append(made)
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # Or the socket for all addresses of the sixth version would take the fourth's.
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind((place[0], port, *place[2:]))
            port = made.getsockname()[1]
    except BaseException:
        for made in bound:
            made.close()
        raise
    return bound


def _free(path: Path) -> None:
    """Remove a socket that a node left behind; OSError when one answers."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        # The system answers for a Unix socket at once; where it would wait, there is somebody.
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


def _widen(raw: socket.socket) -> None:
    if raw.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < _SEND_BYTES_MIN:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES_MIN)


def _grows() -> bool:
    """Whether the system lets TCP buffers grow to what is wanted by themselves."""
    try:
        return int(_TCP_SEND_BYTES.read_text(encoding="ascii").split()[2]) >= _SEND_BYTES_MIN
    except (OSError, ValueError, IndexError):
        return False
