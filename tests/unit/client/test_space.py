"""The pure part of a client's space, against a pure node."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

import skerry
from skerry.client.events import Event
from skerry.client.space import SpaceConfig, SpaceCore
from skerry.client.states import (
    CallbackFailed,
    Refusal,
    SpaceState,
    StateChanged,
    TypeConflict,
    Unreadable,
)
from skerry.engine.node import NodeCore
from skerry.engine.persistence import Journal
from skerry.errors import (
    Disconnected,
    LimitExceeded,
    LocalProtocolError,
    Refused,
    SchemaMismatchError,
    WouldBlock,
)
from skerry.limits import SUBSCRIPTION_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import Connection
from skerry.protocol.access.header import Header
from skerry.protocol.access.outgoing import Outgoing
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.backoff import Backoff
from skerry.protocol.machine import CloseReason, Connect, Disconnect, StreamMachine
from tests.unit.client.stage import (
    NODE,
    SECOND,
    Only,
    Part,
    Shout,
    Stage,
    Vessel,
    operations,
)


def states(core: SpaceCore) -> list[str]:
    return [str(e.state) for e in core.take_events() if isinstance(e, StateChanged)]


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


def test_preloaded_objects_are_there_once_connected() -> None:
    stage = Stage()
    stage.publish(stage.space(), Vessel(mmsi=1))
    core = stage.space(preload=[Vessel], start=False)
    core.start(stage.now_ns)
    events: list[Event[Any]] = []
    core.subscribe(Vessel, events.append, stage.now_ns)
    stage.run()
    assert [(e.operation, e.is_from_cache, e.object.mmsi) for e in events] == [("create", True, 1)]
    interest, _ = core.hold(Vessel, stage.now_ns)
    assert interest.is_complete


def test_later_subscription_first_hears_of_what_is_here() -> None:
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


def test_remove_of_what_is_not_there_is_no_event() -> None:
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


def test_closed_subscription_leaves_the_node_and_its_objects_go() -> None:
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


def test_failing_callback_is_told_and_harms_nobody() -> None:
    stage = Stage()
    core = stage.space()

    def fail(_event: Event[Any]) -> None:
        raise ValueError("oops")

    core.subscribe(Shout, fail, stage.now_ns)
    events = stage.hear(core, Shout)
    stage.publish(core, Shout(text="a"))
    assert len(events) == 1
    assert core.state is SpaceState.CONNECTED
    (failed,) = [e for e in core.take_events() if isinstance(e, CallbackFailed)]
    assert str(failed.error) == "oops"


def test_rules_of_publishing_are_kept_here() -> None:
    core = Stage().space()
    with pytest.raises(LocalProtocolError, match="only for use inside"):
        core.publish(Part(on=True), 0.0)
    with pytest.raises(LocalProtocolError, match="only for use inside"):
        core.subscribe(Part, print, 0)
    with pytest.raises(LocalProtocolError, match="without its key mmsi"):
        core.publish(Vessel(name="a"), 0.0)
    with pytest.raises(LocalProtocolError, match="not cached"):
        core.remove(Shout(), 0.0)
    with pytest.raises(LocalProtocolError, match="wild card"):
        core.publish(Vessel(mmsi=1), 0.0, subject="/a/*")
    with pytest.raises(LocalProtocolError, match="no class of objects"):
        core.publish("text", 0.0)  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="expected bytes"):
        core.publish_bytes("/a", "text", 0.0)  # type: ignore[arg-type]


def test_two_definitions_in_one_program_are_not_mixed() -> None:
    core = Stage().space()
    core.publish(Vessel(mmsi=1), 0.0)
    other = skerry.define_types("struct Vessel { 1: [key] string mmsi; }").Vessel
    with pytest.raises(SchemaMismatchError):
        core.publish(other(mmsi="x"), 0.0)


def test_class_that_a_program_derived_is_what_its_callback_gets() -> None:
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


def test_there_is_a_limit_to_what_one_space_asks_for() -> None:
    core = Stage().space(start=False)
    for number in range(SUBSCRIPTION_COUNT_MAX):
        core.interests.of_group(f"/{number}")
    with pytest.raises(LimitExceeded, match="count of groups"):
        core.subscribe(Vessel, print, 0)


# -- types that come with the data


def test_type_that_this_program_never_saw_is_asked_for_by_name() -> None:
    stage = Stage()
    writer, reader = stage.space(), stage.space()
    events = stage.hear(reader, "Vessel")
    assert "Vessel" not in reader.types.classes()
    stage.publish(writer, Vessel(mmsi=1, name="a"))
    assert events[0].object.name == "a"
    assert reader.types.classes()["Vessel"].descriptor.name == "Vessel"
    with pytest.raises(LocalProtocolError, match="a condition needs a type"):
        reader.subscribe("Unknown", print, stage.now_ns, where="lat > 1")


def test_types_of_the_node_can_be_asked_for() -> None:
    stage = Stage()
    stage.publish(stage.space(), Vessel(mmsi=1), Only(text="x"))
    core = stage.space()
    request = core.request_types([], stage.now_ns)
    stage.run()
    assert request.is_done
    assert set(core.types.classes()) == {"Vessel", "Only"}
    narrow = stage.space()
    narrow.request_types(["Only"], stage.now_ns)
    stage.run()
    assert set(narrow.types.classes()) == {"Only"}


def test_another_definition_at_the_node_is_told() -> None:
    stage = Stage()
    other = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; 4: string flag; }").Vessel
    writer, reader = stage.space(), stage.space()
    stage.publish(writer, other(mmsi=1, flag="SE"))
    events = stage.hear(reader, "StructDescriptorData")
    reader.types.learn(Vessel)
    request = reader.request_types([], stage.now_ns)
    stage.run()
    assert request.is_done
    assert events
    (conflict,) = [e for e in reader.take_events() if isinstance(e, TypeConflict)]
    assert conflict.name == "Vessel"
    assert reader.state is SpaceState.CONNECTED


def test_objects_of_another_definition_are_left_out_and_told_of_once() -> None:
    stage = Stage()
    other = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; 2: uint32 name; }").Vessel
    writer = stage.space()
    stage.publish(writer, other(mmsi=1, name=1), other(mmsi=2), other(mmsi=3, name=3))
    reader = stage.space()
    reader.will_publish(Vessel)
    interest, _ = reader.hold(Vessel, stage.now_ns)
    stage.run()
    events = reader.take_events()
    (conflict,) = [e for e in events if isinstance(e, TypeConflict)]
    assert "uint32 name" in conflict.difference
    (unreadable,) = [e for e in events if isinstance(e, Unreadable)]
    assert (unreadable.name, "expected text" in unreadable.detail) == ("Vessel", True)
    assert interest.is_complete
    assert reader.statistics().connected_count == 1, "it would come back to the same for ever"
    assert reader.statistics().unknown_count == 2


# -- subjects


def test_bytes_under_a_subject_reach_who_asked_for_a_pattern() -> None:
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
    assert operations(by_pattern) == ["create"], "what is here is told at once, and only once"
    stage.publish(core, Vessel(mmsi=1, lat=2.0))
    assert operations(typed) == ["create", "update"]
    assert operations(by_pattern) == ["create", "update"]


def test_what_only_a_pattern_brought_goes_with_it() -> None:
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


def test_preloaded_pattern_is_filled_when_connected() -> None:
    stage = Stage()
    stage.publish(stage.space(), Vessel(mmsi=1), Vessel(mmsi=2))
    core = stage.space(preload=["/Vessel/1"])
    events: list[Event[Any]] = []
    core.subscribe("/Vessel/1", events.append, stage.now_ns)
    assert [event.object.mmsi for event in events] == [1]


def test_plain_host_has_no_subjects() -> None:
    stage = Stage(extensions=False)
    core = stage.space()
    with pytest.raises(LocalProtocolError, match="knows only types"):
        core.subscribe("/Vessel/*", print, stage.now_ns)
    with pytest.raises(LocalProtocolError, match="knows only types"):
        core.publish(Vessel(mmsi=1), 1.0, subject="/nav/1")
    with pytest.raises(LocalProtocolError, match="knows only types"):
        core.publish_bytes("/nav/1", b"", 1.0)
    with pytest.raises(LocalProtocolError, match="a condition needs a type"):
        core.subscribe("/Vessel/*", print, stage.now_ns, where="lat > 1")
    early = stage.space(preload=["/Vessel/*"])
    assert early.failure is not None
    assert "knows only types" in early.failure


# -- conditions


@pytest.mark.parametrize("extensions", [True, False])
def test_condition_tells_who_comes_into_view_and_who_leaves(extensions: bool) -> None:
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


# -- flush


def test_flush_tells_that_all_before_was_dealt_with() -> None:
    stage = Stage()
    core = stage.space()
    core.publish(Vessel(mmsi=1), 1.0)
    flush = core.flush(stage.now_ns)
    assert stage.cached(Vessel) == {}
    stage.run()
    assert flush.is_done
    assert flush.error is None
    assert len(stage.cached(Vessel)) == 1


def test_echoes_of_the_program_are_not_ours() -> None:
    stage = Stage()
    core = stage.space()
    flush = core.flush(stage.now_ns)
    core.take_transmits()
    echo = internal_class("DotsEcho")(request=False, identifier=flush.number, data="mine")
    peer = Connection(Wire())
    peer.send_message(echo, 1.0)
    core.receive(peer.take_output(), NODE, stage.now_ns)
    assert not flush.is_done


def test_refusal_is_told_and_fails_the_next_flush() -> None:
    stage = Stage()
    core = stage.space()
    peer = Connection(Wire())
    peer.send_message(internal_class("SkerryRefusal")(what="publish /Vessel", reason="no"), 1.0)
    core.receive(peer.take_output(), NODE, stage.now_ns)
    assert Refusal(what="publish /Vessel", reason="no") in core.take_events()
    flush = core.flush(stage.now_ns)
    stage.run()
    assert isinstance(flush.error, Refused)
    assert "publish /Vessel: no" in str(flush.error)
    again = core.flush(stage.now_ns)
    stage.run()
    assert again.error is None


# -- lost connections


def test_it_keeps_the_contract_of_machines() -> None:
    assert isinstance(Stage().space(), StreamMachine)


def test_lost_connection_comes_back_with_everything() -> None:
    stage = Stage()
    writer, reader = stage.space(), stage.space()
    events = stage.hear(reader, Vessel)
    for number in range(4):
        stage.publish(writer, Vessel(mmsi=number, name="a", lat=1.0))
    events.clear()
    reader.take_events()
    stage.cut(reader)
    assert reader.state is SpaceState.DISCONNECTED
    stage.remove(writer, Vessel(mmsi=0))
    stage.publish(writer, Vessel(mmsi=1, lat=2.0))
    stage.publish(writer, Vessel(mmsi=2), only=["name"])
    stage.publish(writer, Vessel(mmsi=9, name="new"))
    assert events == []
    stage.run(1)
    assert states(reader) == ["disconnected", "connected"]
    told = {event.object.mmsi: event for event in events}
    assert {mmsi: event.operation for mmsi, event in told.items()} == {
        0: "remove",
        1: "update",
        2: "update",
        9: "create",
    }
    assert len(events) == 4, "what did not change is not told"
    assert told[1].object == Vessel(mmsi=1, name="a", lat=2.0)
    assert told[2].object == Vessel(mmsi=2, lat=1.0)
    assert stage.current(reader, Vessel) == stage.cached(Vessel)


def test_patterns_and_conditions_come_back_too() -> None:
    stage = Stage()
    writer, reader = stage.space(), stage.space()
    by_pattern = stage.hear(reader, "/Vessel/*")
    by_condition = stage.hear(reader, Vessel, where="lat > 1")
    stage.publish(writer, Vessel(mmsi=1, lat=5.0), Vessel(mmsi=2, lat=5.0))
    stage.cut(reader)
    stage.remove(writer, Vessel(mmsi=1))
    stage.publish(writer, Vessel(mmsi=2, lat=0.0))
    by_pattern.clear()
    by_condition.clear()
    stage.run(1)
    assert {(e.operation, e.object.mmsi) for e in by_pattern} == {("remove", 1), ("update", 2)}
    assert {(e.operation, e.object.mmsi) for e in by_condition} == {("remove", 1), ("remove", 2)}


def test_restarted_node_that_forgot_everything_empties_the_container() -> None:
    stage = Stage()
    writer, reader = stage.space(), stage.space()
    events = stage.hear(reader, Vessel)
    stage.publish(writer, Vessel(mmsi=1))
    stage.kill()
    stage.run(3)
    assert len(stage.current(reader, Vessel)) == 1, "kept until we know better"
    stage.restart()
    stage.run(10)
    assert stage.current(reader, Vessel) == {}
    assert operations(events) == ["create", "remove"]


def test_publishes_made_meanwhile_are_kept_and_sent_in_order() -> None:
    stage = Stage()
    writer, reader = stage.space(), stage.space()
    stage.publish(writer, Vessel(mmsi=0))
    writer.flush(stage.now_ns)
    stage.run()
    stage.kill()
    for number in range(1, 20):
        writer.publish(Vessel(mmsi=number), 1.0)
        writer.publish(Shout(text=str(number)), 1.0)
    flush = writer.flush(stage.now_ns)
    stage.run(1)
    stage.restart()
    events = stage.hear(reader, Shout)
    stage.run(10)
    assert len(stage.cached(Vessel)) == 19
    numbers = [int(event.object.text) for event in events]
    assert numbers == sorted(numbers)
    assert flush.is_done


def test_flush_does_not_vouch_for_what_was_under_way() -> None:
    stage = Stage()
    core = stage.space()
    stage.publish(core, Vessel(mmsi=1))
    stage.cut(core)
    assert [e.unconfirmed_count for e in core.take_events() if isinstance(e, StateChanged)][-1] == 1
    with pytest.raises(Disconnected, match="1 publish was under way"):
        core.flush(stage.now_ns)
    flush = core.flush(stage.now_ns)
    stage.run(1)
    assert flush.is_done
    assert flush.error is None


def test_flush_that_waits_fails_when_something_it_covers_is_in_doubt() -> None:
    stage = Stage()
    core = stage.space()
    core.publish(Vessel(mmsi=1), 1.0)
    flush = core.flush(stage.now_ns)
    core.take_transmits()
    stage.cut(core)
    assert flush.is_done
    assert isinstance(flush.error, Disconnected)
    redone = core.flush(stage.now_ns)
    stage.run(1)
    assert redone.is_done
    assert redone.error is None


def test_send_buffer_has_a_bound_also_while_disconnected() -> None:
    stage = Stage()
    core = stage.space(send_bytes_max=2000)
    stage.kill()
    with pytest.raises(WouldBlock, match="the limit is 2000") as caught:
        for number in range(1000):
            core.publish(Vessel(mmsi=number, name="x" * 20), 1.0)
    assert caught.value.hint is not None
    kept = core.statistics().published_count
    assert 10 < kept < 60
    stage.restart()
    stage.run(10)
    assert len(stage.cached(Vessel)) == kept
    stage.publish(core, Vessel(mmsi=5000))
    assert len(stage.cached(Vessel)) == kept + 1


def test_paused_stream_fills_the_buffer() -> None:
    stage = Stage()
    core = stage.space(send_bytes_max=500)
    core.pause()
    with pytest.raises(WouldBlock):
        for number in range(100):
            core.publish(Vessel(mmsi=number), 1.0)
            stage.run()
    assert stage.cached(Vessel) == {}
    core.resume()
    stage.run()
    assert stage.cached(Vessel)
    assert core.waiting_bytes == 0


def test_one_frame_passes_however_small_the_bound() -> None:
    stage = Stage()
    core = stage.space(send_bytes_max=1)
    stage.publish(core, Vessel(mmsi=1, name="x" * 1000))
    assert len(stage.cached(Vessel)) == 1


def test_attempts_come_further_and_further_apart() -> None:
    stage = Stage()
    backoff = Backoff(first_ns=SECOND, delay_ns_max=8 * SECOND, spread_percent=0)
    core = stage.space(reconnect=backoff)
    stage.kill()
    start_ns = stage.now_ns
    times: list[float] = []
    for _ in range(5):
        due_ns = core.deadline_ns()
        assert due_ns is not None
        times.append((due_ns - start_ns) / SECOND)
        stage.run((due_ns - stage.now_ns) / SECOND)
    assert times == [1, 3, 7, 15, 23]


def test_first_connection_fails_at_once_unless_patient() -> None:
    stage = Stage()
    stage.is_up = False
    hasty, patient = stage.space(), stage.space(is_patient=True)
    assert hasty.state is SpaceState.CLOSED
    assert hasty.failure == "nobody listens there"
    assert patient.state is SpaceState.CONNECTING
    stage.is_up = True
    stage.run(1)
    assert str(patient.state) == "connected"


def greeted(core: SpaceCore, **answer: Any) -> None:
    """A host answers the first words of a space."""
    peer = Connection(Wire())
    hello = {"authChallenge": 0, **answer.pop("hello", {})}
    peer.send_message(internal_class("DotsMsgHello")(serverName="h", **hello), 1.0)
    peer.send_message(internal_class("DotsMsgConnectResponse")(clientId=7, **answer), 1.0)
    core.receive(peer.take_output(), NODE, SECOND)


def alone(**config: Any) -> SpaceCore:
    """A space with a stream, and nobody behind it."""
    core = SpaceCore(node=NODE, wire=lambda _: Wire(), rng=Random(1), config=SpaceConfig(**config))
    core.start(SECOND)
    core.advance(SECOND)
    assert core.take_transmits() == [Connect(destination=NODE)]
    core.stream_opened(NODE, SECOND)
    return core


def test_refused_by_authentication_is_the_end_also_when_coming_back() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    assert str(core.state) == "connected"
    core.stream_closed(NODE, CloseReason.LOST, 2 * SECOND)
    core.advance(10 * SECOND)
    core.take_transmits()
    core.stream_opened(NODE, 10 * SECOND)
    greeted(core, accepted=False)
    assert str(core.state) == "closed"
    assert core.failure == "the node does not let us in"
    assert core.deadline_ns() is None
    assert core.take_transmits()[-1] == Disconnect(destination=NODE)
    with pytest.raises(Disconnected, match="does not let us in"):
        core.publish(Vessel(mmsi=1), 1.0)


def test_missing_secret_is_the_end() -> None:
    core = alone()
    greeted(core, hello={"authenticationRequired": True, "authChallenge": 5}, accepted=True)
    assert core.failure == "the node asks for a secret, and none was given"
    assert core.is_refused


def test_words_of_the_node_reach_the_program() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    core.take_events()
    peer = Connection(Wire())
    peer.send_message(internal_class("DotsMsgError")(errorCode=1, errorText="too slow"), 1.0)
    core.receive(peer.take_output(), NODE, 2 * SECOND)
    (changed,) = core.take_events()
    assert isinstance(changed, StateChanged)
    assert str(changed) == "disconnected: too slow"
    assert Disconnect(destination=NODE) in core.take_transmits()


def test_silent_host_is_left_during_the_handshake() -> None:
    core = alone(is_patient=True)
    core.advance(12 * SECOND)
    assert core.take_transmits() == [Disconnect(destination=NODE)]
    core.advance(20 * SECOND)
    assert core.take_transmits() == [Connect(destination=NODE)]


def test_node_that_does_not_answer_a_flush_is_left() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    flush = core.flush(2 * SECOND)
    for time_s in (7, 11):
        core.advance(time_s * SECOND)
        assert str(core.state) == "connected"
    core.advance(12 * SECOND)
    assert str(core.state) == "disconnected"
    assert not flush.is_done, "nothing was in doubt, so it is asked again"


def test_node_that_waits_for_its_storage_is_not_left() -> None:
    stage = Stage()
    journal = Journal(rng=Random(1))
    stage.node = NodeCore(journal=journal)
    core = stage.space()
    kept = skerry.define_types("struct Kept [persistent] { 1: [key] uint32 id; }").Kept
    core.publish(kept(id=1), 1.0)
    flush = core.flush(stage.now_ns)
    stage.run(100)
    assert not flush.is_done
    assert core.statistics().connected_count == 1
    batch = journal.take_batch(stage.now_ns)
    assert batch is not None
    journal.written(batch.number)
    stage.run()
    assert (flush.is_done, flush.error) == (True, None)


def test_skerry_node_is_asked_for_a_sign_when_it_is_silent() -> None:
    stage = Stage()
    core = stage.space()
    stage.run(100)
    assert core.statistics().connected_count == 1
    # The stream is dead, and nobody says so.
    stage.streams.clear()
    core.take_events()
    stage.run(31)
    assert states(core) == ["disconnected", "connected"]


def test_plain_host_is_not_asked_for_signs() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    assert core.deadline_ns() is None


def test_bytes_that_are_no_object_end_the_connection() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    core.subscribe(Vessel, print, SECOND)
    header = Header("Vessel")
    header.attributes = 2
    header.sender = 3
    core.take_events()
    core.receive(Wire().frame(header, b"\xa1\x01\x61x"), NODE, 2 * SECOND)
    (changed,) = core.take_events()
    assert isinstance(changed, StateChanged)
    assert "sent what is no Vessel" in changed.reason


def test_lazy_message_that_is_none_ends_the_connection() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    core.subscribe(Shout, lambda event: event.object, SECOND)
    header = Header("Shout")
    header.attributes = 2
    core.receive(Wire().frame(header, b"\xa1\x01\x01"), NODE, 2 * SECOND)
    assert str(core.state) == "disconnected"


def test_object_of_a_type_nobody_described_is_left_out() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    header = Header("Stranger")
    header.attributes = 2
    core.receive(Wire().frame(header, b"\xa0"), NODE, 2 * SECOND)
    assert str(core.state) == "connected"
    assert core.statistics().unknown_count == 1


def test_goodbye_follows_what_was_published() -> None:
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


def test_callback_that_closes_the_space_is_the_last_one() -> None:
    stage = Stage()
    core, writer = stage.space(), stage.space()
    heard: list[str] = []

    def end(event: Event[Any]) -> None:
        heard.append(event.object.text)
        core.close(stage.now_ns)

    core.subscribe(Shout, end, stage.now_ns)
    stage.run()
    writer.publish(Shout(text="1"), 1.0)
    writer.publish(Shout(text="2"), 1.0)
    stage.run()
    assert heard == ["1"]


def test_old_framing_looks_as_old_programs_expect() -> None:
    core = SpaceCore(node=NODE, wire=lambda _: OldWire(), rng=Random(1))
    core.publish(Vessel(mmsi=1), 12.5)
    outgoing, described = Outgoing(), list[Any]()
    core.buffer.move(outgoing, described.append)
    assert described == [Vessel.descriptor]
    ((header, payload),) = OldWire().feed(outgoing.take())
    assert (header.sent_time, int(header.sender)) == (12.5, 1)
    assert payload == Vessel(mmsi=1).encode()


# -- all of it together


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_all_see_the_same_in_the_end(seed: int) -> None:
    rng = Random(seed)
    stage = Stage(extensions=seed % 3 != 2)
    writers = [stage.space() for _ in range(2)]
    readers = [stage.space() for _ in range(2)]
    views: dict[int, dict[int, Any]] = {}
    for number, reader in enumerate(readers):
        kept = views[number] = {}
        reader.subscribe(Vessel, partial(follow, kept), stage.now_ns)
    some: dict[int, Any] = {}
    readers[0].subscribe(
        Vessel, partial(follow, some), stage.now_ns, where="lat > 50", fields=["lat"]
    )
    for _ in range(150):
        act(stage, rng, writers, readers)
    stage.is_up = True
    stage.run(30)
    cached = {vessel.mmsi: vessel for vessel in map(Vessel.decode, stage.cached(Vessel).values())}
    for reader in readers:
        assert stage.current(reader, Vessel) == stage.cached(Vessel)
    assert views[0] == views[1] == cached
    assert some == {
        mmsi: Vessel(mmsi=mmsi, lat=vessel.lat)
        for mmsi, vessel in cached.items()
        if vessel.lat is not None and vessel.lat > 50
    }


def follow(kept: dict[int, Any], event: Event[Any]) -> None:
    """Keep what the events tell, and see that they fit what was told before."""
    mmsi = event.object.mmsi
    assert (event.operation == "create") == (mmsi not in kept)
    if event.operation == "remove":
        del kept[mmsi]
    else:
        kept[mmsi] = event.object


def act(stage: Stage, rng: Random, writers: list[SpaceCore], readers: list[SpaceCore]) -> None:
    """Something happens."""
    writer, mmsi = rng.choice(writers), rng.randrange(8)
    chance = rng.random()
    if chance < 0.5:
        writer.publish(Vessel(mmsi=mmsi, lat=rng.uniform(0, 100)), 1.0)
    elif chance < 0.6:
        writer.publish(Vessel(mmsi=mmsi, name=rng.choice("abc")), 1.0, only=["name", "lat"])
    elif chance < 0.75:
        writer.remove(Vessel(mmsi=mmsi), 1.0)
    elif chance < 0.85:
        core = rng.choice(writers + readers)
        if core in stage.streams.values():
            stage.cut(core)
    elif chance < 0.88 and stage.is_up:
        stage.kill()
    elif chance < 0.95 and not stage.is_up:
        stage.restart()
    else:
        stage.run(rng.choice([0, 0.05, 1]))
