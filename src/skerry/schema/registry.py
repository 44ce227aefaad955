"""The types that a program knows, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from skerry.errors import LimitExceeded, SchemaMismatchError
from skerry.limits import CONFLICT_COUNT_MAX, TYPE_COUNT_MAX
from skerry.schema.changes import What
from skerry.schema.evolve import compare_one
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import NamedType, dependencies

_NOT_TRANSMITTED: Final = {
    *(What.DEFAULT_CHANGED, What.CONSTRUCTOR_CHANGED, What.DEPRECATION_CHANGED, What.VALUE_CHANGED),
    *(What.OPTIONS_CHANGED, What.DOCUMENTATION_CHANGED, What.SCOPE_WRITTEN),
    *(What.TAG_RESERVED, What.TAG_RELEASED, What.RESERVATION_EDITED),
}
"""Changes by which two definitions do not differ: their fingerprints are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A different definition of a known name; the first definition stays in use."""

    known: NamedType
    known_from: str
    offered: NamedType
    offered_from: str

    def difference(self) -> str:
        """The first difference of the two definitions, for a message."""
        for change in compare_one(self.known, self.offered):
            if change.what not in _NOT_TRANSMITTED:
                return f"{change.where}: {change.what.value} ({change.detail})"
        return "a type inside differs"


class Registry(Mapping[str, NamedType]):
    """Known types. A name has one definition; a different one is refused and noted."""

    def __init__(self, *, type_count_max: int = TYPE_COUNT_MAX) -> None:
        self._types: dict[str, NamedType] = {}
        self._origins: dict[str, str] = {}
        self._conflicts: dict[tuple[str, int], Conflict] = {}
        self._type_count_max = type_count_max

    def add(self, type_: NamedType, *, origin: str) -> None:
        """Add a type and all types inside. Adding an equal type again changes nothing.

        Raises SchemaMismatchError if a name has a different definition, and LimitExceeded if there
        are too many types; nothing is added then.
        """
        wanted = [*dependencies(type_), type_]
        fresh = [item for item in wanted if self._is_new(item, origin)]
        count = len(self._types) + len(fresh)
        if count > self._type_count_max:
            raise LimitExceeded(what="count of types", value=count, limit=self._type_count_max)
        for item in fresh:
            self._types[item.name] = item
            self._origins[item.name] = origin

    def __getitem__(self, name: str) -> NamedType:
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The definitions that were refused, each once."""
        return tuple(self._conflicts.values())

    def _is_new(self, type_: NamedType, origin: str) -> bool:
        known = self._types.get(type_.name)
        if known is None:
            return True
        if fingerprint(known) == fingerprint(type_):
            return False
        conflict = Conflict(
            known=known, known_from=self._origins[type_.name], offered=type_, offered_from=origin
        )
        # A peer that sends many definitions must not fill the memory; the oldest are kept.
        if len(self._conflicts) < CONFLICT_COUNT_MAX:
            self._conflicts.setdefault((type_.name, fingerprint(type_)), conflict)
        raise SchemaMismatchError(
            name=type_.name,
            known=f"the one from {conflict.known_from}",
            offered=f"the one from {origin}",
            difference=conflict.difference(),
        )
