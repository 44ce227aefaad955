"""Python classes of enums: `Color.green.tag` is transmitted, `Color.green.value` is not."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from skerry.objects.declared import checked
from skerry.schema.model import EnumElement, EnumType


class EnumBase(enum.Enum):
    """An enum type. Members are declared by tag: `red = 1`, or `green = element(2, value=10)`.

    `Color(10)` finds a member by value, `Color.of_tag(2)` by tag. Another name of the type, or
    options, are arguments of the class: `class Color(Enum, name="color")`.
    """

    descriptor: ClassVar[EnumType]
    _tags: ClassVar[dict[int, Any]]
    tag: int
    """The number that is transmitted."""
    documentation: str
    _label: str

    def __new__(
        cls, tag: int, value: int | None = None, documentation: str = "", label: str = ""
    ) -> Self:
        if type(tag) is not int:
            raise TypeError(f"an element is declared by its tag, an int, not by {tag!r}")
        member = object.__new__(cls)
        number = tag - 1 if value is None else value
        member._value_ = _DuplicateValue(number) if number in cls._value2member_map_ else number
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
        cls._complete()
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
    def _complete(cls) -> None:
        """Index the members, when all of them exist."""
        for member in cls:
            # No member can become an alias of another any more, so the value can be an int.
            member._value_ = int(member._value_)
        cls._tags = {member.tag: member for member in cls}

    @classmethod
    def of_tag(cls, tag: int) -> Self:
        """The member with this tag; raises ValueError if there is none."""
        member = cls._tags.get(tag)
        if member is not None:
            return member  # type: ignore[no-any-return]
        raise ValueError(f"{cls.descriptor.name} has no element with tag {tag}")

    if TYPE_CHECKING:
        # Type checkers do not evaluate `__new__`.
        @property
        def value(self) -> int: ...

    @property
    def label(self) -> str:
        """The element's name in the type, which may differ from its Python name."""
        return self._label or self.name

    # Two classes of one type, such as from a file and from a descriptor, have equal members.
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
    """Base of classes that are created for a type which is already checked."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super(EnumBase, cls).__init_subclass__(**kwargs)
        cls._complete()


def element(tag: int, *, value: int | None = None, documentation: str = "", name: str = "") -> Any:
    """A member of an enum class with more than its tag.

    `name` is the name in the type, if Python needs another name.
    """
    return (tag, value, documentation, name)


def _member_of_tag(cls: type[EnumBase], tag: int) -> EnumBase:
    return cls.of_tag(tag)


class _DuplicateValue(int):
    """The value of a member during the creation of its class, if an earlier member has the same.

    Python would make the later member an alias of the earlier one, and its tag would be lost.
    """

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def _own_documentation(cls: type[EnumBase]) -> str:
    text = cls.__dict__.get("__doc__")
    # Python gives an enum class without a docstring a default one.
    return "" if text is None or text == enum.Enum.__doc__ else inspect.cleandoc(text)
