"""The names in generated source: of classes, and of what the bodies of classes use.

The name of a field hides an equal outer name inside the class, for Python and for type checkers: in
a struct with a field `list`, `list[int]` means the field. For a hidden name, the source uses an
alias, which is defined at the top or after the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skerry.objects.classes import attribute_names, member_names
from skerry.objects.names import python_names
from skerry.schema.model import EnumType, NamedType

_IMPORTED: Final = {"Annotated": "typing", "UUID": "uuid"}
_BUILT_IN: Final = ("bool", "bytes", "float", "int", "list", "str")
_OUTER: Final = frozenset({"skerry", *_IMPORTED, *_BUILT_IN})
"""Names that the source imports or uses, so that no class can have them."""


class SourceNames:
    def __init__(self, types: Sequence[NamedType]) -> None:
        self.classes = python_names([type_.name for type_ in types], _OUTER)
        self._hidden = {name for type_ in types for name in _names_inside(type_)}
        self._spelled: dict[str, str] = {}

    def outer(self, name: str) -> str:
        """The name by which the body of a class uses an outer name, which is then in use."""
        if name not in self._spelled:
            self._spelled[name] = self._free(name) if name in self._hidden else name
        return self._spelled[name]

    def of_type(self, type_: NamedType) -> str:
        """The name by which the body of a class uses the class of a type."""
        return self.outer(self.classes[type_.name])

    def imports(self) -> list[str]:
        """The import lines of the names in use, in blocks with an empty line between."""
        lines = [
            f"from {_IMPORTED[name]} import {name}{self._renamed(name)}"
            for name in sorted(_IMPORTED, key=lambda name: _IMPORTED[name])
            if name in self._spelled
        ]
        lines += [""] if lines else []
        # Always in use: classes derive from its base classes.
        lines.append("import skerry")
        if self.outer("skerry") != "skerry":
            lines.append(f"import skerry{self._renamed('skerry')}")
        return lines

    def built_in_aliases(self) -> list[str]:
        """The lines that define aliases of hidden built-in names."""
        return [line for name in _BUILT_IN for line in self.alias(name)]

    def alias(self, name: str) -> list[str]:
        """The line that defines an alias of a hidden name, if it is in use."""
        spelled = self._spelled.get(name, name)
        return [] if spelled == name else [f"{spelled} = {name}"]

    def _renamed(self, name: str) -> str:
        spelled = self._spelled[name]
        return "" if spelled == name else f" as {spelled}"

    def _free(self, name: str) -> str:
        taken = {*self._hidden, *self.classes.values(), *self._spelled.values(), *_OUTER}
        while name in taken:
            name += "_"
        return name


def _names_inside(type_: NamedType) -> list[str]:
    """The names that the body of the class defines."""
    if isinstance(type_, EnumType):
        return list(member_names(type_).values())
    return list(attribute_names(type_).values())
