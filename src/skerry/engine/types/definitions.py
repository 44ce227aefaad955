"""The definitions of each type, the clients that use them, and the one that the node serves.

Clients describe types, and several clients may send different definitions of one name. The node
serves the union of all compatible ones (`schema.union`). A definition joins the union when a client
that may publish the type sends it. It stays in the union while a client that sent it is connected,
and after that while objects exist that the other definitions could not hold.

Of incompatible definitions, the one with which a client published first stays. While clients only
described them nothing is decided, so subscribers do not keep publishers out.

A client that may only subscribe uses its definition for reading. It is served only as long as no
other is known, so such a client cannot change what others receive.

A client that may publish a type also sends the definitions of its parts, the types inside, and may
have no right to publish those. The definition of a part is *owned* if a client that may publish the
part sent it. A definition that is not owned does not decide flags where an owned one exists, does
not replace an owned one, and adds nothing to a type that has objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Final

from skerry.engine.types.definition_conflicts import DefinitionConflicts, ObsoleteDefinition
from skerry.engine.types.served_types import Definition, ServedType, ServedTypes, UnionConflict
from skerry.engine.types.unused_types import UnusedTypes
from skerry.errors import LimitExceeded, SchemaMismatchError
from skerry.limits import TYPE_COUNT_MAX
from skerry.schema.fingerprint import fingerprint
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType, StructType, dependencies
from skerry.schema.union import covers, obstacle, unite, unite_deep

DEFINITION_COUNT_MAX: Final = 64
"""Definitions of one type that a node serves together. Each new one is compared with all others.
Programs of more versions than this do not run at the same time."""

_SHOWN_USERS: Final = 3
"""Users of a definition that an error message names; the others are only counted."""


class _ClientDefinitions:
    """The definitions that one client uses.

    A client may describe a type again, and may describe two types with different definitions of
    the struct inside, so it may use several definitions of one name.
    """

    __slots__ = ("current", "sent", "uses")

    def __init__(self) -> None:
        self.sent: dict[str, NamedType] = {}
        """The types that it sent, by name; types inside are sent with them."""
        self.current: dict[str, Definition] = {}
        """The definition of each name by which it publishes and reads: the last that it sent."""
        self.uses: dict[Definition, int] = {}
        """All definitions, each with the number of types in `sent` that consist of it."""


class Definitions(Mapping[str, NamedType]):
    """All types of a node by name, internal ones included, as they are served.

    `has_objects` returns whether objects of a struct type exist, `misfit` why existing objects
    could not be read by a new union of its definitions, `has_published` whether a client published
    objects of a type, `is_needed` whether a type is in use in another way. `outdated` is called
    with the name of each type whose served form changed, `removed` with the name of each type that
    was removed to make room for others.
    """

    def __init__(
        self,
        *,
        has_objects: Callable[[str], bool],
        misfit: Callable[[str, StructType], str],
        has_published: Callable[[int, str], bool],
        is_needed: Callable[[str], bool],
        outdated: Callable[[str], None],
        removed: Callable[[str], None],
        type_count_max: int = TYPE_COUNT_MAX,
    ) -> None:
        self._internal = internal_types()
        self._types = ServedTypes(outdated)
        self._conflicts = DefinitionConflicts(
            self._types, has_objects=has_objects, misfit=misfit, has_published=has_published
        )
        self._unused = UnusedTypes(
            self._types,
            is_needed=lambda name: bool(self._conflicts.with_objects(name)) or is_needed(name),
            removed=removed,
        )
        self._by_client: dict[int, _ClientDefinitions] = {}
        self._type_count_max = type_count_max
        self.conflict_count = 0
        self._displaced: list[tuple[int, Definition]] = []

    @property
    def work(self) -> int:
        """Types that were examined or outdated because of others that they use."""
        return self._types.work

    # -- the types that are served

    def __getitem__(self, name: str) -> NamedType:
        return self._types.served(name)

    def __iter__(self) -> Iterator[str]:
        yield from self._internal
        yield from self._types

    def __len__(self) -> int:
        return len(self._internal) + len(self._types)

    def __contains__(self, name: object) -> bool:
        return name in self._internal or name in self._types

    def is_defined(self, name: str) -> bool:
        """Whether a definition of a type is accepted, and not only used for reading."""
        type_ = self._types.get(name)
        return type_ is not None and bool(type_.accepted)

    def definitions(self, name: str) -> list[Definition]:
        """The definitions of a type that are in use."""
        type_ = self._types.get(name)
        if type_ is None:
            return []
        self._drop_unused(type_)
        return list(type_.definitions.values())

    def shared(self, type_: NamedType) -> NamedType:
        """The equal definition that another client has sent; `type_` itself if there is none."""
        known = self._types.get(type_.name)
        found = None if known is None else known.definitions.get(fingerprint(type_))
        return found.type if found is not None and found.type == type_ else type_

    def users(self, definition: Definition) -> str:
        """The clients that use a definition, or else the objects that need it, for a message."""
        names = [f"client {number} ({name})" for number, name in definition.clients.items()]
        if not names:
            name = definition.type.name
            return f"objects of {self._conflicts.with_objects(name) or name}"
        more = len(names) - _SHOWN_USERS
        shown = [*names[:_SHOWN_USERS], f"{more} other clients"] if more > 0 else names
        return ", ".join(shown)

    def held(self, client: int, name: str) -> Definition | None:
        """The definition that a client sent last."""
        sent = self._by_client.get(client)
        return None if sent is None else sent.current.get(name)

    def conflict(self, client: int, name: str) -> SchemaMismatchError | None:
        """Why the definition that a client sent is not part of the union, though it should be."""
        definition = self.held(client, name)
        if definition is None or definition.conflict is None:
            return None
        difference, other = definition.conflict.difference, definition.conflict.other
        accepted = self._types[name].accepted if other is None else [other]
        users = ", ".join(map(self.users, accepted)) or "the node"
        return SchemaMismatchError(
            name=name,
            known=f"the one of {users}",
            offered=f"the one of client {client} ({definition.clients[client]})",
            difference=difference,
        )

    def rejection(self, client: int, name: str) -> str | None:
        """Why objects of a client's definition cannot be stored as they are; None if they can.

        Unlike `conflict`, it also returns a reason while it is undecided which definition stays.
        """
        definition = self.held(client, name)
        if definition is None or definition.is_accepted:
            return None
        conflict = self.conflict(client, name)
        if conflict is not None:
            return str(conflict)
        served, own = self[name], definition.type
        if isinstance(served, StructType) and isinstance(own, StructType):
            united = unite_deep(served, own)
            return None if isinstance(united, StructType) else str(united)
        return str(obstacle(served, own))

    # -- definitions of clients

    def register(
        self,
        type_: NamedType,
        *,
        client: int,
        client_name: str,
        may_publish: Callable[[str], bool],
        is_publishing: bool = False,
        address: str = "",
        address_count_max: int = TYPE_COUNT_MAX,
        type_count_max: int = TYPE_COUNT_MAX,
    ) -> None:
        """Add a definition of a client. `conflict` then returns whether it is accepted.

        `may_publish` returns whether the client may publish objects of a type, by its name.

        Raises LimitExceeded if there are too many types or definitions; nothing is changed then.
        Raises SchemaMismatchError if the name is that of an internal type.
        """
        internal = self._internal.get(type_.name)
        if internal is not None:
            if fingerprint(internal) == fingerprint(type_):
                return
            raise SchemaMismatchError(
                name=type_.name,
                known="every node",
                offered=f"client {client} ({client_name})",
                difference="it is the name of an internal type",
            )
        parts = [part for part in (*dependencies(type_), type_) if part.name not in self._internal]
        count_max = min(type_count_max, self._type_count_max)
        self._unused.make_room(
            parts, address, count_max=count_max, address_count_max=address_count_max
        )
        self._check_definition_counts(parts)
        may_define = may_publish(type_.name)
        owned = {part.name for part in parts if may_publish(part.name)} if may_define else set()
        found = self._conflicts.find(parts, owned, client, is_publishing) if may_define else []
        replaced = self._replace(found) if isinstance(found, list) else []
        held = {part.name: self._hold(part, client, client_name, address) for part in parts}
        self._note_sent(type_, held, client)
        for definition, part_name in replaced:
            assert definition.conflict is not None
            definition.conflict = UnionConflict(definition.conflict.difference, held[part_name])
        if isinstance(found, UnionConflict):
            if found.is_decided:
                self._refuse(held[type_.name], found)
            return
        for part in parts if may_define else ():
            known = self._types[part.name]
            self._types.accept(known, part, is_owned=part.name in owned)
            self._drop_unused(known)

    def take_displaced(self) -> list[tuple[int, Definition]]:
        """Clients whose definition was replaced by one with which another client publishes."""
        displaced, self._displaced = self._displaced, []
        return displaced

    def is_blocked(self, client: int, name: str) -> bool:
        """Whether the conflict of a client's definition remains; a check that changes nothing."""
        definition = self.held(client, name)
        conflict = None if definition is None else definition.conflict
        if conflict is None:
            return False
        if conflict.other is None:
            return not conflict.is_by_objects or bool(self._conflicts.with_objects(name))
        if conflict.is_by_right and conflict.other.clients:
            return True
        return self._conflicts.is_used(conflict.other, client)

    def restore(self, type_: StructType) -> None:
        """Add the stored definition of a type whose objects are loaded from the storage."""
        for part in (*dependencies(type_), type_):
            if part.name in self._internal:
                continue
            known = self._types.get(part.name) or self._unused.add(part.name, "")
            known.definitions.setdefault(fingerprint(part), Definition(part))
            self._types.accept(known, part, is_owned=part is type_)
            self._unused.note_unused(known)

    def forget(self, client: int) -> Iterator[str]:
        """Release the definitions of a client that disconnected, yielding the name of each."""
        held = self._by_client.get(client, _ClientDefinitions())
        while held.uses:
            definition, _ = held.uses.popitem()
            name = definition.type.name
            self._release(self._types[name], definition, client)
            yield name
        self._by_client.pop(client, None)

    # -- accepting and replacing

    def _check_definition_counts(self, parts: list[NamedType]) -> None:
        for part in parts:
            type_ = self._types.get(part.name)
            if type_ is not None and fingerprint(part) not in type_.definitions:
                self._drop_unused(type_)
                count = len(type_.accepted) + 1
                if count > DEFINITION_COUNT_MAX:
                    what = f"count of definitions of {part.name:.60}"
                    raise LimitExceeded(what=what, value=count, limit=DEFINITION_COUNT_MAX)

    def _replace(self, obsolete: list[ObsoleteDefinition]) -> list[tuple[Definition, str]]:
        """Remove obsolete definitions from their unions, and those that have them inside.

        Returns the removed definitions, each with the name of the type that differs: its own, or
        one inside.
        """
        replaced: list[tuple[Definition, str]] = []
        for type_, definition, difference in obsolete:
            for displaced in (definition, *self._types.definitions_around(definition)):
                self._displace(displaced, difference)
                replaced.append((displaced, type_.name))
        return replaced

    def _displace(self, definition: Definition, difference: str) -> None:
        """Remove a definition from its union though clients use it."""
        definition.is_accepted = False
        self._refuse(definition, UnionConflict(difference, None))
        self._displaced += [(number, definition) for number in definition.clients]
        self._types.unite_again(self._types[definition.type.name])

    def _refuse(self, definition: Definition, conflict: UnionConflict) -> None:
        self.conflict_count += definition.conflict is None
        definition.conflict = conflict

    # -- users

    def _hold(self, part: NamedType, client: int, client_name: str, address: str) -> Definition:
        type_ = self._types.get(part.name) or self._unused.add(part.name, address)
        definition = type_.definitions.setdefault(fingerprint(part), Definition(part))
        definition.clients[client] = client_name
        self._unused.note_used(type_)
        if type_.union is None:
            self._types.unite_again(type_)
        return definition

    def _note_sent(self, type_: NamedType, parts: Mapping[str, Definition], client: int) -> None:
        """Note what a client uses by a type that it sent, and release what it used instead."""
        held = self._by_client.setdefault(client, _ClientDefinitions())
        for name, definition in parts.items():
            held.uses[definition] = held.uses.get(definition, 0) + 1
            # Of a type inside, the definition that the client sent by itself stays.
            if name == type_.name or name not in held.sent:
                held.current[name] = definition
        former = held.sent.get(type_.name)
        held.sent[type_.name] = type_
        for part in () if former is None else (*dependencies(former), former):
            if part.name in self._internal:
                continue
            known = self._types[part.name]
            definition = known.definitions[fingerprint(part)]
            held.uses[definition] -= 1
            if not held.uses[definition]:
                del held.uses[definition]
                self._release(known, definition, client)

    def _release(self, type_: ServedType, definition: Definition, client: int) -> None:
        del definition.clients[client]
        if definition.clients:
            return
        if not definition.is_accepted and len(type_.definitions) > 1:
            self._types.drop(type_, definition)
        else:
            self._drop_unused(type_)
        if not type_.has_clients:
            self._unused.note_unused(type_)

    def _drop_unused(self, type_: ServedType) -> None:
        """Drop definitions that no client uses and no object needs, except for the last one."""
        for definition in list(type_.definitions.values()):
            if definition.clients or len(type_.definitions) == 1:
                continue
            if not definition.is_accepted:
                self._types.drop(type_, definition)
                continue
            rest = [
                d.type
                for d in type_.accepted
                if d is not definition and (d.is_owned or not definition.is_owned)
            ]
            is_covered = bool(rest) and covers(reduce(unite, rest), definition.type)
            if is_covered or not self._conflicts.with_objects(type_.name):
                self._types.drop(type_, definition)
