"""The trace of a world: one line of JSON per event, and a running hash of all of them.

Two runs are equal if their hashes are, so a comparison needs no memory. Only the last lines are
kept, for the report of a failure. A sink receives all lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

_BATCH_LINE_COUNT: Final = 1024
"""Lines that are hashed in one call, which is faster, and lines that are kept for reports."""


class Trace:
    """Hashes all lines and keeps the last ones."""

    __slots__ = ("_hash", "_previous", "_sink", "lines")

    def __init__(self, sink: Callable[[str], None] | None = None) -> None:
        self.lines: list[str] = []
        """Lines that are not hashed yet. A caller that appends must call `roll` if `is_full`."""
        self._previous: list[str] = []
        self._hash = hashlib.sha256()
        self._sink = sink

    @property
    def is_full(self) -> bool:
        """Whether a batch is complete."""
        return len(self.lines) >= _BATCH_LINE_COUNT

    def roll(self) -> None:
        """Hash the new lines and pass them to the sink."""
        if not self.lines:
            return
        self._hash.update(("\n".join(self.lines) + "\n").encode())
        if self._sink is not None:
            for line in self.lines:
                self._sink(line)
        # One batch is kept, so that `tail` works right after rolling.
        self._previous = (self._previous + self.lines)[-_BATCH_LINE_COUNT:]
        self.lines.clear()

    def digest(self) -> str:
        """SHA-256 of all lines so far, each with its line feed, in hexadecimal."""
        self.roll()
        return self._hash.hexdigest()

    def tail(self, line_count: int) -> list[str]:
        """The last lines; at most a batch of them."""
        assert 0 < line_count <= _BATCH_LINE_COUNT
        return (self._previous + self.lines)[-line_count:]
