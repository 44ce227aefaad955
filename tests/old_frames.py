"""Cuts a stream of version 1, for tests."""

from __future__ import annotations

from skerry.codec.frame import OldFrameCutter


def feed_pairs(cutter: OldFrameCutter, data: bytes) -> list[tuple[bytes, bytes]]:
    """Receive bytes of the stream and return the headers and objects that are complete now."""
    pairs: list[tuple[bytes, bytes]] = []
    cutter.load(data)
    while cutter.step():
        pairs.append((cutter.header(), cutter.payload()))
    return pairs
