"""Frames that wait to go out on one connection, in order."""

from __future__ import annotations

from mypy_extensions import i64

from skerry.codec.hot_loops import Frames

__all__ = ["Outgoing"]


class Outgoing:
    """What one end of a connection has to say, until it is taken."""

    def __init__(self) -> None:
        self._first: bytes = b""
        """Frames that came together when none waited. They are kept as they are: what goes to many
        is the same bytes for all of them."""
        self.frames: Frames = Frames()
        """All frames that wait behind those, one after the other."""
        self.frame_count: i64 = 0

    @property
    def size(self) -> int:
        """Bytes of all that waits."""
        return len(self._first) + len(self.frames)

    def add(self, frame: bytes) -> None:
        """One more frame."""
        self.frames.add(frame)
        self.frame_count += 1

    def add_run(self, frames: bytes, count: int) -> None:
        """Some more frames, one after the other."""
        self.frame_count += count
        if self._first or len(self.frames):
            self.frames.add(frames)
        else:
            self._first = frames

    def take(self) -> bytes:
        """All of them, as bytes for the stream."""
        data = self._first
        if len(self.frames):
            rest: bytes = self.frames.take()
            data = data + rest if data else rest
        self._first = b""
        self.frame_count = 0
        return data
