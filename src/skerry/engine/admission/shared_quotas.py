"""Shared quotas: what all clients of a node use together, and what one address may use.

Each resource has a limit for the whole node and one for all clients of an address. A tenth of the
limit of the node is reserved for trusted clients: those of Unix sockets, and those that proved
their identity by a certificate or a secret. Untrusted clients, of any number of addresses, cannot
use up what trusted ones need.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from skerry.engine.admission.quotas import ClientLimits
from skerry.errors import LimitExceeded

_RESERVED_PART: Final = 10
"""The divisor of a limit that gives the part reserved for trusted clients."""


class Resource(enum.Enum):
    """A resource: its name, and the limits of the node and of an address."""

    UNFINISHED = ("bytes of unfinished frames", "unfinished_bytes")
    WAITING = ("bytes that wait to be sent", "waiting_bytes")
    JOINS = ("subscriptions", "join_count")
    PATTERNS = ("subject patterns", "pattern_count")
    VIEWS = ("filtered subscriptions", "view_count")
    VIEW_PARTS = ("comparisons in filtered subscriptions", "view_part_count")
    VIEW_OBJECTS = ("objects in filtered subscriptions", "view_object_count")
    CONFLATED = ("conflated objects that wait to be sent", "conflated_count")
    TYPE_BYTES = ("bytes of type descriptions", "type_bytes")

    def __init__(self, words: str, name: str) -> None:
        self.words = words
        self.node_key = f"{name}_per_node_max"
        self.address_key = f"{name}_per_address_max"


_MEMORY: Final = (
    Resource.UNFINISHED,
    Resource.WAITING,
    Resource.VIEW_OBJECTS,
    Resource.CONFLATED,
)
"""Resources of which the client that uses most is disconnected when a limit is exceeded."""


class Holder:
    """What one client uses. The address is empty if the client has none."""

    __slots__ = ("address", "is_present", "is_trusted", "used")

    def __init__(self, address: str, *, is_trusted: bool) -> None:
        self.address = address
        self.is_trusted = is_trusted
        self.is_present = True
        """Whether the client is connected; what it uses is not counted any more after that."""
        self.used: Counter[Resource] = Counter()


class Excess(NamedTuple):
    """A limit that is exceeded."""

    error: LimitExceeded
    address: str
    """The address whose limit it is; empty for the limit of all clients."""


class SharedQuotas:
    """What all clients of a node use."""

    def __init__(self, limits: ClientLimits) -> None:
        self.limits = limits
        """May be replaced; new limits apply from then on."""
        self.overdrawn: dict[tuple[Holder, Resource], None] = {}
        """Clients for which `note_excess` found a limit exceeded; the node empties it."""
        self._used: Counter[Resource] = Counter()
        self._by_address: dict[str, Counter[Resource]] = {}

    def used(self, share: Resource, address: str | None = None) -> int:
        """What all clients use, or those of an address."""
        if address is None:
            return self._used[share]
        return self._by_address.get(address, Counter())[share]

    def take(self, holder: Holder, amounts: Mapping[Resource, int]) -> None:
        """Add to what a client uses. Raises LimitExceeded past a limit, and adds nothing then."""
        for share, amount in amounts.items():
            self.set(holder, share, holder.used[share] + amount)
        for share, amount in amounts.items():
            found = self.excess(holder, share) if amount > 0 else None
            if found is not None:
                self.give_back(holder, amounts)
                raise found.error

    def give_back(self, holder: Holder, amounts: Mapping[Resource, int]) -> None:
        """Subtract from what a client uses."""
        for share, amount in amounts.items():
            self.set(holder, share, holder.used[share] - amount)

    def set(self, holder: Holder, share: Resource, amount: int) -> None:
        """Set what a client uses, even past a limit."""
        change = amount - holder.used[share]
        holder.used[share] = amount
        self._used[share] += change
        if holder.address:
            self._by_address.setdefault(holder.address, Counter())[share] += change

    def excess(self, holder: Holder, share: Resource) -> Excess | None:
        """The limit that a client's address or all clients exceed; None if there is none."""
        limit = getattr(self.limits, share.address_key)
        if holder.address:
            used = self.used(share, holder.address)
            if used > limit:
                what = f"{share.words} of address {holder.address} ({share.address_key})"
                return Excess(LimitExceeded(what=what, value=used, limit=limit), holder.address)
        limit = getattr(self.limits, share.node_key)
        if not holder.is_trusted:
            limit = open_part(limit)
        if self._used[share] > limit:
            what = f"{share.words} of all clients ({share.node_key})"
            return Excess(LimitExceeded(what=what, value=self._used[share], limit=limit), "")
        return None

    def note_excess(self, holder: Holder, share: Resource) -> Excess | None:
        """The same; an excess is also noted in `overdrawn`.

        For callers that cannot disconnect a client themselves.
        """
        found = self.excess(holder, share)
        if found is not None:
            self.overdrawn[holder, share] = None
        return found

    def release_memory(self, holder: Holder) -> None:
        """Subtract the memory of a client that disconnected; the cleanup will free it."""
        holder.is_present = False
        for share in _MEMORY:
            self.set(holder, share, 0)

    def left(self, holder: Holder) -> None:
        """Subtract everything that a client used, after its cleanup."""
        for share in list(holder.used):
            self.set(holder, share, 0)
        if holder.address and not any(self._by_address.get(holder.address, {}).values()):
            self._by_address.pop(holder.address, None)


def open_part(limit: int) -> int:
    """The part of a limit that untrusted clients may use."""
    return limit - limit // _RESERVED_PART
