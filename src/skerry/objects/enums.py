"""Python classes of enums: `Color.green.tag` travels, `Color.green.value` is for programs."""

from __future__ import annotations

import enum
from typing import Any, ClassVar, Self

from skerry.schema.model import EnumElement, EnumType

__all__ = ["EnumBase", "element"]


class EnumBase(enum.Enum):
    """An enum type. Members are declared by tag: `red = 1`, or `green = element(2, value=10)`.

    `Color(10)` finds a member by value, `Color.of_tag(2)` by tag.
    """

    descriptor: ClassVar[EnumType]
    """The immutable description of the type."""
    tag: int
    """What travels."""
    documentation: str

    def __new__(cls, tag: int, value: int | None = None, documentation: str = "") -> Self:
        member = object.__new__(cls)
        number = tag - 1 if value is None else value
        is_taken = any(int(other.value) == number for other in cls._member_map_.values())
        member._value_ = _Twin(number) if is_taken else number
        member.tag = tag
        member.documentation = documentation
        return member

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.descriptor = EnumType(
            name=cls.__name__,
            documentation=_own_documentation(cls),
            elements=tuple(
                EnumElement(
                    tag=member.tag,
                    name=name,
                    value=int(member.value),
                    documentation=member.documentation,
                )
                for name, member in cls.__members__.items()
            ),
        )

    @classmethod
    def of_tag(cls, tag: int) -> Self:
        """The member with this tag; ValueError when there is none."""
        for member in cls:
            if member.tag == tag:
                return member
        raise ValueError(f"{cls.descriptor.name} has no enumerator with tag {tag}")

    @property
    def label(self) -> str:
        """The enumerator's name in the type, where Python may need another one."""
        return next(e.name for e in self.descriptor.elements if e.tag == self.tag)

    # Two classes of one type (from a file and from a descriptor, say) have equal members.
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, EnumBase) or type(self) is type(other):
            return NotImplemented
        same_type = self.descriptor.name == other.descriptor.name
        return same_type and (self.tag, self.label) == (other.tag, other.label)

    def __hash__(self) -> int:
        return hash(self.tag)

    def __repr__(self) -> str:
        return f"{self.descriptor.name}::{self.label}"


def element(tag: int, *, value: int | None = None, documentation: str = "") -> Any:
    """Declares a member of an enum class with more than its tag."""
    return (tag, value, documentation)


class _Twin(int):
    """The value of a member when an earlier one has the same.

    Python would make the later member a second name of the earlier one, and its tag would be lost.
    """

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def _own_documentation(cls: type[EnumBase]) -> str:
    text = cls.__dict__.get("__doc__")
    # Python gives an undocumented enum class a sentence of its own.
    return "" if text is None or text == enum.Enum.__doc__ else text.strip()
