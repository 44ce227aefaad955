"""What stands as the default of an annotated field until its class is declared a struct."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skerry.schema.model import Option

__all__ = ["FieldSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """The facts of one field that its annotation does not tell."""

    tag: int
    name: str | None = None
    """In the type; None when it is the one in Python."""
    type_name: str | None = None
    """Of a removed field, whose type may be gone as well."""
    default: Any = None
    default_json: str | None = None
    documentation: str = ""
    is_key: bool = False
    is_deprecated: bool = False
    is_ctor: bool = False
    is_removed: bool = False
    options: tuple[Option, ...] = ()

    def __post_init__(self) -> None:
        if type(self.tag) is not int:
            raise TypeError(f"a field is declared by its tag, a number, not by {self.tag!r}")
        for name, value in self.options:
            if not isinstance(value, (str, bool)):
                raise TypeError(f"the option {name} is {value!r}; it can be a text or a bool")
