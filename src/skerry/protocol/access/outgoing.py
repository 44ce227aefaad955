"""Frames that wait to go out on one connection, in order."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

__all__ = ["Outgoing"]

_KEPT_BYTES: Final = 262_144
"""Room that is kept for what comes next; more was an exception and is given back."""


class Outgoing:
    """What one end of a connection has to say, until it is taken."""

    def __init__(self) -> None:
        self.writer: BytesWriter = BytesWriter()
        """All frames that wait, one after the other."""
        self.frame_count: i64 = 0

    @property
    def size(self) -> int:
        """Bytes of all that waits."""
        return len(self.writer)

    def add(self, frame: bytes) -> None:
        """One more frame."""
        self.writer.write(frame)
        self.frame_count += 1

    def take(self) -> bytes:
        """All of them, as bytes for the stream."""
        data = self.writer.getvalue()
        if len(data) > _KEPT_BYTES:
            self.writer = BytesWriter()
        else:
            self.writer.truncate(0)
        self.frame_count = 0
        return data
