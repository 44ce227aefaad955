"""Operations on many stored objects: replay to a new subscriber, mark as stale, drop."""

from __future__ import annotations

from typing import Any

from skerry.client.core.events import Event
from skerry.client.core.stores import Stores, is_protocol, may_select
from skerry.objects.internal import internal_class
from tests.unit.client.stage import Shout, Stage, Vessel, operations


def test_later_subscription_first_receives_stored_objects() -> None:
    stage = Stage()
    core = stage.space(preload=[Vessel])
    stage.publish(core, Vessel(mmsi=1), Vessel(mmsi=2))
    events: list[Event[Any]] = []
    core.subscribe(Vessel, events.append, stage.now_ns)
    assert [(e.operation, int(e.header.from_cache)) for e in events] == [
        ("create", 1),
        ("create", 0),
    ]
    stage.run()
    assert len(events) == 2, "the node is not asked again"


def test_closed_subscription_leaves_the_group_and_drops_its_objects() -> None:
    stage = Stage()
    core = stage.space()
    events: list[Event[Any]] = []
    interest, target = core.subscribe(Vessel, events.append, stage.now_ns)
    stage.publish(core, Vessel(mmsi=1))
    core.unsubscribe(interest, target, stage.now_ns, on_slow="disconnect")
    stage.publish(core, Vessel(mmsi=2))
    assert len(events) == 1
    assert stage.current(core, Vessel) == {}
    again = stage.hear(core, Vessel)
    assert sorted(event.object.mmsi for event in again) == [1, 2]


def test_objects_of_a_pattern_are_dropped_with_it() -> None:
    stage = Stage()
    core = stage.space()
    events: list[Event[Any]] = []
    place = core.subscribe("/Vessel/*", events.append, stage.now_ns)
    stage.publish(core, Vessel(mmsi=1))
    assert len(stage.current(core, Vessel)) == 1
    core.unsubscribe(*place, stage.now_ns, on_slow="disconnect")
    stage.publish(core, Vessel(mmsi=2))
    assert stage.current(core, Vessel) == {}
    assert len(events) == 1


def test_stale_objects_are_dropped_unless_replayed() -> None:
    stage = Stage()
    writer, core = stage.space(), stage.space()
    events = stage.hear(core, Vessel)
    fleet = stage.hear(core, "/fleet/*")
    stage.publish(writer, Vessel(mmsi=1))
    stage.publish(writer, Vessel(mmsi=2), Vessel(mmsi=3), subject="/fleet/1")
    routes, stores = [core.intake.routes["Vessel"]], Stores(core.intake)
    stores.drop_stale(routes, None, 1.0)
    assert operations(events) == ["create"] * 3
    stores.mark_stale(routes, "/fleet/*")
    stage.hear(core, "/fleet/*")
    assert len(stage.current(core, Vessel)) == 3
    stores.drop_stale(routes, "/yard/*", 1.0)
    assert len(stage.current(core, Vessel)) == 3, "that is not in doubt"
    stores.drop_stale(routes, "/fleet/*", 1.0)
    assert operations(fleet) == ["create", "create", "remove", "remove"]
    assert [event.subject for event in fleet[2:]] == ["/fleet/1"] * 2
    assert list(stage.current(core, Vessel).values()) == [Vessel(mmsi=1).encode()]


def test_messages_of_the_protocol_are_not_selected() -> None:
    core = Stage().space()
    for cls, is_one in ((Vessel, False), (Shout, False), (internal_class("DotsEcho"), True)):
        shape: Any = core.types.shape(cls)
        assert is_protocol(shape) is is_one
        assert may_select("/...", shape) is not is_one
    assert not may_select("/fleet/*", core.types.shape(Vessel))
