"""The operations of a space, against a node without I/O."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import skerry
from skerry.client.core.events import Event
from skerry.client.core.node_connection import NodeConnection
from skerry.client.core.space import SpaceCore
from skerry.client.core.states import (
    CallbackFailed,
    SpaceState,
)
from skerry.client.core.subscriptions import SUBSCRIPTION_COUNT_MAX
from skerry.errors import (
    Disconnected,
    LimitExceeded,
    LocalProtocolError,
    SchemaMismatchError,
    WouldBlock,
)
from skerry.protocol.access.outgoing import Outgoing
from skerry.protocol.access.wire import OldWire
from tests.unit.client.stage import (
    NODE,
    Part,
    Shout,
    Stage,
    Vessel,
    operations,
    states,
)

# -- objects


@pytest.mark.parametrize("old", [False, True])
def test_containers_end_as_the_cache_of_the_node(old: bool) -> None:
    stage = Stage()
    writer, reader = stage.space(old=old), stage.space(old=old)
    reader.hold(Vessel, stage.now_ns)
    for number in range(5):
        stage.publish(writer, Vessel(mmsi=number, name="a", lat=1.0))
        stage.publish(writer, Vessel(mmsi=number, lat=2.0))
    stage.publish(writer, Vessel(mmsi=1), only=["name"])
    stage.remove(writer, Vessel(mmsi=3))
    assert stage.current(reader, Vessel) == stage.cached(Vessel)
    assert len(stage.cached(Vessel)) == 4


def test_preloaded_objects_are_stored_when_connected() -> None:
    stage = Stage()
    stage.publish(stage.space(), Vessel(mmsi=1))
    core = stage.space(preload=[Vessel], start=False)
    core.connection.start(stage.now_ns)
    events: list[Event[Any]] = []
    core.subscribe(Vessel, events.append, stage.now_ns)
    stage.run()
    assert [(e.operation, e.is_from_cache, e.object.mmsi) for e in events] == [("create", True, 1)]
    interest, _ = core.hold(Vessel, stage.now_ns)
    assert interest.is_complete


def test_container_changes_before_the_callback_and_a_removed_object_is_found_during_it() -> None:
    stage = Stage()
    core = stage.space()
    seen: list[tuple[str, int, float | None]] = []

    def look(event: Event[Any]) -> None:
        count = len(stage.current(core, Vessel))
        seen.append((event.operation, count, event.object.lat))

    core.subscribe(Vessel, look, stage.now_ns)
    stage.publish(core, Vessel(mmsi=1, lat=1.0), Vessel(mmsi=1, lat=2.0))
    stage.remove(core, Vessel(mmsi=1))
    assert seen == [("create", 1, 1.0), ("update", 1, 2.0), ("remove", 1, 2.0)]
    assert stage.current(core, Vessel) == {}


def test_remove_of_an_unknown_object_is_not_an_event() -> None:
    stage = Stage()
    core = stage.space()
    events = stage.hear(core, Vessel)
    stage.remove(core, Vessel(mmsi=9))
    assert events == []


def test_message_is_an_event_and_not_kept() -> None:
    stage = Stage()
    core = stage.space()
    events = stage.hear(core, Shout)
    stage.publish(core, Shout(text="a"), Shout(text="a"))
    assert operations(events) == ["create", "create"]
    assert all(event.is_from_myself for event in events)
    with pytest.raises(LocalProtocolError, match="no current objects"):
        core.hold(Shout, stage.now_ns)


def test_callback_may_subscribe_and_close_and_publish() -> None:
    stage = Stage()
    core = stage.space()
    later: list[Event[Any]] = []
    own: list[Any] = []

    def once(event: Event[Any]) -> None:
        interest, target = own
        core.unsubscribe(interest, target, stage.now_ns, on_slow="disconnect")
        core.subscribe(Shout, later.append, stage.now_ns)
        core.publish(Shout(text="again"), 1.0)

    own += core.subscribe(Shout, once, stage.now_ns)
    stage.publish(core, Shout(text="first"), Shout(text="second"))
    assert [event.object.text for event in later] == ["second", "again"]


def test_error_of_a_callback_is_reported_and_affects_no_other() -> None:
    stage = Stage()
    core = stage.space()

    def fail(_event: Event[Any]) -> None:
        raise ValueError("oops")

    core.subscribe(Shout, fail, stage.now_ns)
    events = stage.hear(core, Shout)
    stage.publish(core, Shout(text="a"))
    assert len(events) == 1
    assert core.connection.state is SpaceState.CONNECTED
    (failed,) = [e for e in core.connection.take_events() if isinstance(e, CallbackFailed)]
    assert str(failed.error) == "oops"


def test_invalid_publishes_are_rejected_locally() -> None:
    core = Stage().space()
    with pytest.raises(LocalProtocolError, match="can only be used inside"):
        core.publish(Part(on=True), 0.0)
    with pytest.raises(LocalProtocolError, match="can only be used inside"):
        core.subscribe(Part, print, 0)
    with pytest.raises(LocalProtocolError, match="without its key mmsi"):
        core.publish(Vessel(name="a"), 0.0)
    with pytest.raises(LocalProtocolError, match="not cached"):
        core.remove(Shout(), 0.0)
    with pytest.raises(LocalProtocolError, match="wild card"):
        core.publish(Vessel(mmsi=1), 0.0, subject="/a/*")
    with pytest.raises(LocalProtocolError, match="not a class of a type"):
        core.publish("text", 0.0)  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="expected bytes"):
        core.publish_bytes("/a", "text", 0.0)  # type: ignore[arg-type]


def test_two_definitions_in_one_program_are_not_mixed() -> None:
    core = Stage().space()
    core.publish(Vessel(mmsi=1), 0.0)
    other = skerry.define_types("struct Vessel { 1: [key] string mmsi; }").Vessel
    with pytest.raises(SchemaMismatchError):
        core.publish(other(mmsi="x"), 0.0)


def test_callback_receives_the_derived_class() -> None:
    class MyVessel(Vessel):  # type: ignore[misc]
        """With a method."""

        def shout(self) -> str:
            return f"{self.name}!"

    stage = Stage()
    core = stage.space()
    plain, derived = stage.hear(core, Vessel), stage.hear(core, MyVessel)
    stage.publish(core, Vessel(mmsi=1, name="Maren"))
    assert type(plain[0].object) is Vessel
    assert derived[0].object.shout() == "Maren!"


def test_subscriptions_are_limited() -> None:
    core = Stage().space(start=False)
    for number in range(SUBSCRIPTION_COUNT_MAX):
        core.subscriptions.of_group(f"/{number}")
    with pytest.raises(LimitExceeded, match="count of groups"):
        core.subscribe(Vessel, print, 0)


# -- subjects


def test_bytes_under_a_subject_reach_subscribers_of_a_pattern() -> None:
    stage = Stage()
    core = stage.space()
    events = stage.hear(core, "/prices/*")
    others = stage.hear(core, "/news/...")
    for size in (0, 3, 23, 24, 255, 256, 70000):
        core.publish_bytes("/prices/X", b"x" * size, 1.0)
    core.publish_bytes("/prices/a/b", b"deeper", 1.0)
    stage.run()
    assert [len(event.data) for event in events] == [0, 3, 23, 24, 255, 256, 70000]
    assert {event.subject for event in events} == {"/prices/X"}
    assert others == []


def test_objects_are_selected_by_their_default_and_by_their_own_subject() -> None:
    stage = Stage()
    core = stage.space()
    by_type, by_own = stage.hear(core, "/Vessel/*"), stage.hear(core, "/nav/...")
    stage.publish(core, Vessel(mmsi=1, name="a"))
    stage.publish(core, Vessel(mmsi=2, name="b"), subject="/nav/tracks/2")
    assert [event.subject for event in by_type] == ["/Vessel/1"]
    assert [event.subject for event in by_own] == ["/nav/tracks/2"]
    assert by_own[0].object == Vessel(mmsi=2, name="b")
    assert by_own[0].type_name == "Vessel"


def test_pattern_and_type_see_each_update_once() -> None:
    stage = Stage()
    core = stage.space()
    typed = stage.hear(core, Vessel)
    stage.publish(core, Vessel(mmsi=1, lat=1.0))
    by_pattern = stage.hear(core, "/Vessel/*")
    assert operations(by_pattern) == ["create"], "stored objects are delivered at once, but once"
    stage.publish(core, Vessel(mmsi=1, lat=2.0))
    assert operations(typed) == ["create", "update"]
    assert operations(by_pattern) == ["create", "update"]


def test_preloaded_pattern_is_filled_when_connected() -> None:
    stage = Stage()
    stage.publish(stage.space(), Vessel(mmsi=1), Vessel(mmsi=2))
    core = stage.space(preload=["/Vessel/1"])
    events: list[Event[Any]] = []
    core.subscribe("/Vessel/1", events.append, stage.now_ns)
    assert [event.object.mmsi for event in events] == [1]


# -- conditions


@pytest.mark.parametrize("extensions", [True, False])
def test_condition_reports_objects_that_begin_and_stop_to_match(extensions: bool) -> None:
    stage = Stage(extensions=extensions)
    writer, reader = stage.space(), stage.space()
    stage.publish(writer, Vessel(mmsi=1, name="a", lat=60.0), Vessel(mmsi=2, name="b", lat=10.0))
    events = stage.hear(reader, Vessel, where="lat > 50", fields=["lat"])
    assert [(e.operation, e.object) for e in events] == [("create", Vessel(mmsi=1, lat=60.0))]
    events.clear()
    stage.publish(writer, Vessel(mmsi=2, lat=55.0))
    stage.publish(writer, Vessel(mmsi=2, lat=56.0))
    stage.publish(writer, Vessel(mmsi=2, name="not asked for"))
    stage.publish(writer, Vessel(mmsi=2, lat=5.0))
    stage.remove(writer, Vessel(mmsi=1))
    assert [(e.operation, e.object.mmsi, e.object.lat) for e in events] == [
        ("create", 2, 55.0),
        ("update", 2, 56.0),
        ("remove", 2, 56.0),
        ("remove", 1, 60.0),
    ]


@pytest.mark.parametrize("extensions", [True, False])
def test_condition_on_messages(extensions: bool) -> None:
    stage = Stage(extensions=extensions)
    core = stage.space()
    events = stage.hear(core, Shout, where="text like 'a%'")
    stage.publish(core, Shout(text="abc"), Shout(text="xyz"))
    assert [event.object.text for event in events] == ["abc"]


@pytest.mark.parametrize("extensions", [True, False])
def test_conditions_and_the_whole_type_do_not_mix(extensions: bool) -> None:
    stage = Stage(extensions=extensions)
    core = stage.space()
    near = stage.hear(core, Vessel, where="lat < 1")
    whole = stage.hear(core, Vessel)
    far = stage.hear(core, Vessel, where="lat > 1")
    stage.publish(core, Vessel(mmsi=1, lat=0.0), Vessel(mmsi=2, lat=2.0))
    assert [e.object.mmsi for e in near] == [1]
    assert [e.object.mmsi for e in whole] == [1, 2]
    assert [e.object.mmsi for e in far] == [2]


# -- sending


def test_send_buffer_has_a_bound_also_while_disconnected() -> None:
    stage = Stage()
    core = stage.space(send_bytes_max=2000)
    stage.kill()
    with pytest.raises(WouldBlock, match="the limit is 2000") as caught:
        for number in range(1000):
            core.publish(Vessel(mmsi=number, name="x" * 20), 1.0)
    assert caught.value.hint is not None
    kept = core.connection.statistics().published_count
    assert 10 < kept < 60
    stage.restart()
    stage.run(10)
    assert len(stage.cached(Vessel)) == kept
    stage.publish(core, Vessel(mmsi=5000))
    assert len(stage.cached(Vessel)) == kept + 1


def test_single_frame_is_accepted_whatever_its_size() -> None:
    stage = Stage()
    core = stage.space(send_bytes_max=1)
    stage.publish(core, Vessel(mmsi=1, name="x" * 1000))
    assert len(stage.cached(Vessel)) == 1


def test_close_message_follows_published_objects() -> None:
    stage = Stage()
    core, watcher = stage.space(), stage.space()
    events = stage.hear(watcher, Shout)
    core.publish(Shout(text="last words"), 1.0)
    core.close(stage.now_ns)
    core.close(stage.now_ns)
    stage.run()
    assert [event.object.text for event in events] == ["last words"]
    assert states(core)[-1] == "closed"
    with pytest.raises(Disconnected, match="the space is closed"):
        core.subscribe(Shout, print, stage.now_ns)


def test_old_framing_looks_as_old_programs_expect() -> None:
    core = SpaceCore(NodeConnection(node=NODE, wire=lambda _: OldWire(), rng=Random(1)))
    core.publish(Vessel(mmsi=1), 12.5)
    outgoing, described = Outgoing(), list[Any]()
    core.buffer.move(outgoing, described.append)
    assert described == [Vessel.descriptor]
    ((header, payload),) = OldWire().feed(outgoing.take())
    assert (header.sent_time, int(header.sender)) == (12.5, 1)
    assert payload == Vessel(mmsi=1).encode()


def test_container_of_an_unknown_type_is_rejected_and_sends_nothing() -> None:
    stage = Stage()
    core = stage.space()
    for what in ("Nope", "/Vessel/*"):
        with pytest.raises(LocalProtocolError, match="a container needs a type") as caught:
            core.hold(what, stage.now_ns)
        assert what in str(caught.value)
        assert caught.value.hint is not None
    with pytest.raises(LocalProtocolError, match="not cached"):
        core.hold(Shout, stage.now_ns)
    assert core.connection.take_transmits() == []
    stage.cut(core)
    stage.run(60)
    assert core.connection.state is SpaceState.CONNECTED
    assert not {"Nope", "/Vessel/*", "Shout"} & set(core.subscriptions._groups)
