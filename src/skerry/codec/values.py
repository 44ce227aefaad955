"""Python values of the built-in types that Python itself has no type for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from skerry.limits import TAG_MAX, TAG_MIN

__all__ = ["AnyObject", "PropertySet", "Ref"]


class PropertySet(int):
    """Tags of a struct as a mask in which bit n stands for tag n; it is the number that travels.

    Set operations give property sets again, `tag in s` and iteration speak of tags.
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

    __rand__ = __and__
    __ror__ = __or__
    __rxor__ = __xor__

    def __repr__(self) -> str:
        return f"PropertySet({{{', '.join(map(str, self))}}})"

    __str__ = __repr__


class AnyObject:
    """An object of any type, still encoded: the value of an `any` field."""

    __slots__ = ("payload", "type_name")
    __match_args__ = ("type_name", "payload")

    def __init__(self, type_name: str, payload: bytes) -> None:
        self.type_name = type_name
        self.payload = payload

    @classmethod
    def of(cls, obj: Any) -> AnyObject:
        """The object, packed."""
        return cls(obj.descriptor.name, obj.encode())

    def unpack(self, class_: type[Any]) -> Any:
        """The object again, which must be of this class's type."""
        if class_.descriptor.name != self.type_name:
            raise TypeError(f"this is a {self.type_name}, not a {class_.descriptor.name}")
        return class_.decode(self.payload)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AnyObject):
            return NotImplemented
        return self.type_name == other.type_name and self.payload == other.payload

    def __hash__(self) -> int:
        return hash((self.type_name, self.payload))

    def __repr__(self) -> str:
        return f"AnyObject({self.type_name!r}, {self.payload!r})"


class Ref:
    """Points to an object by type and canonical key: the value of an `instance_ref` field."""

    __slots__ = ("key", "type_name")
    __match_args__ = ("type_name", "key")

    def __init__(self, type_name: str, key: bytes) -> None:
        self.type_name = type_name
        self.key = key

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ref):
            return NotImplemented
        return self.type_name == other.type_name and self.key == other.key

    def __hash__(self) -> int:
        return hash((self.type_name, self.key))

    def __repr__(self) -> str:
        return f"Ref({self.type_name!r}, {self.key!r})"
