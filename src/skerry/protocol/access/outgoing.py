"""The queue of frames to be sent on one connection."""

from __future__ import annotations

from mypy_extensions import i64

from skerry.codec.hot_loops import Frames


class Outgoing:
    def __init__(self) -> None:
        self._first: bytes = b""
        """Frames that were added together to an empty queue. They are not copied, because many
        connections share the same bytes."""
        self.frames: Frames = Frames()
        """All later frames, concatenated."""
        self.frame_count: i64 = 0

    @property
    def size(self) -> int:
        """Bytes of all queued frames."""
        return len(self._first) + len(self.frames)

    def add(self, frame: bytes) -> None:
        self.frames.add(frame)
        self.frame_count += 1

    def add_run(self, frames: bytes, count: int) -> None:
        self.frame_count += count
        if self._first or len(self.frames):
            self.frames.add(frames)
        else:
            self._first = frames

    def take(self) -> bytes:
        """Remove all frames and return their bytes."""
        data = self._first
        if len(self.frames):
            rest: bytes = self.frames.take()
            data = data + rest if data else rest
        self._first = b""
        self.frame_count = 0
        return data
