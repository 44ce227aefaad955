"""The types that a program knows, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from skerry.errors import LimitExceeded, SchemaMismatchError
from skerry.limits import CONFLICT_COUNT_MAX, TYPE_COUNT_MAX
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import EnumType, NamedType, dependencies


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A different definition of a known name; the first definition stays in use."""

    known: NamedType
    known_from: str
    offered: NamedType
    offered_from: str

    def difference(self) -> str:
        """The first difference of the two definitions, for a message."""
        return _difference(self.known, self.offered)


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


def _difference(known: NamedType, offered: NamedType) -> str:
    if isinstance(known, EnumType) or isinstance(offered, EnumType):
        if type(known) is not type(offered):
            return "one is an enum, the other a struct"
        assert isinstance(known, EnumType)
        assert isinstance(offered, EnumType)
        ours = {(element.tag, element.name) for element in known.elements}
        theirs = {(element.tag, element.name) for element in offered.elements}
        return _first_difference(
            {f"element {tag}: {name}" for tag, name in ours},
            {f"element {tag}: {name}" for tag, name in theirs},
        )
    ours_text = {
        _field_text(item.tag, item.name, item.type.name, item.is_key) for item in known.fields
    }
    theirs_text = {
        _field_text(item.tag, item.name, item.type.name, item.is_key) for item in offered.fields
    }
    if ours_text != theirs_text:
        return _first_difference(ours_text, theirs_text)
    if known.flags != offered.flags:
        return f"flags: {known.flags} against {offered.flags}"
    if known.effective_scope != offered.effective_scope:
        return f"scope: {known.effective_scope.name} against {offered.effective_scope.name}"
    if [item.tag for item in known.fields] != [item.tag for item in offered.fields]:
        return "the fields are declared in another order"
    return "a type inside differs"


def _field_text(tag: int, name: str, type_name: str, is_key: bool) -> str:
    return f"field {tag}: {'[key] ' if is_key else ''}{type_name} {name}"


def _first_difference(known: set[str], offered: set[str]) -> str:
    only_known = sorted(known - offered)
    only_offered = sorted(offered - known)
    first = " and ".join([*only_known[:1], *only_offered[:1]])
    return f"only in one of them: {first}" if first else "declared in another order"
