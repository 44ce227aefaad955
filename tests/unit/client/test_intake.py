"""The loop that every update goes through."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.client.events import Event, Shape
from skerry.client.intake import Intake, Route, Store, Target
from skerry.errors import DecodeError
from skerry.objects.base import codec_of, key_of
from skerry.protocol.access.header import Header
from tests.unit.client.stage import Shout, Stage, Vessel, operations


def shape_of(cls: Any) -> Shape:
    return Shape(cls, codec_of(cls).plan, cls.descriptor.flags.cached)


def sent(obj: Any, *, remove: bool = False, **facts: Any) -> tuple[Header, bytes]:
    header = Header(obj.descriptor.name)
    header.attributes = int(obj.attributes)
    header.sender = 3
    header.sent_time = 1.0
    header.remove_obj = int(remove)
    for name, value in facts.items():
        setattr(header, name, value)
    return header, obj.encode()


def vessels(intake: Intake, callback: Any) -> Store:
    route = Route(shape_of(Vessel), False)
    route.is_joined = True
    route.targets = [Target(callback, None)]
    intake.routes["Vessel"] = route
    assert route.store is not None
    return route.store


def told(*transmissions: tuple[Header, bytes]) -> tuple[list[Event[Any]], Store]:
    intake = Intake()
    events: list[Event[Any]] = []
    store = vessels(intake, events.append)
    assert intake.take(list(transmissions), 0) == len(transmissions)
    return events, store


def test_updates_are_merged_field_by_field() -> None:
    events, store = told(
        sent(Vessel(mmsi=1, name="a", lat=1.0)),
        sent(Vessel(mmsi=1, lat=2.0)),
        sent(Vessel(mmsi=1), attributes=6),
    )
    assert [event.object for event in events] == [
        Vessel(mmsi=1, name="a", lat=1.0),
        Vessel(mmsi=1, name="a", lat=2.0),
        Vessel(mmsi=1, lat=2.0),
    ]
    (entry,) = store.objects.values()
    assert int(entry.present) == int(Vessel(mmsi=1, lat=2.0).attributes)


def test_update_of_all_there_is_replaces_the_object() -> None:
    events, store = told(sent(Vessel(mmsi=1, lat=1.0)), sent(Vessel(mmsi=1, name="b", lat=2.0)))
    assert events[1].object is events[1].update
    assert store.objects[key_of(Vessel(mmsi=1))].payload == events[1].update.encode()


def test_what_the_node_tells_from_its_cache_is_the_whole_object() -> None:
    events, store = told(
        sent(Vessel(mmsi=1, name="a", lat=1.0)),
        sent(Vessel(mmsi=1, lat=1.0), from_cache=0),
    )
    assert events[1].object == Vessel(mmsi=1, lat=1.0)
    events, store = told(sent(Vessel(mmsi=1, lat=1.0)), sent(Vessel(mmsi=1, lat=1.0), from_cache=0))
    assert len(events) == 1, "nothing new"
    assert len(store.objects) == 1


def test_other_forms_of_numbers_are_made_the_usual_ones() -> None:
    header, _ = sent(Vessel(mmsi=1))
    events, store = told((header, b"\xa1\x01\x18\x01"), sent(Vessel(mmsi=1, lat=1.0)))
    assert list(store.objects) == [key_of(Vessel(mmsi=1))]
    assert events[1].operation == "update"


def test_remove_may_bring_last_words() -> None:
    events, store = told(
        sent(Vessel(mmsi=1, name="a")),
        sent(Vessel(mmsi=1, name="sunk"), remove=True),
        sent(Vessel(mmsi=1), remove=True),
    )
    assert [event.operation for event in events] == ["create", "remove"]
    assert events[1].object.name == "sunk"
    assert store.objects == {}


def test_object_without_its_key_is_none() -> None:
    intake = Intake()
    vessels(intake, print)
    assert intake.take([sent(Vessel(name="a"))], 0) == 0
    assert isinstance(intake.broken, DecodeError)
    assert "the key is not complete" in str(intake.broken)


def test_it_stops_at_what_is_not_an_ordinary_object() -> None:
    intake = Intake()
    vessels(intake, lambda event: event)
    stranger = sent(Shout(text="x"))
    assert intake.take([sent(Vessel(mmsi=1)), stranger, sent(Vessel(mmsi=2))], 0) == 1
    assert intake.take([sent(Vessel(mmsi=1), attributes=-1)], 0) == 0
    intake.routes["Vessel"].is_service = True
    assert intake.take([sent(Vessel(mmsi=1))], 0) == 0
    intake.is_stopped = True
    assert intake.take([sent(Vessel(mmsi=1))], 0) == 0


def test_condition_has_its_own_route_by_number() -> None:
    intake = Intake()
    events: list[Event[Any]] = []
    vessels(intake, print)
    route = intake.conditions[7] = Route(shape_of(Vessel), False)
    route.is_joined = route.is_condition = True
    route.targets = [Target(events.append, None)]
    assert intake.take([sent(Vessel(mmsi=1), subscription_id=7)], 0) == 1
    assert len(events) == 1
    assert intake.take([sent(Vessel(mmsi=1), subscription_id=8)], 0) == 0


def test_closed_target_is_not_called_any_more() -> None:
    intake = Intake()
    events: list[Event[Any]] = []
    vessels(intake, events.append)
    intake.routes["Vessel"].targets[0].is_open = False
    intake.take([sent(Vessel(mmsi=1))], 0)
    assert events == []


@pytest.mark.parametrize("is_selected", [True, False])
def test_what_nobody_joined_is_kept_only_if_a_pattern_selects_it(is_selected: bool) -> None:
    intake = Intake()
    events: list[Event[Any]] = []
    store = vessels(intake, print)
    route = intake.routes["Vessel"]
    route.is_joined, route.targets = False, []
    intake.patterns.add("/Vessel/1" if is_selected else "/Vessel/2", Target(events.append, None))
    intake.pattern_count = 1
    route.has_patterns = True
    intake.take([sent(Vessel(mmsi=1))], 0)
    assert (len(events), len(store.objects)) == (int(is_selected), int(is_selected))


def test_an_object_with_another_subject_comes_and_goes_for_who_asked_by_pattern() -> None:
    stage = Stage()
    writer, core = stage.space(), stage.space()
    whole = stage.hear(core, Vessel)
    fleet, yard, both = (stage.hear(core, what) for what in ("/fleet/*", "/yard/*", "/*/1"))
    stage.publish(writer, Vessel(mmsi=1, name="a", lat=1.0), subject="/fleet/1")
    stage.publish(writer, Vessel(mmsi=1, lat=2.0), subject="/yard/1")
    assert operations(whole) == operations(both) == ["create", "update"]
    assert operations(fleet) == ["create", "remove"]
    gone, come = fleet[-1], yard[-1]
    assert (gone.subject, gone.update) == ("/fleet/1", Vessel(mmsi=1))
    assert gone.object == Vessel(mmsi=1, name="a", lat=1.0), "as it was"
    assert gone.info.last_operation == "remove"
    assert operations(yard) == ["create"]
    assert come.subject == "/yard/1"
    assert come.update == come.object == Vessel(mmsi=1, name="a", lat=2.0)


def test_an_object_may_get_its_default_subject_and_lose_it() -> None:
    stage = Stage()
    writer, core = stage.space(), stage.space()
    stage.hear(core, Vessel)
    own, fleet = stage.hear(core, "/Vessel/1"), stage.hear(core, "/fleet/*")
    for lat, subject in ((1.0, "/fleet/1"), (2.0, ""), (3.0, "/fleet/1")):
        stage.publish(writer, Vessel(mmsi=1, lat=lat), subject=subject)
    assert operations(own) == ["create", "remove"]
    assert operations(fleet) == ["create", "remove", "create"]
    assert [event.object.lat for event in own] == [2.0, 2.0]


def test_an_object_goes_from_where_it_is_known_whatever_its_removal_says() -> None:
    stage = Stage()
    core = stage.space()
    fleet, yard = stage.hear(core, "/fleet/*"), stage.hear(core, "/yard/*")
    core.types.learn(Vessel)
    route = core.interests.route_of("Vessel")
    assert route is not None
    for last in ({"remove_obj": 1, "subject": "/yard/1"}, {"subject": "/sea/1"}):
        for facts in ({"subject": "/fleet/1"}, last):
            core.intake.deliver(route, *sent(Vessel(mmsi=1, lat=1.0), **facts))
    assert operations(fleet) == ["create", "remove"] * 2
    assert [event.subject for event in fleet] == ["/fleet/1"] * 4
    assert yard == []
