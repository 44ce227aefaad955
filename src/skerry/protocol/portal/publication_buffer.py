"""Publications that wait until they may be sent: a bounded queue that drops the oldest."""

from __future__ import annotations

from collections import deque
from typing import Final

BUFFERED_COUNT_DEFAULT: Final = 10_000
BUFFERED_BYTES_DEFAULT: Final = 64 * 1024 * 1024
"""Publications that wait for the release of the hold, or for a broker that restarts: half a minute
of a busy program, and what a small computer can spare."""


class PublicationBuffer:
    """The frames of publications, oldest first."""

    def __init__(self, *, count_max: int, bytes_max: int) -> None:
        assert count_max >= 1
        assert bytes_max >= 1
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._frames: deque[bytes] = deque()
        self.byte_count = 0
        self.dropped_count = 0
        """Publications that were dropped because the buffer was full."""

    def __len__(self) -> int:
        return len(self._frames)

    def append(self, frame: bytes) -> None:
        """Add a frame. The oldest ones are dropped if there are too many or too large ones.

        One that is larger than the buffer is kept alone.
        """
        self._frames.append(frame)
        self.byte_count += len(frame)
        while len(self._frames) > self._count_max or (
            self.byte_count > self._bytes_max and len(self._frames) > 1
        ):
            self.byte_count -= len(self._frames.popleft())
            self.dropped_count += 1

    def is_full_for(self, frame: bytes) -> bool:
        """Whether adding the frame would drop others."""
        return len(self._frames) >= self._count_max or (
            bool(self._frames) and self.byte_count + len(frame) > self._bytes_max
        )

    def peek(self) -> bytes:
        """The oldest frame."""
        return self._frames[0]

    def pop(self) -> None:
        """Remove the oldest frame."""
        self.byte_count -= len(self._frames.popleft())
