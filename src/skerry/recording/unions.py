"""The union of all compatible definitions of a type in recordings.

A recording keeps the definition of every row, and a type that evolves has several. An export, a cut
or a playback reads the rows of all of them with the union of the compatible ones (`schema.union`),
which has every field and every enum element of each. Incompatible definitions stay separate.
"""

from __future__ import annotations

from collections.abc import Mapping

from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import EnumType, NamedType, StructType, content_of, with_parts
from skerry.schema.union import obstacle, unite


def united_types(types: Mapping[int, StructType]) -> dict[int, StructType]:
    """The union for reading each definition, by the fingerprint of the definition.

    Nested structs and enums are united across all types, so a name has one definition wherever the
    definitions of that name are compatible.
    """
    groups = _Groups()
    found = {number: groups.of(type_) for number, type_ in types.items()}
    united = {number: group.resolved() for number, group in found.items()}
    return {number: type_ for number, type_ in united.items() if isinstance(type_, StructType)}


class _Group:
    """Compatible definitions of one name."""

    def __init__(self, type_: NamedType, parts: dict[str, _Group]) -> None:
        self.union = type_
        self.parts = parts
        """Groups of the nested types, by name."""
        self._resolved: NamedType | None = None

    def add(self, type_: NamedType, parts: dict[str, _Group]) -> bool:
        """Add a definition; False if it is incompatible with the others."""
        if any(self.parts.get(name, part) is not part for name, part in parts.items()):
            return False
        if obstacle(self.union, type_) is not None:
            return False
        self.union = unite(self.union, type_)
        self.parts |= parts
        return True

    def resolved(self) -> NamedType:
        """The union, with the unions of the nested types."""
        if self._resolved is None:
            made = self.union
            if isinstance(made, StructType):
                made = with_parts(made, {n: part.resolved() for n, part in self.parts.items()})
            self._resolved = made
        return self._resolved


class _Groups:
    def __init__(self) -> None:
        self._by_name: dict[str, list[_Group]] = {}
        self._known: dict[tuple[str, int], _Group] = {}

    def of(self, type_: NamedType) -> _Group:
        """The group of a definition."""
        key = (type_.name, fingerprint(type_))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._add(type_)
        return found

    def _add(self, type_: NamedType) -> _Group:
        fields = type_.fields if isinstance(type_, StructType) else ()
        used = (content_of(item.type) for item in fields)
        parts = {p.name: self.of(p) for p in used if isinstance(p, (EnumType, StructType))}
        groups = self._by_name.setdefault(type_.name, [])
        for group in groups:
            if group.add(type_, parts):
                return group
        groups.append(_Group(type_, parts))
        return groups[-1]
