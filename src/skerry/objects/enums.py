"""Python classes of enums: `Color.green.tag` travels, `Color.green.value` is for programs."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from skerry.objects.declared import checked
from skerry.schema.model import EnumElement, EnumType

__all__ = ["DescribedEnum", "EnumBase", "element"]


class EnumBase(enum.Enum):
    """An enum type. Members are declared by tag: `red = 1`, or `green = element(2, value=10)`.

    `Color(10)` finds a member by value, `Color.of_tag(2)` by tag. Where the type has another name
    than the class, or has options, that stands beside the base: `class Color(Enum, name="color")`.
    """

    descriptor: ClassVar[EnumType]
    """The immutable description of the type."""
    _tags: ClassVar[dict[int, Any]]
    tag: int
    """What travels."""
    documentation: str
    _label: str

    def __new__(
        cls, tag: int, value: int | None = None, documentation: str = "", label: str = ""
    ) -> Self:
        if type(tag) is not int:
            raise TypeError(f"an element is declared by its tag, a number, not by {tag!r}")
        member = object.__new__(cls)
        number = tag - 1 if value is None else value
        member._value_ = _Twin(number) if number in cls._value2member_map_ else number
        member.tag = tag
        member.documentation = documentation
        member._label = label
        return member

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        documentation: str | None = None,
        options: Mapping[str, str | bool] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        cls._settle()
        if not cls.__members__:
            return
        declared = EnumType(
            name=name or cls.__name__,
            documentation=_own_documentation(cls) if documentation is None else documentation,
            options=tuple((options or {}).items()),
            elements=tuple(
                EnumElement(
                    tag=member.tag,
                    name=member._label or python_name,
                    value=int(member.value),
                    documentation=member.documentation,
                )
                for python_name, member in cls.__members__.items()
            ),
        )
        cls.descriptor = checked(declared, qualname=cls.__qualname__, known={})
        cls.__doc__ = cls.descriptor.documentation or None

    @classmethod
    def _settle(cls) -> None:
        """What can be done only when all members are there."""
        for member in cls:
            # No member can become another's name any more, so the value can be a plain number.
            member._value_ = int(member._value_)
        cls._tags = {member.tag: member for member in cls}

    @classmethod
    def of_tag(cls, tag: int) -> Self:
        """The member with this tag; ValueError when there is none."""
        member = cls._tags.get(tag)
        if member is not None:
            return member  # type: ignore[no-any-return]
        raise ValueError(f"{cls.descriptor.name} has no element with tag {tag}")

    if TYPE_CHECKING:
        # Type checkers cannot see through `__new__`.
        @property
        def value(self) -> int: ...

    @property
    def label(self) -> str:
        """The element's name in the type, where Python may need another one."""
        return self._label or self.name

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

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # By tag: two members may have the same value.
        return _member_of_tag, (type(self), self.tag)

    def __repr__(self) -> str:
        return f"{self.descriptor.name}::{self.label}"


class DescribedEnum(EnumBase):
    """Base of classes made for a type that is there already and was checked as it came."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super(EnumBase, cls).__init_subclass__(**kwargs)
        cls._settle()


def element(tag: int, *, value: int | None = None, documentation: str = "", name: str = "") -> Any:
    """Declares a member of an enum class with more than its tag.

    `name` is what the type calls it, where Python needs another name.
    """
    return (tag, value, documentation, name)


def _member_of_tag(cls: type[EnumBase], tag: int) -> EnumBase:
    return cls.of_tag(tag)


class _Twin(int):
    """The value of a member while its class is made, when an earlier member has the same.

    Python would make the later member a second name of the earlier one, and its tag would be lost.
    """

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def _own_documentation(cls: type[EnumBase]) -> str:
    text = cls.__dict__.get("__doc__")
    # Python gives an undocumented enum class a sentence of its own.
    return "" if text is None or text == enum.Enum.__doc__ else inspect.cleandoc(text)
