"""Undecodable objects and objects of unknown types are not delivered."""

from __future__ import annotations

from typing import Any

import pytest

import skerry
from skerry.client.core.events import Event
from skerry.client.core.states import ObjectSkipped, StateChanged, TypeConflict, Unreadable
from skerry.objects.descriptors import describe
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import OldWire, Wire
from tests.unit.client.stage import NODE, SECOND, Shout, Stage, Vessel, alone, greeted


def test_invalid_payload_ends_the_connection() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    core.subscribe(Vessel, print, SECOND)
    header = Header("Vessel")
    header.attributes = 2
    header.sender = 3
    core.connection.take_events()
    core.connection.receive(Wire().frame(header, b"\xa1\x01\x61x"), NODE, 2 * SECOND)
    (changed,) = core.connection.take_events()
    assert isinstance(changed, StateChanged)
    assert "sent an invalid Vessel" in changed.reason


def test_invalid_payload_decoded_in_a_callback_ends_the_connection() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    core.subscribe(Shout, lambda event: event.object, SECOND)
    header = Header("Shout")
    header.attributes = 2
    core.connection.receive(Wire().frame(header, b"\xa1\x01\x01"), NODE, 2 * SECOND)
    assert str(core.connection.state) == "disconnected"


@pytest.mark.parametrize("framing", [Wire, OldWire])
def test_object_above_the_limit_is_skipped_and_reported(framing: type[Wire]) -> None:
    core = alone(wire=framing, receive_bytes_max=70_000)
    greeted(core, wire=framing(), accepted=True, preload=False)
    received: list[Event[Any]] = []
    core.subscribe(Vessel, received.append, SECOND)
    core.connection.take_events()
    header = Header("Vessel")
    header.attributes = 6
    header.sender = 3
    objects = [Vessel(mmsi=1, name="a"), Vessel(mmsi=2, name="x" * 200_000), Vessel(mmsi=3)]
    data = b"".join(framing().frame(header, obj.encode()) for obj in objects)
    for start in range(0, len(data), 50_000):
        core.connection.receive(data[start : start + 50_000], NODE, 2 * SECOND)
    assert [event.object.mmsi for event in received] == [1, 3]
    (skipped,) = core.connection.take_events()
    assert isinstance(skipped, ObjectSkipped)
    assert (skipped.name, skipped.limit) == ("Vessel", 70_000)
    assert skipped.size > 200_000
    assert core.connection.statistics().skipped_count == 1
    assert str(core.connection.state) == "connected"


def test_object_of_an_undescribed_type_is_dropped() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    header = Header("Stranger")
    header.attributes = 2
    core.connection.receive(Wire().frame(header, b"\xa0"), NODE, 2 * SECOND)
    assert str(core.connection.state) == "connected"
    assert core.connection.statistics().unknown_count == 1


def test_objects_of_an_incompatible_definition_have_the_common_fields() -> None:
    stage = Stage()
    other = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; 2: uint32 name; }").Vessel
    writer = stage.space()
    stage.publish(writer, other(mmsi=1, name=1), other(mmsi=2), other(mmsi=3, name=3))
    reader = stage.space()
    reader.will_publish(Vessel)
    interest, _ = reader.hold(Vessel, stage.now_ns)
    stage.run()
    events = reader.connection.take_events()
    (conflict,) = [e for e in events if isinstance(e, TypeConflict)]
    assert "string to uint32" in conflict.difference
    assert interest.is_complete
    assert reader.connection.statistics().connected_count == 1
    assert interest.route is not None
    assert interest.route.store is not None
    objects = [Vessel.decode(entry.payload) for entry in interest.route.store.objects.values()]
    assert objects == [Vessel(mmsi=number) for number in (1, 2, 3)]


def test_undecodable_objects_are_dropped_and_reported_once() -> None:
    other = skerry.define_types("struct Shout [cached=false] { 1: uint32 text; }").Shout
    core = alone()
    greeted(core, accepted=True, preload=False)
    core.subscribe(Shout, lambda event: event.object, SECOND)
    description = describe(other.descriptor)
    reported = Header("StructDescriptorData")
    reported.attributes = int(description.attributes)
    core.connection.receive(Wire().frame(reported, description.encode()), NODE, 2 * SECOND)
    header = Header("Shout")
    header.attributes = 2
    for _ in range(2):
        core.connection.receive(Wire().frame(header, b"\xa1\x01\x01"), NODE, 2 * SECOND)
    (unreadable,) = [e for e in core.connection.take_events() if isinstance(e, Unreadable)]
    assert (unreadable.name, "expected text" in unreadable.detail) == ("Shout", True)
    assert str(core.connection.state) == "connected", "it would come back to the same for ever"
    assert core.connection.statistics().unknown_count == 2


def test_callback_that_closes_the_space_is_the_last_one() -> None:
    stage = Stage()
    core, writer = stage.space(), stage.space()
    received: list[str] = []

    def end(event: Event[Any]) -> None:
        received.append(event.object.text)
        core.close(stage.now_ns)

    core.subscribe(Shout, end, stage.now_ns)
    stage.run()
    writer.publish(Shout(text="1"), 1.0)
    writer.publish(Shout(text="2"), 1.0)
    stage.run()
    assert received == ["1"]


OLD = skerry.define_types(
    """
    enum Rig { 1: sloop }
    struct Boat { 1: [key] uint8 id; 2: Rig rig; 3: uint8 crew; }
    struct Call [cached=false] { 1: Rig rig; 2: uint8 crew; }
    """
)
NEW = skerry.define_types(
    """
    enum Rig { 1: sloop, 2: ketch }
    struct Boat { 1: [key] uint32 id; 2: Rig rig; 3: uint32 crew; }
    struct Call [cached=false] { 1: Rig rig; 2: uint32 crew; }
    """
)


def test_unreadable_values_are_dropped_from_objects_of_a_pattern() -> None:
    """The node does not know the definition of a program that subscribes by a pattern."""
    stage = Stage()
    new, reader = stage.space(), stage.space()
    for cls in (OLD.Boat, OLD.Call):
        reader.types.learn(cls)
    stage.publish(new, NEW.Boat(id=1, rig=NEW.Rig.ketch, crew=7), NEW.Boat(id=300))
    boats, calls = stage.hear(reader, "/Boat/*"), stage.hear(reader, "/Call")
    stage.publish(new, NEW.Boat(id=1, rig=NEW.Rig.sloop, crew=300), NEW.Boat(id=2))
    stage.publish(new, NEW.Call(rig=NEW.Rig.ketch, crew=7), NEW.Call(rig=NEW.Rig.sloop, crew=300))
    assert [event.object for event in boats] == [
        OLD.Boat(id=1, crew=7),
        OLD.Boat(id=1, rig=OLD.Rig.sloop),
        OLD.Boat(id=2),
    ]
    assert [event.object for event in calls] == [OLD.Call(crew=7), OLD.Call(rig=OLD.Rig.sloop)]
    assert reader.connection.statistics().unknown_count == 1
    assert reader.connection.statistics().connected_count == 1


def test_pattern_after_the_description_receives_readable_objects() -> None:
    stage = Stage()
    new, reader = stage.space(), stage.space()
    reader.types.learn(OLD.Boat)
    stage.publish(new, NEW.Boat(id=1, rig=NEW.Rig.ketch, crew=7))
    reader.request_types(["Boat"], stage.now_ns)
    stage.run()
    boats = stage.hear(reader, "/Boat/*")
    assert [event.object for event in boats] == [OLD.Boat(id=1, crew=7)]


def test_objects_that_the_node_makes_readable_are_not_examined_again() -> None:
    stage = Stage()
    new, reader = stage.space(), stage.space()
    stage.publish(new, NEW.Boat(id=1, rig=NEW.Rig.ketch, crew=7))
    stage.publish(reader, OLD.Boat(id=2))
    boats = stage.hear(reader, OLD.Boat)
    is_examined = [reader.intake.routes["Boat"].is_service]
    assert {event.object.id: event.object for event in boats}[1] == OLD.Boat(id=1, crew=7)
    stage.hear(reader, "/Boat/*")
    is_examined.append(reader.intake.routes["Boat"].is_service)
    assert is_examined == [False, True]
    stage.publish(new, NEW.Boat(id=1, crew=8))
    assert boats[-1].object == OLD.Boat(id=1, crew=8)


@pytest.mark.parametrize("old", [False, True])
def test_remove_is_not_a_message_if_only_others_cache_the_type(old: bool) -> None:
    text = "struct Note {} {{ 1: [key] uint32 id; 2: string text; }}"
    fleeting = skerry.define_types(text.format("[cached=false]")).Note
    cached = skerry.define_types(text.format("")).Note
    stage = Stage()
    reader, other = stage.space(old=old), stage.space()
    notes = stage.hear(reader, fleeting)
    for number in range(3):
        stage.publish(other, cached(id=number, text="a"))
        stage.remove(other, cached(id=number))
    assert [event.object for event in notes] == [fleeting(id=n, text="a") for n in range(3)]
