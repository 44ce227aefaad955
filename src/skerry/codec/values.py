"""Python classes for values of built-in types that Python has no class for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from skerry.limits import TAG_MAX, TAG_MIN


class PropertySet(int):
    """Tags of a struct as a mask in which bit n stands for tag n. This number is transmitted.

    Set operations return property sets. `tag in s` and iteration work on tags.
    """

    __slots__ = ()

    @classmethod
    def of(cls, tags: Iterable[int]) -> PropertySet:
        """The set with these tags."""
        mask = 0
        for tag in tags:
            if not TAG_MIN <= tag <= TAG_MAX:
                raise ValueError(f"tag {tag} is not between {TAG_MIN} and {TAG_MAX}")
            mask |= 1 << tag
        return cls(mask)

    def __contains__(self, tag: object) -> bool:
        return isinstance(tag, int) and tag >= 0 and bool(int(self) >> tag & 1)

    def __iter__(self) -> Iterator[int]:
        mask = int(self)
        if mask < 0:
            # A negative mask has all tags from some bit on, so iteration would not end.
            raise ValueError(f"{mask} is not a property set")
        tag = 0
        while mask:
            if mask & 1:
                yield tag
            mask >>= 1
            tag += 1

    def __len__(self) -> int:
        return int(self).bit_count()

    def __bool__(self) -> bool:
        return int(self) != 0

    def __and__(self, other: int) -> PropertySet:
        return PropertySet(int(self) & int(other))

    def __or__(self, other: int) -> PropertySet:
        return PropertySet(int(self) | int(other))

    def __sub__(self, other: int) -> PropertySet:
        return PropertySet(int(self) & ~int(other))

    def __xor__(self, other: int) -> PropertySet:
        return PropertySet(int(self) ^ int(other))

    def __rsub__(self, other: int) -> PropertySet:
        return PropertySet(int(other) & ~int(self))

    __rand__ = __and__
    __ror__ = __or__
    __rxor__ = __xor__

    def __repr__(self) -> str:
        if int(self) < 0:
            return f"PropertySet({int(self)})"
        return f"PropertySet({{{', '.join(map(str, self))}}})"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class AnyObject:
    """An object of any type, still encoded: the value of an `any` field."""

    type_name: str
    payload: bytes

    def __post_init__(self) -> None:
        _check_parts(self.type_name, self.payload)

    def __repr__(self) -> str:
        return f"AnyObject({self.type_name!r}, {self.payload!r})"


@dataclass(frozen=True, slots=True)
class Ref:
    """Points to an object by type and canonical key: the value of an `instance_ref` field."""

    type_name: str
    key: bytes

    def __post_init__(self) -> None:
        _check_parts(self.type_name, self.key)

    def __repr__(self) -> str:
        return f"Ref({self.type_name!r}, {self.key!r})"


def _check_parts(type_name: str, data: bytes) -> None:
    if not isinstance(type_name, str):
        raise TypeError(f"expected the name of a type, got {type(type_name).__name__}")
    if not isinstance(data, bytes):
        raise TypeError(f"expected bytes, got {type(data).__name__}")
