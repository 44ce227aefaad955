"""Keeps a second broker from taking over the IPC sockets of a running one.

ZeroMQ replaces an existing socket file when it binds, so without this a second broker would cut off
the clients of the first without any error.
"""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress

from skerry.errors import ConnectFailed


class BrokerLock:
    """The right to the IPC sockets of a name."""

    def __init__(self, base: str) -> None:
        """Raises ConnectFailed if another broker runs under this name, also one of Goby."""
        self._descriptor = -1
        path = f"{base}.lock"
        try:
            self._descriptor = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise _taken(base) from None
        except OSError as error:
            self.release()
            raise ConnectFailed(f"cannot lock {path}: {error.strerror}") from None
        if _is_alive(f"{base}.manager"):
            self.release()
            raise _taken(base)

    def release(self) -> None:
        """Give the right up. The file stays: removing it could remove that of another broker."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1


def _taken(base: str) -> ConnectFailed:
    error = ConnectFailed(f"another broker already uses {base}.manager")
    error.hint = "end it, or choose another platform or socket_name"
    return error


def _is_alive(path: str) -> bool:
    """Whether a program accepts connections at a Unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            # Its queue of new connections is full.
            return True
        except OSError:
            return False
        return True
