"""Random descriptions of types: what a node serves, whatever one connection describes in turn.

Each connection may describe a type again with other fields, compatible or not, and may describe two
types with different definitions of the struct inside. Objects, permissions, disconnects and
restarts come in between.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from skerry.schema.check import define
from skerry.schema.model import NamedType, StructType, dependencies
from skerry.schema.union import obstacle, unite_deep
from tests.unit.engine.types.test_definitions import Node

CLIENTS = (2, 3, 4)
NAMES = ("Boat", "Port")
PLACES = (
    "1: float64 lat;",
    "1: float64 lat; 2: float64 lon;",
    "1: float64 lat; 3: uint8 depth;",
    "1: string lat;",
)
RIGS = ("1: sloop", "1: sloop, 2: ketch", "2: yawl, 3: cutter")
BOATS = (
    "",
    "2: Place place;",
    "2: Place place; 3: string name;",
    "2: vector<Place> place;",
    "3: uint32 name;",
    "4: Rig rig;",
    "2: Place place; 4: Rig rig; 5: bool is_new;",
)
PORTS = ("2: Place place;", "2: Place place; 3: Rig rig;", "3: Boat boat;", "2: string place;")


@cache
def described(name: str, place: str, rig: str, boat: str, port: str) -> StructType:
    text = (
        f"enum Rig {{ {rig} }} struct Place {{ {place} }} "
        f"struct Boat {{ 1: [key] uint32 id; {boat} }} "
        f"struct Port {{ 1: [key] uint32 id; {port} }}"
    )
    found = next(type_ for type_ in define(text).types if type_.name == name)
    assert isinstance(found, StructType)
    return found


definitions = st.builds(
    described,
    st.sampled_from(NAMES),
    st.sampled_from(PLACES),
    st.sampled_from(RIGS),
    st.sampled_from(BOATS),
    st.sampled_from(PORTS),
)


def holds_all(served: NamedType, own: NamedType) -> bool:
    """Whether the served definition has all that another one has, also in the types inside."""
    if not isinstance(served, StructType) or not isinstance(own, StructType):
        return served == own
    united = unite_deep(served, own)
    return isinstance(united, StructType) and united.identity == served.identity


class DefinitionsMachine(RuleBasedStateMachine):
    """Clients that describe, publish and leave, against what each of them relies on."""

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    def begin(self) -> None:
        self.node = Node()
        self.own: dict[tuple[int, str], StructType] = {}
        """The definition that each client sent last, by client and type."""
        self.readers: set[tuple[int, str]] = set()
        """Of these, those that a client may only read."""
        self.stored: dict[str, list[StructType]] = {}
        """Definitions with which objects were published, by type."""

    @rule(client=st.sampled_from(CLIENTS), type_=definitions, may_define=st.booleans())
    def describe(self, client: int, type_: StructType, may_define: bool) -> None:
        before = self.served()
        published = (client, type_.name) in self.node.published
        conflict = self.node.register(
            type_, client, may_define=may_define, is_publishing=published and may_define
        )
        self.own[client, type_.name] = type_
        self.readers.discard((client, type_.name))
        if not may_define:
            self.readers.add((client, type_.name))
        if conflict or not may_define:
            for name in self.stored:
                after = self.node.definitions[name]
                # Only the order of the fields may differ.
                assert holds_all(after, before[name]), "what is refused takes nothing away"
                assert holds_all(before[name], after), "nor does it add anything"
        self.node.definitions.take_displaced()

    @rule(client=st.sampled_from(CLIENTS), name=st.sampled_from(NAMES), is_cached=st.booleans())
    def publish(self, client: int, name: str, is_cached: bool) -> None:
        """As the node does: the definition is brought again, and then the update is examined."""
        type_ = self.own.get((client, name))
        if type_ is None or (client, name) in self.readers:
            return
        if not self.node.definitions.is_blocked(client, name):
            self.node.register(type_, client, is_publishing=True)
        if self.node.definitions.rejection(client, name) is not None:
            self.node.published.discard((client, name))
            return
        self.node.published.add((client, name))
        assert holds_all(self.node.definitions[name], type_), "nothing of an update is lost"
        if is_cached:
            self.stored.setdefault(name, []).append(type_)
            self.node.with_objects.add(name)

    @precondition(lambda self: self.stored)
    @rule(name=st.sampled_from(NAMES))
    def clear(self, name: str) -> None:
        self.stored.pop(name, None)
        self.node.with_objects.discard(name)

    @rule(client=st.sampled_from(CLIENTS))
    def leave(self, client: int) -> None:
        list(self.node.definitions.forget(client))
        self.own = {key: type_ for key, type_ in self.own.items() if key[0] != client}
        self.readers = {key for key in self.readers if key[0] != client}
        self.node.published = {key for key in self.node.published if key[0] != client}

    @rule()
    def restart(self) -> None:
        served = {name: self.node.definitions[name] for name in self.stored}
        stored = self.stored
        self.begin()
        self.stored = stored
        for name, type_ in served.items():
            assert isinstance(type_, StructType)
            self.node.definitions.restore(type_)
            self.node.with_objects.add(name)

    def served(self) -> dict[str, NamedType]:
        return {name: self.node.definitions[name] for name in self.known()}

    def known(self) -> dict[str, Any]:
        return self.node.definitions._types

    @invariant()
    def all_objects_can_be_read(self) -> None:
        for name, types in self.stored.items():
            for type_ in types:
                assert holds_all(self.node.definitions[name], type_), f"objects of {name}"

    @invariant()
    def an_accepted_definition_is_served(self) -> None:
        for (client, name), type_ in self.own.items():
            held = self.node.definitions.held(client, name)
            assert held is not None
            assert held.type == type_
            if held.is_accepted and (client, name) not in self.readers:
                assert held.conflict is None
                assert holds_all(self.node.definitions[name], type_), (client, name)

    @invariant()
    def accepted_definitions_are_compatible(self) -> None:
        for known in self.known().values():
            accepted = [d for d in known.definitions.values() if d.is_accepted]
            for one, other in combinations(accepted, 2):
                assert obstacle(one.type, other.type) is None
                assert obstacle(other.type, one.type) is None

    @invariant()
    def the_users_of_a_definition_are_known(self) -> None:
        uses = {
            (client, part.name, part.identity)
            for (client, _), type_ in self.own.items()
            for part in (*dependencies(type_), type_)
            if isinstance(part, StructType)
        }
        listed = {
            (client, name, definition.type.identity)
            for name, known in self.known().items()
            for definition in known.definitions.values()
            for client in definition.clients
            if isinstance(definition.type, StructType)
        }
        assert listed == uses

    @invariant()
    def types_know_which_types_use_them(self) -> None:
        known = self.known()
        needs = {(name, part) for name, one in known.items() for part in one.needs}
        used = {(user, name) for name, one in known.items() for user in one.used_by}
        assert needs == used


TestDefinitions = pytest.mark.slow(DefinitionsMachine.TestCase)
DefinitionsMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=20)
