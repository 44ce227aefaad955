"""The space inside a program."""

from __future__ import annotations

import pytest

import skerry
from skerry.engine.local import LocalEvent, LocalSpace
from skerry.errors import LocalProtocolError
from skerry.objects.base import key_of
from skerry.schema.fingerprint import fingerprint

TYPES = skerry.define_types("""
struct Thing { 1: [key] uint32 id; 2: string name; 3: float64 size; }
struct Shout [cached=false] { 1: string text; }
struct Part [substruct_only] { 1: bool on; }
struct Only { 1: string value; }
""")
Thing, Shout, Part, Only = TYPES.Thing, TYPES.Shout, TYPES.Part, TYPES.Only


def space() -> LocalSpace:
    return LocalSpace(lambda: 1_000, name="here")


def test_subscriber_hears_create_update_and_remove_with_the_merged_object() -> None:
    local = space()
    events: list[LocalEvent] = []
    local.subscribe(Thing, events.append)
    local.publish(Thing(id=1, name="a", size=1.0))
    local.publish(Thing(id=1, size=2.0))
    local.remove(Thing(id=1))
    assert [event.operation for event in events] == ["create", "update", "remove"]
    assert events[1].object == Thing(id=1, name="a", size=2.0)
    assert events[1].update.payload == Thing(id=1, size=2.0).encode()
    assert events[2].object == Thing(id=1, name="a", size=2.0)
    assert [event.update.position for event in events] == [1, 2, 3]


def test_update_carries_what_every_carrier_needs() -> None:
    update = space().publish(Thing(id=7, name="a"))
    assert update.space == "here"
    assert update.subject == "/Thing/7"
    assert update.key == key_of(Thing(id=7))
    assert update.fingerprint == fingerprint(Thing.descriptor)
    assert update.time_ns == 1_000
    assert update.operation == 1


def test_selected_and_unset_field_is_cleared() -> None:
    local = space()
    local.publish(Thing(id=1, name="a", size=1.0))
    local.publish(Thing(id=1), only=["name"])
    assert next(iter(local.container(Thing).values())) == Thing(id=1, size=1.0)


def test_late_subscriber_first_hears_of_what_is_there() -> None:
    local = space()
    local.publish(Thing(id=2))
    local.publish(Thing(id=1))
    events: list[LocalEvent] = []
    local.subscribe(Thing, events.append)
    assert [(e.operation, e.object.id) for e in events] == [("create", 1), ("create", 2)]
    assert local.publish(Thing(id=3)).position == 3


def test_message_is_delivered_and_not_kept() -> None:
    local = space()
    heard: list[str] = []
    local.subscribe(Shout, lambda event: heard.append(event.object.text))
    local.publish(Shout(text="ahoy"))
    assert heard == ["ahoy"]
    assert len(local.container(Shout)) == 0
    with pytest.raises(LocalProtocolError, match="Shout is not cached"):
        local.remove(Shout())


def test_closed_subscription_hears_nothing_more() -> None:
    local = space()
    heard: list[LocalEvent] = []
    subscription = local.subscribe(Thing, heard.append)
    subscription.close()
    subscription.close()
    local.publish(Thing(id=1))
    assert heard == []


def test_container_is_live_and_tells_about_its_objects() -> None:
    local = space()
    things = local.container(Thing)
    local.publish(Thing(id=1, name="a"))
    key = key_of(Thing(id=1))
    assert things[key] == Thing(id=1, name="a")
    assert list(things) == [key]
    assert things.info(key).created_ns == 1_000
    local.remove(Thing(id=1))
    with pytest.raises(KeyError):
        things.info(key)


def test_type_without_key_has_one_object() -> None:
    local = space()
    local.publish(Only(value="a"))
    local.publish(Only(value="b"))
    assert [obj.value for obj in local.container(Only).values()] == ["b"]


def test_object_without_its_key_is_refused_and_changes_nothing() -> None:
    local = space()
    with pytest.raises(LocalProtocolError, match="without its key id"):
        local.publish(Thing(name="a"))
    assert len(local.container(Thing)) == 0
    assert local.publish(Thing(id=1)).position == 1


def test_substruct_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="only for use inside"):
        space().publish(Part(on=True))
