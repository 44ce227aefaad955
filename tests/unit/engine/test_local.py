"""The space inside a program."""

from __future__ import annotations

import pytest

import skerry
from skerry.engine.dispatch.cache import Cache
from skerry.engine.local import LocalEvent, LocalSpace
from skerry.errors import LimitExceeded, LocalProtocolError, SchemaMismatchError
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


def test_what_a_callback_publishes_comes_after_what_it_was_called_with() -> None:
    local = space()
    heard: list[int] = []

    def answer(event: LocalEvent) -> None:
        if event.object.size is None:
            local.publish(Thing(id=1, size=2.0))

    local.subscribe(Thing, answer)
    local.subscribe(Thing, lambda event: heard.append(event.update.position))
    local.publish(Thing(id=1, name="a"))
    assert heard == [1, 2]


def test_callback_that_fails_robs_nobody_else() -> None:
    local = space()
    heard: list[str] = []

    def fail(event: LocalEvent) -> None:
        raise RuntimeError(event.operation)

    local.subscribe(Thing, fail)
    local.subscribe(Thing, lambda event: heard.append(event.operation))
    with pytest.raises(RuntimeError, match="create"):
        local.publish(Thing(id=1))
    local.subscribe(Thing, lambda _event: heard.append("again")).close()
    assert heard == ["create", "again"]


def test_all_failures_are_told_when_several_callbacks_fail() -> None:
    local = space()
    for name in ("first", "second"):

        def fail(event: LocalEvent, name: str = name) -> None:
            raise RuntimeError(name)

        local.subscribe(Thing, fail)
    with pytest.raises(ExceptionGroup) as caught:
        local.publish(Thing(id=1))
    assert [str(error) for error in caught.value.exceptions] == ["first", "second"]


def test_second_definition_of_a_type_is_refused() -> None:
    local = space()
    local.publish(Thing(id=1))
    other = skerry.define_types("struct Thing { 1: [key] string id; }").Thing
    with pytest.raises(SchemaMismatchError, match="two definitions of Thing"):
        local.publish(other(id="x"))
    with pytest.raises(SchemaMismatchError):
        local.container(other)


def test_replay_tells_when_and_from_whom_the_object_came() -> None:
    times = iter([10, 20, 30])
    local = LocalSpace(lambda: next(times))
    for number in (1, 2):
        local.publish(Thing(id=number))
    local.publish(Thing(id=1, name="a"))
    updates: list[skerry.Update] = []
    local.subscribe(Thing, lambda event: updates.append(event.update))
    assert [(u.position, u.time_ns, u.operation) for u in updates] == [(3, 30, 1), (2, 20, 1)]
    assert updates[0].present == int(Thing(id=1, name="a").attributes)


def test_remove_of_what_is_not_there_is_told_to_nobody() -> None:
    local = space()
    heard: list[LocalEvent] = []
    local.subscribe(Thing, heard.append)
    local.remove(Thing(id=1))
    assert heard == []
    assert local.publish(Thing(id=2)).position == 1


def test_full_cache_refuses_the_publisher_and_tells_nobody() -> None:
    local = LocalSpace(lambda: 0, cache=Cache(object_count_max=1))
    heard: list[LocalEvent] = []
    local.subscribe(Thing, heard.append)
    local.publish(Thing(id=1))
    with pytest.raises(LimitExceeded):
        local.publish(Thing(id=2))
    assert len(heard) == 1
