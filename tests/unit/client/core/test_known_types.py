"""The types of a space, and which class is used for them."""

from __future__ import annotations

from typing import Any

import pytest

import skerry
from skerry.client.core.known_types import KnownTypes
from skerry.errors import LocalProtocolError, SchemaMismatchError
from skerry.objects.descriptors import describe
from tests.unit.client.stage import Part, Vessel


def test_class_of_the_program_is_preferred() -> None:
    types = KnownTypes()
    types.learn_description(describe(Vessel.descriptor))
    assert types.class_named("Vessel").descriptor == Vessel.descriptor  # type: ignore[union-attr]

    class Mine(Vessel):  # type: ignore[misc]
        """Ours."""

    own = KnownTypes()
    own.learn(Mine)
    own.learn_description(describe(Vessel.descriptor))
    assert own.class_named("Vessel") is Mine
    assert own.classes() == {"Vessel": Mine}


def test_unknown_and_internal_types_are_not_listed() -> None:
    types = KnownTypes()
    assert types.classes() == {}
    assert types.class_named("Vessel") is None
    assert types.class_named("DotsClient") is not None
    assert types.main_shape("Vessel") is None
    assert types.main_shape("DotsMemberEvent") is None, "an enum has no objects of its own"


def test_conflicting_definition_of_the_node_is_kept() -> None:
    types = KnownTypes()
    types.learn(Vessel)
    other = skerry.define_types("struct Vessel { 1: [key] string mmsi; }").Vessel
    found, is_new = types.learn_description(describe(other.descriptor))
    assert (found, is_new) == (other.descriptor, False)
    assert types.by_name["Vessel"] == Vessel.descriptor
    assert types.has_conflict("Vessel")
    assert not types.has_conflict("Only")
    assert len(types.conflicts) == 1
    with pytest.raises(SchemaMismatchError):
        types.learn(other)


def test_invalid_class_is_rejected() -> None:
    types = KnownTypes()
    with pytest.raises(LocalProtocolError, match="not a class of a type"):
        types.learn(int)
    with pytest.raises(LocalProtocolError, match="not a class of a type"):
        types.learn(skerry.Struct)
    with pytest.raises(LocalProtocolError, match="can only be used inside"):
        types.send_plan(Part)


def test_received_types_and_send_plans_are_cached() -> None:
    types = KnownTypes()
    assert types.shape(Vessel) is types.shape(Vessel)
    assert types.send_plan(Vessel) is types.send_plan(Vessel)


# -- with a node


OLD = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: string name; }")
NEW = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: string name; 3: float64 length; }")
ODD = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: int32 name; }")


def test_a_type_of_the_node_follows_its_further_definition(live_node: Any) -> None:
    with (
        skerry.connect(live_node.place, types=OLD) as old,
        skerry.connect(live_node.place, types=NEW) as new,
        skerry.connect(live_node.place) as reader,
    ):
        old.publish(OLD.Boat(id=1, name="Mary"))
        old.flush()
        reader.request_types()
        boats, received = reader.container("Boat"), reader.subscribe("Boat")
        (boat,) = boats.values()
        assert not hasattr(boat, "length")
        new.publish(NEW.Boat(id=1, length=9.5))
        new.publish(NEW.Boat(id=2, length=3.5))
        new.flush()
        reader.flush()
        assert [(boat.id, boat.name, boat.length) for boat in boats.values()] == [
            (1, "Mary", 9.5),
            (2, None, 3.5),
        ]
        events = [received.get(10) for _ in range(3)]
        assert [event.object.length for event in events[1:]] == [9.5, 3.5]  # type: ignore[union-attr]
        assert [f.name for f in reader.request_types()["Boat"].descriptor.fields][-1] == "length"
        selected = reader.container("Boat", where="length > 5")
        assert [boat.id for boat in selected.values()] == [1]
        # What the reader publishes by the union is taken, too.
        cls = reader.request_types()["Boat"]
        reader.publish(cls(id=3, name="Anne", length=1.5))
        reader.flush()
        old.flush()
        assert old.container(OLD.Boat)[3] == OLD.Boat(id=3, name="Anne")


@pytest.mark.parametrize("is_first", [True, False])
def test_incompatible_definition_is_reported_by_flush(is_first: bool, live_node: Any) -> None:
    with (
        skerry.connect(live_node.place, name="maker", types=OLD) as maker,
        skerry.connect(live_node.place, name="odd", types=ODD) as odd,
    ):
        if is_first:
            boats = odd.container(ODD.Boat)
            odd.flush()
        maker.publish(OLD.Boat(id=1, name="Mary"))
        maker.flush()
        if not is_first:
            boats = odd.container(ODD.Boat)
        with pytest.raises(skerry.Refused, match=r"Boat.name: type changed"):
            odd.flush()
        odd.flush()
        assert list(boats.values()) == [ODD.Boat(id=1)]
        assert [conflict.known.name for conflict in odd.conflicts] == ["Boat"]


@pytest.mark.parametrize("query", ["", "?extensions=off"])
def test_conditions_on_fields_that_only_one_program_has(query: str, live_node: Any) -> None:
    with (
        skerry.connect(live_node.place, types=OLD) as old,
        skerry.connect(live_node.place + query, types=NEW) as new,
    ):
        old.publish(OLD.Boat(id=1, name="Mary"))
        old.publish(OLD.Boat(id=2, name="Anne"))
        old.flush()
        boats = new.container(NEW.Boat, where="length > 5 or name = 'Anne'")
        assert [boat.id for boat in boats.values()] == [2]
        new.publish(NEW.Boat(id=1, length=9.5))
        new.flush()
        assert sorted(boat.id for boat in boats.values()) == [1, 2]
        named = old.container(OLD.Boat, where="name like 'M%'", fields=["name"])
        assert list(named.values()) == [OLD.Boat(id=1, name="Mary")]
