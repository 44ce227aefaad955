"""Connections that have not completed their handshake: a bounded number of them."""

from __future__ import annotations

import sys
from typing import Generic, TypeVar

Connection = TypeVar("Connection")


class PendingConnections(Generic[Connection]):
    """Connections by host, those that waited longest first.

    When it is full, the connection that waited longest is removed: it had the most time to finish
    its handshake. If the newest were removed, silent connections could keep all others out.
    """

    def __init__(
        self, *, count_max: int = sys.maxsize, per_host_count_max: int = sys.maxsize
    ) -> None:
        assert count_max > 0
        assert per_host_count_max > 0
        self._count_max = count_max
        self._per_host_count_max = per_host_count_max
        self._hosts: dict[str, dict[Connection, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, connection: Connection, host: str) -> Connection | None:
        """Add a connection. Returns the one that was removed for it and has to be closed."""
        removed: Connection | None = None
        if len(self._hosts.get(host, ())) >= self._per_host_count_max:
            removed = self.remove_oldest(host)
        elif self._count >= self._count_max:
            removed = self.remove_oldest()
        self._hosts.setdefault(host, {})[connection] = None
        self._count += 1
        return removed

    def remove_oldest(self, host: str | None = None) -> Connection | None:
        """Remove and return the connection of a host that waited longest; None if there is none.

        Without `host`, it is one of the host with the most connections: a host with few of them
        must not suffer from the flood of another one.
        """
        if host is None and self._hosts:
            host = max(self._hosts, key=lambda name: len(self._hosts[name]))
        if host is None or host not in self._hosts:
            return None
        oldest = next(iter(self._hosts[host]))
        self.remove(oldest, host)
        return oldest

    def remove(self, connection: Connection, host: str) -> None:
        """Remove a connection that became a client or was closed, if it is still here."""
        waiting = self._hosts.get(host, {})
        if connection not in waiting:
            return
        del waiting[connection]
        self._count -= 1
        if not waiting:
            del self._hosts[host]

    def waiting(self) -> list[Connection]:
        return [connection for waiting in self._hosts.values() for connection in waiting]
