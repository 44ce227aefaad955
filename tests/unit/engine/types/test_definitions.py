"""Definitions of types: which are in use, by which clients, and the union that is served."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from skerry.engine.types.definitions import DEFINITION_COUNT_MAX, Definitions
from skerry.errors import LimitExceeded, SchemaMismatchError
from skerry.schema.check import define
from skerry.schema.model import NamedType, StructType


def types(text: str) -> dict[str, NamedType]:
    return {type_.name: type_ for type_ in define(text).types}


def boat(fields: str) -> NamedType:
    return types(f"struct Boat {{ 1: [key] uint32 id; {fields} }}")["Boat"]


OLD = boat("2: string name;")
GROWN = boat("2: string name; 3: float64 length;")
BROKEN = boat("2: int32 name;")


class Node:
    """Simulates the node around the definitions."""

    def __init__(self, type_count_max: int = 10_000) -> None:
        self.with_objects: set[str] = set()
        self.published: set[tuple[int, str]] = set()
        self.needed: set[str] = set()
        self.misfit = ""
        self.outdated: list[str] = []
        self.removed: list[str] = []
        self.definitions = Definitions(
            has_objects=self.with_objects.__contains__,
            misfit=lambda _name, _union: self.misfit,
            has_published=lambda client, name: (client, name) in self.published,
            is_needed=self.needed.__contains__,
            outdated=self.outdated.append,
            removed=self.removed.append,
            type_count_max=len(self.internal()) + type_count_max,
        )

    @staticmethod
    def internal() -> list[str]:
        return list(
            Definitions(
                has_objects=lambda _: False,
                misfit=lambda _name, _union: "",
                has_published=lambda _client, _name: False,
                is_needed=lambda _: False,
                outdated=lambda _: None,
                removed=lambda _: None,
            )
        )

    def register(
        self,
        type_: NamedType,
        client: int,
        *,
        may_define: bool = True,
        owned: Collection[str] | None = None,
        is_publishing: bool = False,
        address: str = "",
    ) -> str:
        """Register a definition. Returns why it is refused, or an empty text."""
        if is_publishing:
            self.published.add((client, type_.name))
        self.definitions.register(
            type_,
            client=client,
            client_name=f"c{client}",
            may_publish=lambda name: may_define and (owned is None or name in owned),
            is_publishing=is_publishing,
            address=address,
            address_count_max=3,
        )
        conflict = self.definitions.conflict(client, type_.name)
        return "" if conflict is None else str(conflict)


def test_the_union_of_compatible_definitions_is_served() -> None:
    node = Node()
    assert node.register(OLD, 2) == node.register(GROWN, 3) == ""
    assert node.definitions["Boat"] == GROWN
    assert [list(d.clients) for d in node.definitions.definitions("Boat")] == [[2], [3]]
    list(node.definitions.forget(3))
    assert node.definitions["Boat"] == OLD, "no object needs the other one"


def test_one_client_may_use_two_definitions_of_a_struct_inside() -> None:
    node = Node()
    place = "struct Place {{ {} }} struct {} {{ 1: [key] uint32 id; 2: Place place; }}"
    boat_type = types(place.format("1: float64 lat;", "Boat"))["Boat"]
    port_type = types(place.format("1: float64 lat; 2: float64 lon;", "Port"))["Port"]
    assert node.register(boat_type, 2) == node.register(port_type, 2) == ""
    # As it is before each publish of a type that is not decided yet, and when rights change.
    assert node.register(boat_type, 2) == ""
    assert len(node.definitions.definitions("Place")) == 2
    assert node.definitions["Port"] == port_type, "Place of Port stays"
    assert list(node.definitions.forget(2)).count("Place") == 2
    assert not any(d.clients for d in node.definitions.definitions("Place"))


def test_objects_keep_a_definition_that_no_client_has() -> None:
    node = Node()
    node.register(OLD, 2)
    node.register(GROWN, 3)
    node.with_objects.add("Boat")
    list(node.definitions.forget(3))
    assert node.definitions["Boat"] == GROWN
    list(node.definitions.forget(2))
    assert len(node.definitions.definitions("Boat")) == 1, "the other one covers it"
    assert "objects of Boat" in node.register(BROKEN, 4)
    node.with_objects.clear()
    assert node.register(BROKEN, 4) == ""
    assert node.definitions["Boat"] == BROKEN


def test_a_reader_does_not_change_the_served_definition() -> None:
    node = Node()
    node.register(GROWN, 2, may_define=False)
    assert node.definitions["Boat"] == GROWN
    assert not node.definitions.is_defined("Boat")
    node.register(BROKEN, 3)
    assert node.definitions["Boat"] == BROKEN
    node.register(OLD, 4, may_define=False)
    assert node.definitions["Boat"] == BROKEN
    assert node.definitions.conflict_count == 0


def served_boat(node: Node) -> StructType:
    found = node.definitions["Boat"]
    assert isinstance(found, StructType)
    return found


def test_a_client_that_may_not_publish_a_part_does_not_decide_its_flags() -> None:
    node = Node()
    text = "struct Boat [{}] {{ 1: [key] uint32 id; {} }} struct Car {{ 1: Boat boat; }}"
    node.register(types(text.format("persistent", "3: bool a;"))["Car"], 2, owned=["Car"])
    assert served_boat(node).flags.persistent
    node.register(types(text.format("cleanup", ""))["Boat"], 3)
    other = types(text.format("persistent", "4: bool b;"))
    for _ in range(2):
        flags = served_boat(node).flags
        assert (flags.persistent, flags.cleanup) == (False, True)
        node.register(other["Car"], 4, owned=["Car"])
    assert [item.name for item in served_boat(node).fields] == ["id", "a", "b"]
    node.register(other["Boat"], 5)
    assert served_boat(node).flags.persistent


def test_a_part_with_objects_is_changed_only_by_a_client_that_may_publish_it() -> None:
    node = Node()
    node.register(OLD, 2)
    node.with_objects.add("Boat")
    more = "struct Boat { 1: [key] uint32 id; 9: bool more; } struct Car { 1: Boat boat; }"
    refusal = node.register(types(more)["Car"], 3, owned=["Car"], is_publishing=True)
    assert "Boat.more" in refusal
    assert "may not publish Boat" in refusal
    assert node.definitions.is_blocked(3, "Car")
    assert node.definitions["Boat"] == OLD
    same = "struct Boat [cleanup] { 1: [key] uint32 id; } struct Car { 1: Boat boat; }"
    assert node.register(types(same)["Car"], 4, owned=["Car"]) == ""
    assert node.definitions["Boat"] == OLD
    assert node.register(types(more)["Car"], 5) == ""
    assert served_boat(node).has_field("more")


def test_the_definition_of_a_client_that_may_publish_a_part_prevails() -> None:
    node = Node()
    node.register(OLD, 2)
    other = types("struct Boat { 1: [key] string id; } struct Car { 1: Boat boat; }")["Car"]
    assert "Boat.id" in node.register(other, 3, owned=["Car"], is_publishing=True)
    assert node.definitions.is_blocked(3, "Car")
    assert node.definitions["Boat"] == OLD
    list(node.definitions.forget(2))
    assert not node.definitions.is_blocked(3, "Car")
    assert node.register(other, 3, owned=["Car"], is_publishing=True) == ""
    assert node.register(OLD, 4, is_publishing=True) == ""
    assert node.definitions["Boat"] == OLD
    displaced = node.definitions.take_displaced()
    assert [(number, found.type.name) for number, found in displaced] == [(3, "Boat"), (3, "Car")]


def test_of_incompatible_definitions_the_one_stays_by_which_a_client_publishes() -> None:
    node = Node()
    assert node.register(OLD, 2) == node.register(BROKEN, 3) == ""
    assert not node.definitions.is_blocked(3, "Boat")
    assert node.register(BROKEN, 3, is_publishing=True) == ""
    assert node.definitions["Boat"] == BROKEN
    assert [number for number, _ in node.definitions.take_displaced()] == [2]
    assert node.definitions.take_displaced() == []
    refusal = node.register(OLD, 2, is_publishing=True)
    for part in ("Boat.name", "int32 to string", "client 3 (c3)", "client 2 (c2)"):
        assert part in refusal
    assert node.definitions.is_blocked(2, "Boat")
    assert node.definitions.conflict_count == 1


def test_no_part_gives_way_to_a_definition_that_is_refused() -> None:
    text = (
        "struct Place {{ 1: {} lat; }}"
        " struct Car {{ 1: [key] uint32 id; 2: Place place; 3: {} a; }}"
    )
    node = Node()
    ours, theirs = types(text.format("float64", "bool")), types(text.format("string", "string"))
    node.register(ours["Place"], 2)
    node.register(
        types("struct Car { 1: [key] uint32 id; 3: bool a; }")["Car"], 3, is_publishing=True
    )
    assert "Car.a" in node.register(theirs["Car"], 4, is_publishing=True)
    assert node.definitions["Place"] == ours["Place"]
    assert node.definitions.take_displaced() == []


def test_a_definition_that_objects_do_not_fit_is_tried_again_without_them() -> None:
    node = Node()
    node.register(OLD, 2)
    node.with_objects.add("Boat")
    node.misfit = "values"
    assert "values" in node.register(GROWN, 3)
    assert node.definitions.is_blocked(3, "Boat")
    node.with_objects.clear()
    assert not node.definitions.is_blocked(3, "Boat")


def test_users_of_a_definition_are_named_up_to_three() -> None:
    node = Node()
    for client in range(2, 8):
        node.register(OLD, client)
    (definition,) = node.definitions.definitions("Boat")
    shown = node.definitions.users(definition)
    assert shown == "client 2 (c2), client 3 (c3), client 4 (c4), 3 other clients"


def test_a_part_that_changes_outdates_the_types_that_use_it() -> None:
    text = "struct Place {{ {} }} struct Car {{ 1: [key] uint32 id; 2: Place place; }}"
    node = Node()
    node.register(types(text.format("1: float64 lat;"))["Car"], 2)
    assert isinstance(node.definitions["Car"], StructType)
    node.outdated.clear()
    node.register(types(text.format("1: float64 lat; 2: float64 lon;"))["Place"], 3)
    assert node.outdated == ["Place", "Car"]
    car = node.definitions["Car"]
    assert isinstance(car, StructType)
    assert car.field("place").type == node.definitions["Place"]


def test_unused_types_make_room_for_others() -> None:
    node = Node(type_count_max=2)
    for number in range(2):
        node.register(types(f"struct T{number} {{ 1: bool a; }}")["T" + str(number)], number)
    with pytest.raises(LimitExceeded, match="count of types"):
        node.register(OLD, 5)
    node.with_objects.add("T0")
    list(node.definitions.forget(0))
    with pytest.raises(LimitExceeded, match="count of types"):
        node.register(OLD, 5)
    list(node.definitions.forget(1))
    assert node.register(OLD, 5) == ""
    assert node.removed == ["T1"]


def test_the_types_of_one_address_are_limited() -> None:
    node = Node()
    for number in range(3):
        node.register(types(f"struct T{number} {{ 1: bool a; }}")[f"T{number}"], 2, address="a")
    with pytest.raises(LimitExceeded, match="of one address"):
        node.register(OLD, 2, address="a")
    assert node.register(OLD, 3, address="b") == ""


def test_unused_types_of_an_address_make_room_for_its_others() -> None:
    """A program that reconnects with new types does not use up the quota of its address."""
    node = Node()
    for number in range(20):
        name = f"T{number}"
        node.register(types(f"struct {name} {{ 1: bool a; }}")[name], number, address="a")
        if number != 5:
            list(node.definitions.forget(number))
    assert node.register(OLD, 30, address="b") == ""
    assert len(node.removed) == 17
    assert "T5" in node.definitions


def test_unused_types_that_have_objects_do_not_keep_others_from_making_room() -> None:
    node = Node(type_count_max=120)
    for number in range(120):
        name = f"T{number}"
        address = "ab"[number >= 100]
        node.definitions.register(
            types(f"struct {name} {{ 1: bool a; }}")[name],
            client=number,
            client_name="",
            may_publish=lambda _: True,
            address=address,
        )
        if number < 100:
            node.with_objects.add(name)
        list(node.definitions.forget(number))
    for number in range(20):
        name = f"New{number}"
        assert node.register(types(f"struct {name} {{ 1: bool a; }}")[name], 200 + number) == ""
    assert node.removed == [f"T{number}" for number in range(100, 120)]


def test_enums_count_and_make_room_like_structs() -> None:
    node = Node()
    for number in range(8):
        text = f"enum E{number} {{ 1: a }} struct S{number} {{ 1: E{number} e; }}"
        node.register(types(text)[f"S{number}"], number, address="a")
        list(node.definitions.forget(number))
    assert len(node.definitions) - len(node.internal()) <= 3
    text = "enum A { 1: a } enum B { 1: a } enum C { 1: a } struct D { 1: A a; 2: B b; 3: C c; }"
    with pytest.raises(LimitExceeded, match="count of types of one address is 4"):
        node.register(types(text)["D"], 20, address="b")
    for name in "ABC":
        node.register(types(text)[name], 20, address="b")
    with pytest.raises(LimitExceeded, match="count of types of one address is 4"):
        node.register(types(text)["D"], 20, address="b")


def test_a_type_that_is_registered_again_does_not_make_room_for_its_user() -> None:
    node = Node()
    text = "struct Part { 1: bool a; } struct Whole { 1: Part part; }"
    node.register(types(text)["Part"], 1, address="a")
    for name in ("X", "Y"):
        node.register(types(f"struct {name} {{ 1: bool a; }}")[name], 1, address="a")
    list(node.definitions.forget(1))
    assert node.register(types(text)["Whole"], 2, address="a") == ""
    assert node.removed in (["X"], ["Y"])


def test_definitions_of_one_type_are_limited() -> None:
    node = Node()
    for number in range(DEFINITION_COUNT_MAX):
        node.register(boat(f"2: int32 n{number};"), number)
    with pytest.raises(LimitExceeded, match="count of definitions of Boat"):
        node.register(boat("2: int32 name; 3: bool a;"), 1000)


def test_the_name_of_an_internal_type_is_refused() -> None:
    node = Node()
    with pytest.raises(SchemaMismatchError, match="internal type"):
        node.register(types("struct DotsClient { 1: bool a; }")["DotsClient"], 2)
