"""Updates for the application: as pairs, or still packed in their datagrams.

A hot module. Copying an update out of its datagram costs as much as all processing before. If it is
done at the last moment, the bytes are in the CPU cache when the application reads them, and their
memory is that of the previous update.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import length_hint

from mypy_extensions import i64

Pairs = list[tuple[str, bytes]]
"""Subject and data of updates."""


class Packed:
    """The updates of one datagram, all of which have subscribers and data."""

    def __init__(
        self, data: bytes, first: int, text_length_bytes: int, subjects: list[str], count: int
    ) -> None:
        """The first of `count` updates begins at `first`. There is a subject for each of them, or
        one that all of them have. The caller has checked all lengths.
        """
        self.data: bytes = data
        self.pos: i64 = first
        """The offset of the next update."""
        self.text_length_bytes: i64 = text_length_bytes
        self.subjects: list[str] = subjects
        self.count: i64 = count
        self.index: i64 = 0

    def __len__(self) -> int:
        return self.count - self.index

    def take_into(self, found: Pairs) -> None:
        """Append all updates that were not taken yet."""
        data = self.data
        # Only the low half of a length can be other than zero.
        head: i64 = self.text_length_bytes + 1
        is_same = len(self.subjects) == 1
        while self.index < self.count:
            stop: i64 = self.pos + head
            high: i64 = data[stop - 2]
            low: i64 = data[stop - 1]
            start: i64 = stop + high * 256 + low + 5
            high = data[start - 2]
            low = data[start - 1]
            self.pos = start + high * 256 + low
            subject = self.subjects[0 if is_same else self.index]
            self.index += 1
            found.append((subject, data[start : self.pos]))


class Updates:
    """Updates of one sender in order. Taking them one by one removes them."""

    def __init__(self, pairs: Iterable[tuple[str, bytes]] = ()) -> None:
        self.left: Iterator[tuple[str, bytes]] | None = None
        """The rest of the part that is being taken; it precedes all others."""
        self.parts: list[Packed | Pairs] = []
        self.place: i64 = 0
        """The index of the part that is taken next; those before it are empty."""
        self.count: int = 0
        """The number of updates before any was taken; faster than counting the rest."""
        if pairs:
            self.extend(pairs)

    def __len__(self) -> int:
        count = 0 if self.left is None else length_hint(self.left)
        place = self.place
        while place < len(self.parts):
            count += len(self.parts[place])
            place += 1
        return count

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return iter(self.pairs())

    def __getitem__(self, index: int) -> tuple[str, bytes]:
        return self.pairs()[index]

    def __eq__(self, other: object) -> bool:
        return self.pairs() == (other.pairs() if isinstance(other, Updates) else other)

    def __hash__(self) -> int:
        raise TypeError("Updates is mutable, so it cannot be a key")

    def __repr__(self) -> str:
        return f"Updates({self.pairs()!r})"

    def extend(self, pairs: Iterable[tuple[str, bytes]]) -> None:
        last = self._last_pairs()
        before = len(last)
        last.extend(pairs)
        self.count += len(last) - before

    def pack(self, part: Packed) -> None:
        """Append the updates of a datagram."""
        self.parts.append(part)
        self.count += len(part)

    def pairs(self) -> Pairs:
        """Return all updates, in a list that must not be changed."""
        parts = self.parts
        if len(parts) == 1 and self.place == 0 and self.left is None:
            only = parts[0]
            if isinstance(only, list):
                return only
        found: Pairs = [] if self.left is None else list(self.left)
        for part in parts[self.place :]:
            if isinstance(part, list):
                found.extend(part)
            else:
                part.take_into(found)
        self._be(found)
        return found

    def drop_first(self, count: int) -> None:
        """Remove the oldest updates."""
        self._be(self.pairs()[count:])

    def _be(self, pairs: Pairs) -> None:
        self.parts = [pairs]
        self.place = 0
        self.left = None
        self.count = len(pairs)

    def _last_pairs(self) -> Pairs:
        if self.place < len(self.parts):
            last = self.parts[-1]
            if isinstance(last, list):
                return last
        made: Pairs = []
        self.parts.append(made)
        return made


Sequence.register(Updates)
