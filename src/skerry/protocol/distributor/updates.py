"""Updates on their way to the application: as pairs, or still in the datagrams they came in.

A hot module. Taking an update out of its datagram costs as much as all that was done with it
before. Where it is done at the last moment, the bytes are in the cache of the processor when the
application looks at them, and their memory is that of the update before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import length_hint

from mypy_extensions import i64

__all__ = ["Packed", "Pairs", "Updates"]

Pairs = list[tuple[str, bytes]]
"""Subject and data of updates."""


class Packed:
    """The updates of one datagram, of which every one is wanted and has data."""

    def __init__(
        self, data: bytes, first: int, text_length_bytes: int, subjects: list[str]
    ) -> None:
        """The first update begins at `first`. Somebody has made sure that all is as it should be:
        as many updates as subjects, and none beyond the end.
        """
        self.data: bytes = data
        self.pos: i64 = first
        """Where the next update begins."""
        self.text_length_bytes: i64 = text_length_bytes
        self.subjects: list[str] = subjects
        self.index: i64 = 0
        """The place of its subject."""

    def __len__(self) -> int:
        return len(self.subjects) - self.index

    def take_into(self, found: Pairs) -> None:
        """Append all that were not taken yet."""
        data = self.data
        # Only the low half of a length can be other than zero.
        head: i64 = self.text_length_bytes + 1
        size: i64 = len(self.subjects)
        while self.index < size:
            stop: i64 = self.pos + head
            high: i64 = data[stop - 2]
            low: i64 = data[stop - 1]
            start: i64 = stop + high * 256 + low + 5
            high = data[start - 2]
            low = data[start - 1]
            self.pos = start + high * 256 + low
            subject = self.subjects[self.index]
            self.index += 1
            found.append((subject, data[start : self.pos]))


class Updates:
    """Updates of one sender in order. Whoever takes them one by one takes them away."""

    def __init__(self, pairs: Iterable[tuple[str, bytes]] = ()) -> None:
        self.left: Iterator[tuple[str, bytes]] = iter([])
        """What is left of a part that is being taken; it comes before all others."""
        self.parts: deque[Packed | Pairs] = deque()
        self.extend(pairs)

    def __len__(self) -> int:
        count = length_hint(self.left)
        for part in self.parts:
            count += len(part)
        return count

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return iter(self.pairs())

    def __getitem__(self, index: int) -> tuple[str, bytes]:
        return self.pairs()[index]

    def __eq__(self, other: object) -> bool:
        return self.pairs() == (other.pairs() if isinstance(other, Updates) else other)

    def __hash__(self) -> int:
        raise TypeError("updates come and go, so they are no key")

    def __repr__(self) -> str:
        return f"Updates({self.pairs()!r})"

    def extend(self, pairs: Iterable[tuple[str, bytes]]) -> None:
        """More at the end."""
        self._last_pairs().extend(pairs)

    def pack(self, packed: Packed) -> None:
        """Those of a whole datagram at the end."""
        self.parts.append(packed)

    def pairs(self) -> Pairs:
        """All of them, in a list that is not to be changed."""
        parts = self.parts
        if len(parts) == 1 and not length_hint(self.left):
            only = parts[0]
            if not isinstance(only, Packed):
                return only
        found: Pairs = list(self.left)
        for part in parts:
            if isinstance(part, Packed):
                part.take_into(found)
            else:
                found.extend(part)
        self.parts = deque([found])
        return found

    def drop_first(self, count: int) -> None:
        """Take away the oldest."""
        self.parts = deque([self.pairs()[count:]])

    def _last_pairs(self) -> Pairs:
        if self.parts:
            last = self.parts[-1]
            if not isinstance(last, Packed):
                return last
        made: Pairs = []
        self.parts.append(made)
        return made


Sequence.register(Updates)
