"""Identities that several modules share, and the hash that makes them."""

from __future__ import annotations

import hashlib
from typing import Final, NewType

NodeId = NewType("NodeId", int)
"""A run of a node: 64 bits, new at each start."""

ClientId = NewType("ClientId", int)
"""The connection of a client to its node. Numbers start at 2 and are not reused in one run."""

ObjectKey = NewType("ObjectKey", bytes)
"""Canonical key of an object: equal bytes mean the same object of its type."""

NODE_CLIENT: Final = ClientId(1)
"""The client id of the node itself, where updates name their sender."""


def hash64(value: str | bytes) -> int:
    """Return a signed 64-bit hash of a text or of bytes: the same on every computer."""
    data = value.encode() if isinstance(value, str) else value
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big", signed=True)
