"""Splits what one call received into its datagrams, for tests of sockets."""

from __future__ import annotations


def split_segments(data: bytes, size: int) -> list[bytes]:
    """The datagrams that one call received, each of this size except the last."""
    if len(data) <= size:
        return [data]
    return [data[pos : pos + size] for pos in range(0, len(data), size)]
