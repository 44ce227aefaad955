"""Sender identities, each unique within a group.

The Java program distinguishes senders only by a sum of 32 bits, that of sender id and start time.
It would confuse two senders with equal sums, so a sender announces a start time up to four seconds
early, at random, and draws again while the sum is in use in the group.

The application id is free to choose. Ours carries a mark, which distinguishes programs of this
project from Java programs: a publisher has to respect their limits, and they do not answer the
messages that this project adds.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from random import Random
from typing import Final

from skerry.protocol.distributor.config import Dialect

_U32: Final = 0xFFFFFFFF
_LEAD_BITS: Final = 12
"""A sender may announce its start up to four seconds early."""
_MARK: Final = 0x534B
"""The exclusive-or mark in the upper half of our application ids; Java programs have none."""
_DRAW_COUNT_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderIdentity:
    address: bytes
    """4 bytes."""
    sender_id: int
    start_ms: int
    application_id: int

    def start(self, dialect: Dialect) -> int:
        """Return the start as in headers: 32 bits."""
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
) -> SenderIdentity:
    """Return an identity for a sender that starts now; `taken_sums` are in use in the group."""
    assert len(address) == 4
    start_ms = draw_start_ms(sender_id=sender_id, wall_ms=wall_ms, rng=rng, taken_sums=taken_sums)
    return SenderIdentity(
        address=address,
        sender_id=sender_id,
        start_ms=start_ms,
        application_id=mark_application(address, process_id),
    )


def draw_start_ms(
    *, sender_id: int, wall_ms: int, rng: Random, taken_sums: Container[int] = ()
) -> int:
    """Return a start time close to now whose sum with the sender id is not taken."""
    start_ms = wall_ms
    for _ in range(_DRAW_COUNT_MAX):
        start_ms = max(0, wall_ms - rng.getrandbits(_LEAD_BITS))
        if java_sum(sender_id, start_ms) not in taken_sums:
            break
    return start_ms


def mark_application(address: bytes, process_id: int) -> int:
    """Return the application id of a process, as in the Java program but with our mark."""
    low = int.from_bytes(address[2:], "big") ^ _MARK
    return (low << 16) + (process_id & 0xFFFF)


def is_marked(address: bytes, application_id: int) -> bool:
    """Return whether an application id has the mark of this project."""
    return application_id >> 16 == int.from_bytes(address[2:], "big") ^ _MARK


def java_sum(sender_id: int, start: int) -> int:
    """Return the sum by which the Java program distinguishes senders."""
    return (sender_id + start) & _U32


def address_bytes(host: str) -> bytes:
    """Return 4 bytes for an address: IPv4 itself, or the beginning of a hash of IPv6."""
    packed = ip_address(host.partition("%")[0]).packed
    return packed if len(packed) == 4 else sha256(packed).digest()[:4]
