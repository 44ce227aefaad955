"""A set of types: their classes by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skerry.errors import Problem
from skerry.objects.classes import class_of
from skerry.objects.names import python_names
from skerry.schema.check import Checked, define
from skerry.schema.writer import write_types


class TypeSet(Mapping[str, Any]):
    """Classes of types, as attributes (`types.Vessel`) and by name (`types["Vessel"]`)."""

    def __init__(self, checked: Checked) -> None:
        self._classes = {type_.name: class_of(type_) for type_ in checked.types}
        names = python_names(self._classes, {*dir(TypeSet), "warnings_"})
        self._attributes = {names[name]: cls for name, cls in self._classes.items()}
        self.warnings_: tuple[Problem, ...] = checked.warnings

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_attributes"][name]
        except KeyError:
            known = ", ".join(self.__dict__.get("_classes", ())) or "none"
            raise AttributeError(f"there is no type {name}; there are {known}") from None

    def __getitem__(self, name: str) -> Any:
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._attributes]

    def __repr__(self) -> str:
        return f"TypeSet({', '.join(self._classes)})"


def define_types(text: str) -> TypeSet:
    """The types that text of the type language defines; raises SchemaError with all errors."""
    return TypeSet(define(text))


def to_dots(*types: Any) -> str:
    """Text of the type language that defines these types (or classes) and their dependencies."""
    return write_types(getattr(item, "descriptor", item) for item in types)
