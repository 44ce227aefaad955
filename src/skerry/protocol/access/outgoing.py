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
        self._first: bytes = b""
        """Frames that came together when none waited. They are kept as they are: what goes to many
        is the same bytes for all of them."""
        self._writer: BytesWriter = BytesWriter()
        """All frames that wait behind those, one after the other."""
        self.frame_count: i64 = 0

    @property
    def size(self) -> int:
        """Bytes of all that waits."""
        return len(self._first) + len(self._writer)

    def add(self, frame: bytes) -> None:
        """One more frame."""
        self._writer.write(frame)
        self.frame_count += 1

    def add_run(self, frames: bytes, count: int) -> None:
        """Some more frames, one after the other."""
        self.frame_count += count
        if self._first or len(self._writer):
            self._writer.write(frames)
        else:
            self._first = frames

    def take(self) -> bytes:
        """All of them, as bytes for the stream."""
        data = self._first
        size: i64 = len(self._writer)
        if size > 0:
            rest = self._writer.getvalue()
            data = data + rest if data else rest
            if size > _KEPT_BYTES:
                self._writer = BytesWriter()
            else:
                self._writer.truncate(0)
        self._first = b""
        self.frame_count = 0
        return data
