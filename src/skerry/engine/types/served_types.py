"""The union of the accepted definitions of each type, and the form in which a node serves it.

Types use each other: a struct has fields whose types are other structs and enums. The union of a
type refers to the types inside it by name only, and its served form contains their served forms.
The served form is computed on demand, because a changed type makes all types that use it outdated,
and there may be many of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

from skerry.schema.fingerprint import fingerprint
from skerry.schema.internal import internal_types
from skerry.schema.model import (
    EnumType,
    NamedType,
    StructType,
    content_of,
    dependencies,
    with_parts,
)
from skerry.schema.union import unite


class Definition:
    """One definition of a type. Clients that sent the same one share it."""

    __slots__ = ("clients", "conflict", "is_accepted", "is_owned", "type")

    def __init__(self, type_: NamedType) -> None:
        self.type = type_
        self.clients: dict[int, str] = {}
        """Connected clients that sent it: names by id."""
        self.is_accepted = False
        self.is_owned = False
        """Whether a client that may publish the type itself sent it."""
        self.conflict: UnionConflict | None = None
        """Why it cannot be part of the union; None if it can, or if it is only used for reading."""


class UnionConflict(NamedTuple):
    """Why a definition cannot be part of a union."""

    difference: str
    other: Definition | None
    """The definition with which it is incompatible, if it is a single one."""
    is_decided: bool = True
    """Whether the other one stays; if not, that is decided when a client publishes with this."""
    is_by_objects: bool = False
    """Whether objects have values that the definition cannot read."""
    is_by_right: bool = False
    """Whether the client lacks the right to publish the type, unlike clients of the other."""


class ServedType:
    """A type name with all its definitions, their union and the served form."""

    __slots__ = (
        "address",
        "definitions",
        "fresh_users",
        "name",
        "needs",
        "served",
        "union",
        "used_by",
    )

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        """The address of the client that sent the name; the type counts for its quota."""
        self.definitions: dict[int, Definition] = {}
        """By fingerprint, oldest first."""
        self.union: NamedType | None = None
        """The union of the accepted definitions; the types inside are those of any of them."""
        self.served: NamedType | None = None
        """The union with the served form of each type inside; None while it is outdated."""
        self.needs: frozenset[str] = frozenset()
        """Names of the types that the union uses directly."""
        self.used_by: set[str] = set()
        """Names of the types whose unions use this one directly."""
        self.fresh_users: set[str] = set()
        """Those of them whose served form contains the current one of this type."""

    @property
    def accepted(self) -> list[Definition]:
        """The definitions of which the union consists."""
        return [d for d in self.definitions.values() if d.is_accepted]

    @property
    def has_clients(self) -> bool:
        """Whether a connected client sent a definition."""
        return any(d.clients for d in self.definitions.values())


class ServedTypes(dict[str, ServedType]):
    """All types by name, except for internal ones.

    `outdated` is called with the name of each type whose served form changed.
    """

    def __init__(self, outdated: Callable[[str], None]) -> None:
        super().__init__()
        self._internal = internal_types()
        self._outdated = outdated
        self.work = 0
        """Types that were examined or outdated because of others that they use."""

    # -- unions

    def served(self, name: str) -> NamedType:
        """The served form of a type, internal ones included; KeyError for an unknown name."""
        internal = self._internal.get(name)
        if internal is not None:
            return internal
        type_ = self[name]
        if type_.served is None:
            union = type_.union
            assert union is not None
            parts = {part: self.served(part) for part in type_.needs}
            for part in type_.needs:
                self[part].fresh_users.add(name)
            type_.served = with_parts(union, parts) if isinstance(union, StructType) else union
        return type_.served

    def accept(self, type_: ServedType, part: NamedType, *, is_owned: bool) -> None:
        """Make a definition part of the union of its type."""
        definition = type_.definitions[fingerprint(part)]
        if definition.is_accepted and (definition.is_owned or not is_owned):
            return
        accepted = type_.accepted
        is_alike = bool(accepted) and all(d.is_owned == is_owned for d in accepted)
        definition.is_accepted = True
        definition.is_owned = is_owned
        definition.conflict = None
        if is_alike and type_.union is not None:
            self._set_union(type_, unite(type_.union, part))
        else:
            self.unite_again(type_)

    def unite_again(self, type_: ServedType) -> None:
        """Compute the union of a type after definitions left or the flags changed."""
        accepted = type_.accepted
        bases = accepted or list(type_.definitions.values())[:1]
        union = reduce(unite, [d.type for d in bases])
        owned = [d.type for d in accepted if d.is_owned]
        if owned and len(owned) < len(accepted):
            union = with_flags(union, reduce(unite, owned))
        self._set_union(type_, union)

    def drop(self, type_: ServedType, definition: Definition) -> None:
        """Remove a definition that no client uses."""
        assert not definition.clients
        del type_.definitions[fingerprint(definition.type)]
        if type_.definitions:
            self.unite_again(type_)
        else:
            type_.union = None

    def _set_union(self, type_: ServedType, union: NamedType) -> None:
        if union == type_.union:
            return
        type_.union = union
        needs = frozenset(part_names(union))
        for name in type_.needs - needs:
            self[name].used_by.discard(type_.name)
            self[name].fresh_users.discard(type_.name)
        for name in needs - type_.needs:
            self[name].used_by.add(type_.name)
        type_.needs = needs
        self._outdate(type_)

    def _outdate(self, type_: ServedType) -> None:
        outdated = [type_]
        while outdated:
            one = outdated.pop()
            one.served = None
            self.work += 1
            self._outdated(one.name)
            outdated += [self[name] for name in one.fresh_users]
            one.fresh_users.clear()

    # -- types that use each other

    def users_above(self, name: str) -> list[str]:
        """All types that use a type, directly or by way of others."""
        found: dict[str, None] = {}
        waiting = [name]
        while waiting:
            type_ = self.get(waiting.pop())
            for user in type_.used_by if type_ is not None else ():
                if user not in found:
                    found[user] = None
                    waiting.append(user)
        self.work += len(found)
        return list(found)

    def definitions_around(self, definition: Definition) -> list[Definition]:
        """The accepted definitions of types that have this definition inside."""
        number, name = fingerprint(definition.type), definition.type.name
        return [
            user
            for above in self.users_above(name)
            for user in self[above].accepted
            if any(
                part.name == name and fingerprint(part) == number
                for part in dependencies(user.type)
            )
        ]

    def reached_from(self, names: frozenset[str]) -> set[str]:
        """All types that some types use, these included."""
        found = set(names)
        waiting = list(names)
        while waiting:
            type_ = self.get(waiting.pop())
            fresh = set() if type_ is None else type_.needs - found
            found |= fresh
            waiting += fresh
        return found

    def depth(self, struct: StructType) -> int:
        """The nesting depth of a struct, itself counted."""
        depth = 0
        level: set[NamedType | None] = {struct}
        while any(isinstance(union, StructType) for union in level):
            depth += 1
            names = {name for union in level if union is not None for name in part_names(union)}
            level = {self[name].union for name in names if name in self}
        return depth

    def height(self, name: str) -> int:
        """The number of structs around a type where it is nested deepest."""
        height = -1
        level = {name}
        while level:
            height += 1
            level = {user for inner in level for user in self[inner].used_by}
        return height


def part_names(type_: NamedType) -> Iterator[str]:
    """Names of the types that a type uses directly, internal ones left out."""
    for item in type_.fields if isinstance(type_, StructType) else ():
        used = content_of(item.type)
        if isinstance(used, (EnumType, StructType)) and used.name not in internal_types():
            yield used.name


def with_flags(type_: NamedType, other: NamedType) -> NamedType:
    """A type with the flags and the scope of another one."""
    if isinstance(type_, StructType) and isinstance(other, StructType):
        return replace(type_, flags=other.flags, scope=other.scope)
    return type_
