"""The store of a type: updates are merged, removals are reported."""

from __future__ import annotations

from skerry.client.core.type_store import ReceiveContext, TypeStore
from skerry.client.core.update_intake import UpdateIntake
from skerry.errors import DecodeError
from skerry.objects.base import key_of
from tests.unit.client.core.test_update_intake import delivered, sent, shape_of, vessels
from tests.unit.client.stage import Vessel


def test_updates_are_merged_field_by_field() -> None:
    events, store = delivered(
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


def test_update_of_all_set_fields_replaces_the_object() -> None:
    events, store = delivered(
        sent(Vessel(mmsi=1, lat=1.0)), sent(Vessel(mmsi=1, name="b", lat=2.0))
    )
    assert events[1].object is events[1].update
    assert store.objects[key_of(Vessel(mmsi=1))].payload == events[1].update.encode()


def test_object_of_a_cache_replay_is_the_whole_object() -> None:
    events, store = delivered(
        sent(Vessel(mmsi=1, name="a", lat=1.0)),
        sent(Vessel(mmsi=1, lat=1.0), from_cache=0),
    )
    assert events[1].object == Vessel(mmsi=1, lat=1.0)
    events, store = delivered(
        sent(Vessel(mmsi=1, lat=1.0)), sent(Vessel(mmsi=1, lat=1.0), from_cache=0)
    )
    assert len(events) == 1, "nothing new"
    assert len(store.objects) == 1


def test_payload_is_stored_in_canonical_form() -> None:
    header, _ = sent(Vessel(mmsi=1))
    events, store = delivered((header, b"\xa1\x01\x18\x01"), sent(Vessel(mmsi=1, lat=1.0)))
    assert list(store.objects) == [key_of(Vessel(mmsi=1))]
    assert events[1].operation == "update"


def test_remove_may_update_fields() -> None:
    events, store = delivered(
        sent(Vessel(mmsi=1, name="a")),
        sent(Vessel(mmsi=1, name="sunk"), remove=True),
        sent(Vessel(mmsi=1), remove=True),
    )
    assert [event.operation for event in events] == ["create", "remove"]
    assert events[1].object.name == "sunk"
    assert store.objects == {}


def test_object_without_its_key_is_rejected() -> None:
    intake = UpdateIntake()
    vessels(intake, print)
    assert intake.take([sent(Vessel(name="a"))], 0) == 0
    assert isinstance(intake.broken, DecodeError)
    assert "the key is not complete" in str(intake.broken)


def test_event_has_the_time_and_the_client_of_the_context() -> None:
    context = ReceiveContext()
    context.own_id, context.now_s = 3, 7.5
    key, event = TypeStore(shape_of(Vessel)).apply(*sent(Vessel(mmsi=1)), context)
    assert key == key_of(Vessel(mmsi=1))
    assert event.is_from_myself
    assert event.info.received == 7.5
