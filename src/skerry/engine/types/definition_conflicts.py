"""Whether the definitions that a client sent can become part of their unions.

A definition conflicts with another one that is in use if the two are incompatible, if their union
would be too large or too deep, or if existing objects could not be read by the union. A client that
may not publish a type cannot change it either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import reduce
from typing import NamedTuple

from skerry.engine.types.served_types import (
    Definition,
    ServedType,
    ServedTypes,
    UnionConflict,
    part_names,
    with_flags,
)
from skerry.limits import ENUM_ELEMENT_COUNT_MAX, TYPE_DEPTH_MAX
from skerry.schema.changes import What, change
from skerry.schema.evolve import compare_one
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import NamedType, StructType, content_of
from skerry.schema.union import obstacle, unite


class ObsoleteDefinition(NamedTuple):
    """An accepted definition that is no longer used and that a new one replaces."""

    type: ServedType
    definition: Definition
    difference: str


class DefinitionConflicts:
    """Compares new definitions with those in use.

    `has_objects` returns whether objects of a struct type exist, `misfit` why existing objects
    could not be read by a new union of its definitions, and `has_published` whether a client
    published objects of a type.
    """

    def __init__(
        self,
        types: ServedTypes,
        *,
        has_objects: Callable[[str], bool],
        misfit: Callable[[str, StructType], str],
        has_published: Callable[[int, str], bool],
    ) -> None:
        self._types = types
        self._has_objects = has_objects
        self._misfit = misfit
        self._has_published = has_published

    def find(
        self, parts: list[NamedType], owned: Collection[str], client: int, is_publishing: bool
    ) -> UnionConflict | list[ObsoleteDefinition]:
        """The conflict that keeps a client's definitions out of their unions.

        Without a conflict, the definitions that the new ones replace. `owned` has the names of the
        types that the client may publish.
        """
        obsolete: list[ObsoleteDefinition] = []
        for part in parts:
            type_ = self._types.get(part.name)
            if type_ is None:
                continue
            same = type_.definitions.get(fingerprint(part))
            if same is not None and same.is_accepted:
                continue
            accepted, staying = type_.accepted, list[NamedType]()
            for definition in accepted:
                difference = obstacle(definition.type, part)
                if difference is None:
                    staying.append(definition.type)
                    continue
                others = [number for number in definition.clients if number != client]
                is_weaker = definition.is_owned and part.name not in owned
                is_stronger = not definition.is_owned and part.name in owned
                is_used = self.is_used(definition, client, by_clients=not is_stronger)
                if is_used or (others and (is_weaker or not is_publishing)):
                    return UnionConflict(
                        str(difference),
                        definition,
                        is_decided=is_used or is_publishing,
                        is_by_right=is_weaker,
                    )
                obsolete.append(ObsoleteDefinition(type_, definition, str(difference)))
            if accepted and len(accepted) == len(staying) and type_.union is not None:
                # No definition is replaced, so the served form stays.
                staying = [type_.union]
            conflict = self._structure_conflict(part, staying)
            if conflict is None and part.name not in owned:
                conflict = self._right_conflict(type_, part)
            if conflict is not None:
                return conflict
        return obsolete

    def is_used(self, definition: Definition, but: int = 0, *, by_clients: bool = True) -> bool:
        """Whether a client other than `but` publishes with a definition, or objects exist."""
        name = definition.type.name
        names = (name, *self._types.users_above(name))
        return any(map(self._has_objects, names)) or any(
            by_clients and self._has_published(number, used)
            for number in definition.clients
            if number != but
            for used in names
        )

    def with_objects(self, name: str) -> str:
        """The name of the type, or of a type that uses it, that has objects; empty if none has."""
        names = (name, *self._types.users_above(name))
        return next((found for found in names if self._has_objects(found)), "")

    def _structure_conflict(
        self, part: NamedType, staying: list[NamedType]
    ) -> UnionConflict | None:
        """The conflict in a union, or in types that use it, that a new definition would cause."""
        base = reduce(unite, staying) if staying else None
        united = part if base is None else unite(base, part)
        if united == base:
            return None
        if not isinstance(united, StructType):
            count = len(united.elements)
            is_over = count > ENUM_ELEMENT_COUNT_MAX
            fault = f"{count} elements, the limit is {ENUM_ELEMENT_COUNT_MAX}"
            return UnionConflict(fault, None) if is_over else None
        if part.name in self._types.reached_from(frozenset(part_names(united))):
            return UnionConflict(f"{part.name} would contain itself", None)
        users = self._types.users_above(part.name)
        if users:
            depth = self._types.depth(united) + self._types.height(part.name)
            if depth > TYPE_DEPTH_MAX:
                fault = f"types that use {part.name} would be nested over {TYPE_DEPTH_MAX} deep"
                return UnionConflict(fault, None)
        changed = {part.name, *users}
        for user in (part.name, *users):
            fault = self._misfit(user, united)
            if fault:
                return UnionConflict(fault, None, is_by_objects=True)
            union = self._types[user].union
            if user != part.name and isinstance(union, StructType) and _has_in_key(union, changed):
                return UnionConflict(str(change(What.KEY_STRUCT_CHANGED, user, part.name)), None)
        return None

    def _right_conflict(self, type_: ServedType, part: NamedType) -> UnionConflict | None:
        """What a client would change in a type that has objects and that it may not publish."""
        union = type_.union
        owned = next((d for d in type_.accepted if d.is_owned), None)
        if owned is None or union is None or not self._has_objects(part.name):
            return None
        differences = compare_one(union, with_flags(unite(union, part), union))
        difference = next(differences, None)
        if difference is None:
            return None
        fault = f"{difference}; the client may not publish {part.name}"
        return UnionConflict(fault, owned, is_by_right=True)


def _has_in_key(struct: StructType, names: set[str]) -> bool:
    return any(content_of(item.type).name in names for item in struct.key_fields)
