"""Identities that several modules share, and the hash that makes them."""

from __future__ import annotations

import hashlib
from typing import Final, NewType

ObjectKey = NewType("ObjectKey", bytes)
"""Canonical key of an object: equal bytes mean the same object of its type."""

NODE_CLIENT: Final = 1
"""The client id of the node itself, where updates name their sender. Those of its clients start at
2 and are not reused in one run."""


def hash64(value: str | bytes) -> int:
    """Return a signed 64-bit hash of a text or of bytes: the same on every computer."""
    data = value.encode() if isinstance(value, str) else value
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big", signed=True)
