"""Delays guessing of secrets: after a wrong secret, the next one from the same address has to wait.

The delay doubles with each wrong secret up to a bound, and is reset after a while without one.
Right and wrong secrets wait alike; otherwise a guess that is not accepted at once would be known to
be wrong. Existing connections and clients of other addresses are not affected.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

from skerry.engine.admission.origins import Origin
from skerry.protocol.access.server import ConnectAsked
from skerry.protocol.deadlines import Deadlines

if TYPE_CHECKING:
    from skerry.engine.clients import Client


ATTEMPT_ADDRESS_COUNT_MAX: Final = 10_000
"""Addresses of clients with wrong secrets that are remembered. Beyond it the oldest is
forgotten."""
ATTEMPT_DELAY_S_MAX: Final = 8
"""The longest delay of the check of a secret after wrong secrets from the same address. It permits
some ten thousand attempts per day, and a client with the right secret does not time out."""
ATTEMPT_WAITING_COUNT_MAX: Final = 100
"""Clients of one address that wait for that check. Others are rejected at once."""

_FIRST_DELAY_NS: Final = 250_000_000
_DELAY_NS_MAX: Final = ATTEMPT_DELAY_S_MAX * 1_000_000_000
_FORGET_NS: Final = 600_000_000_000
"""Time without a wrong secret after which an address is forgotten."""
_EVICTION_TRIES: Final = 8

_Attempt: TypeAlias = "tuple[Client, ConnectAsked]"


class _Address:
    """An address that sent wrong secrets."""

    __slots__ = ("failed_count", "failed_ns", "open_ns", "waiting")

    def __init__(self) -> None:
        self.failed_count = 0
        self.failed_ns = 0
        """When the last wrong secret was received."""
        self.open_ns = 0
        """When the next secret may be checked."""
        self.waiting: deque[_Attempt] = deque()


class SecretDelays:
    """The addresses that have to wait, and their waiting clients."""

    def __init__(self) -> None:
        self._addresses: dict[str, _Address] = {}
        """Addresses by the time of their last wrong secret, the oldest first."""
        self._due: Deadlines[str] = Deadlines()

    def __len__(self) -> int:
        """Addresses that are remembered."""
        return len(self._addresses)

    def must_wait(self, origin: Origin, now_ns: int) -> bool:
        address = self._addresses.get(origin.share)
        return address is not None and (now_ns < address.open_ns or bool(address.waiting))

    def wait(self, client: Client, asked: ConnectAsked) -> bool:
        """Queue a client whose address `must_wait`; False if too many are queued already."""
        key = client.origin.share
        address = self._addresses[key]
        if len(address.waiting) >= ATTEMPT_WAITING_COUNT_MAX:
            address.waiting = deque(item for item in address.waiting if item[0].is_present)
        if len(address.waiting) >= ATTEMPT_WAITING_COUNT_MAX:
            return False
        address.waiting.append((client, asked))
        self._due.set(key, address.open_ns)
        return True

    def failed(self, origin: Origin, now_ns: int) -> str:
        """Count a wrong secret. Returns a message with the count and the delay of the address."""
        key = origin.share
        address = self._addresses.pop(key, None)
        if address is None:
            self._make_room()
            address = _Address()
        elif now_ns - address.failed_ns > _FORGET_NS:
            address.failed_count = 0
        self._addresses[key] = address
        address.failed_count += 1
        address.failed_ns = now_ns
        # The count is not bounded, so the exponent has to be.
        delay_ns = min(_FIRST_DELAY_NS << min(address.failed_count - 1, 32), _DELAY_NS_MAX)
        address.open_ns = now_ns + delay_ns
        if address.waiting:
            self._due.set(key, address.open_ns)
        return (
            f"wrong secret, number {address.failed_count} of this address;"
            f" the next one waits {delay_ns / 1e9:g} s"
        )

    def take_due(self, now_ns: int) -> list[_Attempt]:
        """Remove and return the clients whose secrets are due, at most one of each address.

        Call `failed` for those with a wrong secret, then `deadline_ns`.
        """
        taken: list[_Attempt] = []
        for key, _ in self._due.take_due(now_ns):
            waiting = self._addresses[key].waiting
            while waiting:
                attempt = waiting.popleft()
                if attempt[0].is_present:
                    taken.append(attempt)
                    break
            if waiting:
                self._due.set(key, now_ns)
        return taken

    def deadline_ns(self) -> int | None:
        """When to call `take_due`."""
        return self._due.next_ns()

    def _make_room(self) -> None:
        for _ in range(_EVICTION_TRIES):
            if len(self._addresses) < ATTEMPT_ADDRESS_COUNT_MAX:
                return
            key = next(iter(self._addresses))
            oldest = self._addresses.pop(key)
            if oldest.waiting:
                # The number of connections bounds how many addresses have waiting clients.
                self._addresses[key] = oldest
