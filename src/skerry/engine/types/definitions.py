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

The served form of a type is computed on demand: a changed part makes all types that use it
outdated, and there may be many of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import islice
from typing import Final, NamedTuple

from skerry.errors import LimitExceeded, SchemaMismatchError
from skerry.limits import (
    DEFINITION_COUNT_MAX,
    ENUM_ELEMENT_COUNT_MAX,
    TYPE_COUNT_MAX,
    TYPE_DEPTH_MAX,
)
from skerry.schema.changes import What, change
from skerry.schema.evolve import compare_one
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
from skerry.schema.union import covers, obstacle, unite, unite_deep

__all__ = ["Clash", "Definition", "Definitions"]

_FREE_LOOKS: Final = 500
"""Unused types that are examined when room is needed for a new one."""
_SHOWN_USERS: Final = 3
"""Users of a definition that an error message names; the others are only counted."""


class Definition:
    """One definition of a type. Clients that sent the same one share it."""

    __slots__ = ("clash", "clients", "is_accepted", "is_owned", "type")

    def __init__(self, type_: NamedType) -> None:
        self.type = type_
        self.clients: dict[int, str] = {}
        """Connected clients that sent it: names by id."""
        self.is_accepted = False
        """Whether it is part of the union."""
        self.is_owned = False
        """Whether a client that may publish the type itself sent it."""
        self.clash: Clash | None = None
        """Why it cannot be part of the union; None if it can, or if it is only used for reading."""


class Clash(NamedTuple):
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


class _Held:
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


class _Known:
    """A type name with all its definitions."""

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
        """The address of the client that sent the name; the type counts for its share."""
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
        self._known: dict[str, _Known] = {}
        self._held: dict[int, _Held] = {}
        """The definitions of each client."""
        self._unused: dict[str, None] = {}
        """Types that no client uses, the longest unused first."""
        self._unused_of: dict[str, dict[str, None]] = {}
        """The same by the address whose share they count for."""
        self._by_address: Counter[str] = Counter()
        self._has_objects = has_objects
        self._misfit = misfit
        self._has_published = has_published
        self._is_needed = is_needed
        self._outdated = outdated
        self._removed = removed
        self._type_count_max = type_count_max
        self.conflict_count = 0
        """Definitions that were refused."""
        self.work = 0
        """Types that were examined or outdated because of others that they use."""
        self._displaced: list[tuple[int, Definition]] = []
        self._replaced: list[tuple[Definition, str]] = []
        """Displaced definitions, with the names of the types that replace them or a part."""

    # -- the types that are served

    def __getitem__(self, name: str) -> NamedType:
        internal = self._internal.get(name)
        return self._serve(self._known[name]) if internal is None else internal

    def __iter__(self) -> Iterator[str]:
        yield from self._internal
        yield from self._known

    def __len__(self) -> int:
        return len(self._internal) + len(self._known)

    def __contains__(self, name: object) -> bool:
        return name in self._internal or name in self._known

    def is_defined(self, name: str) -> bool:
        """Whether a definition of a type is accepted, and not only used for reading."""
        known = self._known.get(name)
        return known is not None and any(d.is_accepted for d in known.definitions.values())

    def definitions(self, name: str) -> list[Definition]:
        """The definitions of a type that are in use."""
        known = self._known.get(name)
        if known is None:
            return []
        self._drop_unused(known)
        return list(known.definitions.values())

    def users(self, definition: Definition) -> str:
        """The clients that use a definition, or else the objects that need it, for a message."""
        names = [f"client {number} ({name})" for number, name in definition.clients.items()]
        if not names:
            return f"objects of {self._with_objects(definition.type.name) or definition.type.name}"
        more = len(names) - _SHOWN_USERS
        shown = [*names[:_SHOWN_USERS], f"{more} other clients"] if more > 0 else names
        return ", ".join(shown)

    def held(self, client: int, name: str) -> Definition | None:
        """The definition that a client sent last."""
        held = self._held.get(client)
        return None if held is None else held.current.get(name)

    def conflict(self, client: int, name: str) -> SchemaMismatchError | None:
        """Why the definition that a client sent is not part of the union, though it should be."""
        definition = self.held(client, name)
        if definition is None or definition.clash is None:
            return None
        difference, other = definition.clash.difference, definition.clash.other
        users = self._users_of(self._known[name]) if other is None else self.users(other)
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
            found = unite_deep(served, own)
            return None if isinstance(found, StructType) else str(found)
        return str(obstacle(served, own))

    # -- definitions of clients

    def bring(
        self,
        type_: NamedType,
        *,
        client: int,
        who: str,
        may_publish: Callable[[str], bool],
        is_publishing: bool = False,
        address: str = "",
        address_count_max: int = TYPE_COUNT_MAX,
        type_count_max: int = TYPE_COUNT_MAX,
    ) -> None:
        """Add a definition of a client named `who`. `conflict` then returns whether it is accepted.

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
                offered=f"client {client} ({who})",
                difference="it is the name of an internal type",
            )
        parts = [part for part in (*dependencies(type_), type_) if part.name not in self._internal]
        self._make_room(parts, address, address_count_max, type_count_max)
        may_define = may_publish(type_.name)
        owned = {part.name for part in parts if may_publish(part.name)} if may_define else set()
        clash = self._clash(parts, owned, client, is_publishing) if may_define else None
        held = {part.name: self._hold(part, client, who, address) for part in parts}
        self._note_sent(type_, held, client)
        brought = held[type_.name]
        for displaced, part_name in self._replaced:
            assert displaced.clash is not None
            displaced.clash = Clash(displaced.clash.difference, held[part_name])
        self._replaced.clear()
        if clash is not None:
            if clash.is_decided:
                self._refuse(brought, clash)
            return
        for part in parts if may_define else ():
            known = self._known[part.name]
            self._accept(known, part, is_owned=part.name in owned)
            self._drop_unused(known)

    def take_displaced(self) -> list[tuple[int, Definition]]:
        """Clients whose definition was replaced by one with which another client publishes."""
        displaced, self._displaced = self._displaced, []
        return displaced

    def is_blocked(self, client: int, name: str) -> bool:
        """Whether the conflict of a client's definition remains; a check that changes nothing."""
        definition = self.held(client, name)
        clash = None if definition is None else definition.clash
        if clash is None:
            return False
        if clash.other is None:
            return not clash.is_by_objects or bool(self._with_objects(name))
        if clash.is_by_right and clash.other.clients:
            return True
        return self._is_used(clash.other, client)

    def restore(self, type_: StructType) -> None:
        """Add the stored definition of a type whose objects are loaded from the storage."""
        for part in (*dependencies(type_), type_):
            if part.name in self._internal:
                continue
            known = self._known.get(part.name) or self._add(part.name, "")
            known.definitions.setdefault(fingerprint(part), Definition(part))
            self._accept(known, part, is_owned=part is type_)
            self._note_unused(known)

    def forget(self, client: int) -> Iterator[str]:
        """Release the definitions of a client that disconnected, yielding the name of each."""
        held = self._held.get(client, _Held())
        while held.uses:
            definition, _ = held.uses.popitem()
            name = definition.type.name
            self._release(self._known[name], definition, client)
            yield name
        self._held.pop(client, None)

    # -- compatibility

    def _clash(
        self, parts: list[NamedType], owned: Collection[str], client: int, is_publishing: bool
    ) -> Clash | None:
        """The conflicts that keep a client's definitions out of their unions.

        Without any, incompatible definitions that are no longer used are replaced. `owned` has the
        names of the types that the client may publish.
        """
        obsolete: list[tuple[_Known, Definition, str]] = []
        for part in parts:
            known = self._known.get(part.name)
            if known is None:
                continue
            same = known.definitions.get(fingerprint(part))
            if same is not None and same.is_accepted:
                continue
            staying: list[NamedType] = []
            for definition in known.definitions.values():
                if not definition.is_accepted:
                    continue
                found = obstacle(definition.type, part)
                if found is None:
                    staying.append(definition.type)
                    continue
                others = [number for number in definition.clients if number != client]
                is_weaker = definition.is_owned and part.name not in owned
                is_stronger = not definition.is_owned and part.name in owned
                is_used = self._is_used(definition, client, by_clients=not is_stronger)
                if is_used or (others and (is_weaker or not is_publishing)):
                    is_decided = is_used or is_publishing
                    return Clash(
                        str(found), definition, is_decided=is_decided, is_by_right=is_weaker
                    )
                obsolete.append((known, definition, str(found)))
            count = sum(definition.is_accepted for definition in known.definitions.values())
            if count and count == len(staying) and known.union is not None:
                # No definition is replaced, so the served form stays.
                staying = [known.union]
            clash = self._structure_clash(part, staying)
            if clash is None and part.name not in owned:
                clash = self._right_clash(known, part)
            if clash is not None:
                return clash
        for known, definition, difference in obsolete:
            around = self._definitions_around(definition)
            self._displace(known, definition, difference, known.name)
            for user in around:
                self._displace(self._known[user.type.name], user, difference, known.name)
        return None

    def _definitions_around(self, definition: Definition) -> list[Definition]:
        """The accepted definitions of types that have this definition inside."""
        number, name = fingerprint(definition.type), definition.type.name
        return [
            user
            for above in self._users_above(name)
            for user in self._known[above].definitions.values()
            if user.is_accepted
            and any(
                part.name == name and fingerprint(part) == number
                for part in dependencies(user.type)
            )
        ]

    def _displace(
        self, known: _Known, definition: Definition, difference: str, part_name: str
    ) -> None:
        """Remove a definition from its union though clients use it.

        `part_name` names the type that differs: its own, or one inside.
        """
        definition.is_accepted = False
        self._refuse(definition, Clash(difference, None))
        self._displaced += [(number, definition) for number in definition.clients]
        self._replaced.append((definition, part_name))
        self._unite(known)

    def _refuse(self, definition: Definition, clash: Clash) -> None:
        self.conflict_count += definition.clash is None
        definition.clash = clash

    def _structure_clash(self, part: NamedType, staying: list[NamedType]) -> Clash | None:
        """The conflict in a union, or in types that use it, that a new definition would cause."""
        base = reduce(unite, staying) if staying else None
        united = part if base is None else unite(base, part)
        if united == base:
            return None
        if not isinstance(united, StructType):
            count = len(united.elements)
            is_over = count > ENUM_ELEMENT_COUNT_MAX
            fault = f"{count} elements, the limit is {ENUM_ELEMENT_COUNT_MAX}"
            return Clash(fault, None) if is_over else None
        if part.name in self._reached_from(frozenset(_part_names(united))):
            return Clash(f"{part.name} would contain itself", None)
        users = self._users_above(part.name)
        if users and self._depth(united) + self._height(part.name) > TYPE_DEPTH_MAX:
            fault = f"types that use {part.name} would be nested over {TYPE_DEPTH_MAX} deep"
            return Clash(fault, None)
        changed = {part.name, *users}
        for user in (part.name, *users):
            fault = self._misfit(user, united)
            if fault:
                return Clash(fault, None, is_by_objects=True)
            union = self._known[user].union
            if user != part.name and isinstance(union, StructType) and _has_in_key(union, changed):
                return Clash(str(change(What.KEY_STRUCT_CHANGED, user, part.name)), None)
        return None

    def _right_clash(self, known: _Known, part: NamedType) -> Clash | None:
        """What a client would change in a type that has objects and that it may not publish."""
        union = known.union
        owned = next((d for d in known.definitions.values() if d.is_accepted and d.is_owned), None)
        if owned is None or union is None or not self._has_objects(part.name):
            return None
        differences = compare_one(union, _with_flags(unite(union, part), union))
        difference = next(differences, None)
        if difference is None:
            return None
        fault = f"{difference}; the client may not publish {part.name}"
        return Clash(fault, owned, is_by_right=True)

    def _is_used(self, definition: Definition, but: int = 0, *, by_clients: bool = True) -> bool:
        """Whether a client other than `but` publishes with a definition, or objects exist."""
        name = definition.type.name
        names = (name, *self._users_above(name))
        return any(map(self._has_objects, names)) or any(
            by_clients and self._has_published(number, used)
            for number in definition.clients
            if number != but
            for used in names
        )

    def _with_objects(self, name: str) -> str:
        """The name of the type, or of a type that uses it, that has objects; empty if none has."""
        return next((n for n in (name, *self._users_above(name)) if self._has_objects(n)), "")

    def _users_of(self, known: _Known) -> str:
        accepted = [d for d in known.definitions.values() if d.is_accepted]
        return ", ".join(self.users(definition) for definition in accepted) or "the node"

    # -- unions

    def _accept(self, known: _Known, part: NamedType, *, is_owned: bool) -> None:
        definition = known.definitions[fingerprint(part)]
        if definition.is_accepted and (definition.is_owned or not is_owned):
            return
        accepted = [d for d in known.definitions.values() if d.is_accepted]
        is_alike = bool(accepted) and all(d.is_owned == is_owned for d in accepted)
        definition.is_accepted = True
        definition.is_owned = is_owned
        definition.clash = None
        if is_alike and known.union is not None:
            self._serve_union(known, unite(known.union, part))
        else:
            self._unite(known)

    def _unite(self, known: _Known) -> None:
        """Compute the union of a type again, after definitions left or the flags changed."""
        accepted = [d for d in known.definitions.values() if d.is_accepted]
        bases = accepted or list(known.definitions.values())[:1]
        union = reduce(unite, [d.type for d in bases])
        owned = [d.type for d in accepted if d.is_owned]
        if owned and len(owned) < len(accepted):
            union = _with_flags(union, reduce(unite, owned))
        self._serve_union(known, union)

    def _serve_union(self, known: _Known, union: NamedType) -> None:
        if union == known.union:
            return
        known.union = union
        needs = frozenset(_part_names(union))
        for name in known.needs - needs:
            self._known[name].used_by.discard(known.name)
            self._known[name].fresh_users.discard(known.name)
        for name in needs - known.needs:
            self._known[name].used_by.add(known.name)
        known.needs = needs
        self._outdate(known)

    def _outdate(self, known: _Known) -> None:
        outdated = [known]
        while outdated:
            one = outdated.pop()
            one.served = None
            self.work += 1
            self._outdated(one.name)
            outdated += [self._known[name] for name in one.fresh_users]
            one.fresh_users.clear()

    def _serve(self, known: _Known) -> NamedType:
        if known.served is None:
            assert known.union is not None
            parts = {name: self[name] for name in known.needs}
            for name in known.needs:
                self._known[name].fresh_users.add(known.name)
            union = known.union
            known.served = with_parts(union, parts) if isinstance(union, StructType) else union
        return known.served

    # -- users

    def _hold(self, part: NamedType, client: int, who: str, address: str) -> Definition:
        known = self._known.get(part.name) or self._add(part.name, address)
        number = fingerprint(part)
        definition = known.definitions.get(number)
        if definition is None:
            definition = known.definitions[number] = Definition(part)
        definition.clients[client] = who
        self._note_used(known)
        if known.union is None:
            self._unite(known)
        return definition

    def _note_sent(self, type_: NamedType, parts: Mapping[str, Definition], client: int) -> None:
        """Note what a client uses by a type that it sent, and release what it used instead."""
        held = self._held.setdefault(client, _Held())
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
            known = self._known[part.name]
            definition = known.definitions[fingerprint(part)]
            held.uses[definition] -= 1
            if not held.uses[definition]:
                del held.uses[definition]
                self._release(known, definition, client)

    def _release(self, known: _Known, definition: Definition, client: int) -> None:
        del definition.clients[client]
        if definition.clients:
            return
        if not definition.is_accepted and len(known.definitions) > 1:
            self._drop(known, definition)
        else:
            self._drop_unused(known)
        if not any(d.clients for d in known.definitions.values()):
            self._note_unused(known)

    def _note_unused(self, known: _Known) -> None:
        self._unused[known.name] = None
        self._unused_of.setdefault(known.address, {})[known.name] = None

    def _note_used(self, known: _Known) -> None:
        self._unused.pop(known.name, None)
        names = self._unused_of.get(known.address, {})
        names.pop(known.name, None)
        if not names:
            self._unused_of.pop(known.address, None)

    def _drop_unused(self, known: _Known) -> None:
        """Drop definitions that no client uses and no object needs, except for the last one."""
        for definition in list(known.definitions.values()):
            if definition.clients or len(known.definitions) == 1:
                continue
            if not definition.is_accepted:
                self._drop(known, definition)
                continue
            rest = [
                d.type
                for d in known.definitions.values()
                if d.is_accepted and d is not definition and (d.is_owned or not definition.is_owned)
            ]
            is_covered = bool(rest) and covers(reduce(unite, rest), definition.type)
            if is_covered or not self._with_objects(known.name):
                self._drop(known, definition)

    def _drop(self, known: _Known, definition: Definition) -> None:
        assert not definition.clients
        del known.definitions[fingerprint(definition.type)]
        if known.definitions:
            self._unite(known)
        else:
            known.union = None

    # -- room

    def _make_room(
        self, parts: list[NamedType], address: str, address_count_max: int, type_count_max: int
    ) -> None:
        """Remove unused types until new names and definitions fit; LimitExceeded if they do not."""
        fresh_count = sum(part.name not in self._known for part in parts)
        if fresh_count:
            limit = min(type_count_max, self._type_count_max)
            wanted = {part.name for part in parts}
            self._free(len(self) + fresh_count - limit, self._unused, wanted)
            if address:
                excess = self._by_address[address] + fresh_count - address_count_max
                self._free(excess, self._unused_of.get(address, ()), wanted)
            for what, count, most in (
                ("count of types", len(self), limit),
                ("count of types of one address", self._by_address[address], address_count_max),
            ):
                if count + fresh_count > most and (address or what == "count of types"):
                    raise LimitExceeded(what=what, value=count + fresh_count, limit=most)
        for part in parts:
            known = self._known.get(part.name)
            if known is not None and fingerprint(part) not in known.definitions:
                self._drop_unused(known)
                count = sum(d.is_accepted for d in known.definitions.values()) + 1
                if count > DEFINITION_COUNT_MAX:
                    what = f"count of definitions of {part.name:.60}"
                    raise LimitExceeded(what=what, value=count, limit=DEFINITION_COUNT_MAX)

    def _free(self, count: int, unused: Iterable[str], wanted: set[str]) -> None:
        """Remove as many unused types as are needed, if there are so many.

        Types in `wanted` stay.
        """
        for name in list(islice(unused, _FREE_LOOKS)) if count > 0 else ():
            known = self._known.get(name)
            if known is None:
                continue
            self._note_used(known)
            if name in wanted or known.used_by or self._with_objects(name) or self._is_needed(name):
                # It is examined again after all others.
                self._note_unused(known)
                continue
            self._remove(known)
            count -= 1
            if count <= 0:
                return

    def _add(self, name: str, address: str) -> _Known:
        known = self._known[name] = _Known(name, address)
        self._by_address[address] += 1
        return known

    def _remove(self, known: _Known) -> None:
        for name in known.needs:
            self._known[name].used_by.discard(known.name)
            self._known[name].fresh_users.discard(known.name)
            if not any(d.clients for d in self._known[name].definitions.values()):
                self._note_unused(self._known[name])
        del self._known[known.name]
        self._by_address[known.address] -= 1
        if not self._by_address[known.address]:
            del self._by_address[known.address]
        self._removed(known.name)

    # -- types that use each other

    def _users_above(self, name: str) -> list[str]:
        """All types that use a type, directly or by way of others."""
        found: dict[str, None] = {}
        waiting = [name]
        while waiting:
            known = self._known.get(waiting.pop())
            for user in known.used_by if known is not None else ():
                if user not in found:
                    found[user] = None
                    waiting.append(user)
        self.work += len(found)
        return list(found)

    def _reached_from(self, names: frozenset[str]) -> set[str]:
        """All types that some types use, these included."""
        found = set(names)
        waiting = list(names)
        while waiting:
            known = self._known.get(waiting.pop())
            fresh = set() if known is None else known.needs - found
            found |= fresh
            waiting += fresh
        return found

    def _depth(self, struct: StructType) -> int:
        """The nesting depth of a struct, itself counted."""
        depth = 0
        level: set[NamedType | None] = {struct}
        while any(isinstance(union, StructType) for union in level):
            depth += 1
            names = {name for union in level if union is not None for name in _part_names(union)}
            level = {self._known[name].union for name in names if name in self._known}
        return depth

    def _height(self, name: str) -> int:
        """The number of structs around a type where it is nested deepest."""
        height = -1
        level = {name}
        while level:
            height += 1
            level = {user for inner in level for user in self._known[inner].used_by}
        return height


def _part_names(type_: NamedType) -> Iterator[str]:
    """Names of the types that a type uses directly, internal ones left out."""
    for item in type_.fields if isinstance(type_, StructType) else ():
        used = content_of(item.type)
        if isinstance(used, (EnumType, StructType)) and used.name not in internal_types():
            yield used.name


def _has_in_key(struct: StructType, names: set[str]) -> bool:
    return any(content_of(item.type).name in names for item in struct.key_fields)


def _with_flags(type_: NamedType, other: NamedType) -> NamedType:
    """A type with the flags and the scope of another one."""
    if isinstance(type_, StructType) and isinstance(other, StructType):
        return replace(type_, flags=other.flags, scope=other.scope)
    return type_
