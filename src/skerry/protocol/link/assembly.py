"""Fragments to samples."""

from __future__ import annotations

from skerry.protocol.rtps.number_sets import NUMBER_SET_BITS_MAX, NumberSet
from skerry.protocol.rtps.submessages import DataFragment

__all__ = ["Assembly"]


class Assembly:
    """The fragments of one sample that have arrived."""

    def __init__(self, first: DataFragment) -> None:
        self._sample_bytes = first.sample_bytes
        self._fragment_bytes = first.fragment_bytes
        self._count = -(-first.sample_bytes // first.fragment_bytes)
        self._parts: dict[int, bytes | memoryview] = {}
        self._base = 1
        """All fragments below have arrived."""
        self.stop = 1
        """The number behind the highest fragment that has arrived."""

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def received_bytes(self) -> int:
        """Bytes of the fragments that have arrived."""
        return sum(map(len, self._parts.values()))

    def add(self, fragment: DataFragment) -> bool | None:
        """Add a fragment; False if it had arrived before, None if it contradicts the others."""
        if (fragment.sample_bytes, fragment.fragment_bytes) != (
            self._sample_bytes,
            self._fragment_bytes,
        ):
            return None
        number = fragment.number
        parts = self._parts
        if number in parts:
            return False if parts[number] == fragment.data else None
        parts[number] = fragment.data
        self.stop = max(self.stop, number + 1)
        while self._base in parts:
            self._base += 1
        return True

    @property
    def is_whole(self) -> bool:
        """Whether all fragments have arrived."""
        return self._base > self._count

    def sample(self) -> bytes:
        """Return the sample, once it is whole."""
        parts = self._parts
        return b"".join([parts[number] for number in range(1, self._count + 1)])

    def missing(self, *, is_to_end: bool) -> NumberSet:
        """Return which fragments are missing: up to the highest that has arrived, or to the end if
        a later sample has."""
        stop = self._count + 1 if is_to_end else self.stop
        stop = min(max(stop, self._base), self._base + NUMBER_SET_BITS_MAX)
        members = [number for number in range(self._base, stop) if number not in self._parts]
        return NumberSet(self._base, stop, members)
