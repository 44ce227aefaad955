"""Sets of sequence or fragment numbers: a base, and a bitmap of up to 256 numbers from there."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from skerry.errors import DecodeError

__all__ = ["NUMBER_SET_BITS_MAX", "NumberSet"]

NUMBER_SET_BITS_MAX: Final = 256
"""By RTPS. A receiver reports no more than this many numbers at once; the rest follows when these
have arrived."""
_WORD_BITS: Final = 32


class NumberSet:
    """The numbers in [base, stop) that are members. Bit 0 is the most significant of word 0."""

    def __init__(self, base: int, stop: int, members: Collection[int] = ()) -> None:
        assert base <= stop <= base + NUMBER_SET_BITS_MAX
        self.base = base
        self.stop = stop
        self.members: Collection[int] = members

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, NumberSet)
            and (self.base, self.stop) == (other.base, other.stop)
            and sorted(self.members) == sorted(other.members)
        )

    def __hash__(self) -> int:
        return hash((self.base, self.stop))

    def __repr__(self) -> str:
        return f"NumberSet({self.base}, {self.stop}, {sorted(self.members)})"

    @property
    def bit_count(self) -> int:
        """How many numbers the bitmap covers."""
        return self.stop - self.base

    def words(self) -> list[int]:
        """Return the bitmap as words of 32 bits."""
        words = [0] * ((self.bit_count + _WORD_BITS - 1) // _WORD_BITS)
        for member in self.members:
            index = member - self.base
            words[index // _WORD_BITS] |= 1 << (_WORD_BITS - 1 - index % _WORD_BITS)
        return words

    @staticmethod
    def of_words(base: int, bit_count: int, words: Collection[int]) -> NumberSet:
        """Return the set with this bitmap. Raises DecodeError if it is not one."""
        if bit_count > NUMBER_SET_BITS_MAX or len(words) * _WORD_BITS < bit_count:
            detail = f"a set of {bit_count} numbers in {len(words)} words"
            raise DecodeError(type_name="NumberSet", detail=detail)
        members = [
            base + index
            for position, word in enumerate(words)
            if word
            for index in range(position * _WORD_BITS, (position + 1) * _WORD_BITS)
            if word >> (_WORD_BITS - 1 - index % _WORD_BITS) & 1 and index < bit_count
        ]
        return NumberSet(base, base + bit_count, members)
