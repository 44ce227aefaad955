"""Identities that cross module borders, the hash that makes them, and sequence arithmetic."""

from __future__ import annotations

import hashlib
from typing import Final, NewType

__all__ = [
    "NODE_CLIENT",
    "ClientId",
    "NodeId",
    "ObjectKey",
    "hash64",
    "seq_add",
    "seq_distance",
]

NodeId = NewType("NodeId", int)
"""A node's life: 64 bits, new at each start."""

ClientId = NewType("ClientId", int)
"""A client's connection to its node. Counts from 2 over the node's life."""

ObjectKey = NewType("ObjectKey", bytes)
"""Canonical key of an object: equal bytes mean the same object of its type."""

NODE_CLIENT: Final = ClientId(1)
"""The node itself, where a sender is asked for."""


def hash64(value: str | bytes) -> int:
    """Signed 64-bit identity of a text or of bytes: equal on every computer and in every run."""
    data = value.encode() if isinstance(value, str) else value
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big", signed=True)


def seq_add(seq: int, count: int, *, bits: int) -> int:
    """`seq` moved on by `count` (also negative) in a counter that wraps after `bits` bits."""
    return (seq + count) & ((1 << bits) - 1)


def seq_distance(first: int, second: int, *, bits: int) -> int:
    """How far `second` is ahead of `first`: negative when it is behind.

    The shorter way round decides, so two numbers must not be more than half the range apart.
    """
    span = 1 << bits
    distance = (second - first) & (span - 1)
    return distance - span if distance >= span >> 1 else distance
