"""Connections that are not clients yet: only so many, and the same ones not for long."""

from __future__ import annotations

import sys
from typing import Generic, TypeVar

__all__ = ["PendingConnections"]

Guest = TypeVar("Guest")


class PendingConnections(Generic[Guest]):
    """Waiting connections by host, those that waited longest first.

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
        self._hosts: dict[str, dict[Guest, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def enter(self, guest: Guest, host: str) -> Guest | None:
        """Let one more in; gives the one who has to go for it, and has left by that."""
        goes: Guest | None = None
        if len(self._hosts.get(host, ())) >= self._per_host_count_max:
            goes = self._turn_out(host)
        elif self._count >= self._count_max:
            # Of those who are most: a host with few of them must not pay for another's crowd.
            goes = self._turn_out(max(self._hosts, key=lambda name: len(self._hosts[name])))
        self._hosts.setdefault(host, {})[guest] = None
        self._count += 1
        return goes

    def turn_out(self, host: str | None = None) -> Guest | None:
        """Remove the one that waited longest, of a host or of the host with most; None if none."""
        if host is None and self._hosts:
            host = max(self._hosts, key=lambda name: len(self._hosts[name]))
        return self._turn_out(host) if host is not None and host in self._hosts else None

    def leave(self, guest: Guest, host: str) -> None:
        """One became a client, or is gone; nothing if it has left before."""
        waiting = self._hosts.get(host, {})
        if guest not in waiting:
            return
        del waiting[guest]
        self._count -= 1
        if not waiting:
            del self._hosts[host]

    def guests(self) -> list[Guest]:
        """All who wait."""
        return [guest for waiting in self._hosts.values() for guest in waiting]

    def _turn_out(self, host: str) -> Guest:
        oldest = next(iter(self._hosts[host]))
        self.leave(oldest, host)
        return oldest
