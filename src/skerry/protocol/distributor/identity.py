"""Who a sender is: an identity that no other sender of the group has.

The Java program tells senders apart by a sum of 32 bits alone, that of sender id and start time.
Two senders with equal sums would be one to it, so a start time has random low bits, and is drawn
again while the sum is one that was heard in the group.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from random import Random
from typing import Final

from skerry.protocol.distributor.config import Dialect

__all__ = ["Identity", "address_bytes", "draw_identity", "draw_start_ms", "java_sum"]

_U32: Final = 0xFFFFFFFF
_RANDOM_BITS: Final = 12
"""The start may be told up to four seconds early; it serves to tell lives apart, not as a clock."""
_DRAW_COUNT_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a sender's datagrams say about it."""

    address: bytes
    """4 bytes."""
    sender_id: int
    start_ms: int
    application_id: int

    def start(self, dialect: Dialect) -> int:
        """The start as it stands in headers: 32 bits."""
        start = self.start_ms if dialect is Dialect.JAVA else self.start_ms // 1000
        return start & _U32


def draw_identity(
    *,
    address: bytes,
    sender_id: int,
    process_id: int,
    wall_ms: int,
    rng: Random,
    taken_sums: Container[int] = (),
) -> Identity:
    """An identity for a sender that starts now; `taken_sums` are those heard in the group."""
    assert len(address) == 4
    start_ms = draw_start_ms(sender_id=sender_id, wall_ms=wall_ms, rng=rng, taken_sums=taken_sums)
    low = int.from_bytes(address[2:], "big")
    return Identity(
        address=address,
        sender_id=sender_id,
        start_ms=start_ms,
        application_id=((low << 16) + (process_id & 0xFFFF)) & _U32,
    )


def draw_start_ms(
    *, sender_id: int, wall_ms: int, rng: Random, taken_sums: Container[int] = ()
) -> int:
    """A start time of about now, whose sum with the sender id nobody has."""
    start_ms = wall_ms
    for _ in range(_DRAW_COUNT_MAX):
        start_ms = max(0, wall_ms - rng.getrandbits(_RANDOM_BITS))
        if java_sum(sender_id, start_ms) not in taken_sums:
            break
    return start_ms


def java_sum(sender_id: int, start: int) -> int:
    """By what the Java program tells senders apart."""
    return (sender_id + start) & _U32


def address_bytes(host: str) -> bytes:
    """The 4 bytes that stand for an address: itself, or the beginning of a hash of a longer one."""
    packed = ip_address(host.partition("%")[0]).packed
    return packed if len(packed) == 4 else sha256(packed).digest()[:4]
