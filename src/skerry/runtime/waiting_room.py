"""Those who came in and are no clients yet: only so many, and not the same ones for long."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["WaitingRoom"]

Guest = TypeVar("Guest")


class WaitingRoom(Generic[Guest]):
    """Keeps who waits, by the host it came from, longest first.

    Where it is full, the one who waited longest has to go: it had the most time to say what it
    wants. Were the newest turned away, some who say nothing would keep everybody out.
    """

    def __init__(self, *, count_max: int, per_host_count_max: int) -> None:
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
