"""Sender identities, each unique within a group.

The Java program tells senders apart by a sum of 32 bits alone, that of sender id and start time.
It would mix up two senders with equal sums, so a sender announces a start time up to four seconds
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

__all__ = [
    "SenderIdentity",
    "address_bytes",
    "draw_identity",
    "draw_start_ms",
    "is_marked",
    "java_sum",
    "mark_application",
]

_U32: Final = 0xFFFFFFFF
_LEAD_BITS: Final = 12
"""A sender may announce its start up to four seconds early."""
_MARK: Final = 0x534B
"""The exclusive-or mark in the upper half of our application ids; Java programs have none."""
_DRAW_COUNT_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderIdentity:
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
) -> SenderIdentity:
    """An identity for a sender that starts now; `taken_sums` are those heard in the group."""
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
    """A start time close to now, whose sum with the sender id no other sender has."""
    start_ms = wall_ms
    for _ in range(_DRAW_COUNT_MAX):
        start_ms = max(0, wall_ms - rng.getrandbits(_LEAD_BITS))
        if java_sum(sender_id, start_ms) not in taken_sums:
            break
    return start_ms


def mark_application(address: bytes, process_id: int) -> int:
    """The application id of a process: as in the Java program, and marked as one of ours."""
    low = int.from_bytes(address[2:], "big") ^ _MARK
    return (low << 16) + (process_id & 0xFFFF)


def is_marked(address: bytes, application_id: int) -> bool:
    """Whether an application id is one of this project's."""
    return application_id >> 16 == int.from_bytes(address[2:], "big") ^ _MARK


def java_sum(sender_id: int, start: int) -> int:
    """By what the Java program tells senders apart."""
    return (sender_id + start) & _U32


def address_bytes(host: str) -> bytes:
    """The 4 bytes that stand for an address: itself, or the beginning of a hash of a longer one."""
    packed = ip_address(host.partition("%")[0]).packed
    return packed if len(packed) == 4 else sha256(packed).digest()[:4]
