"""The specification of a field: its default value in a class until the class is declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skerry.schema.model import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    tag: int
    name: str | None = None
    """The name in the type; None if it is the Python name."""
    type_name: str | None = None
    """The type of a removed field, which may not exist any more."""
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
            raise TypeError(f"a field is declared by its tag, an int, not by {self.tag!r}")
        for name, value in self.options:
            if not isinstance(value, (str, bool)):
                raise TypeError(f"the option {name} is {value!r}; it must be a str or a bool")
