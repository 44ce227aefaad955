"""Which groups a space joins, and when it joins again."""

from __future__ import annotations

from typing import Any

from skerry.client.core.space import SpaceCore
from skerry.client.core.states import SpaceState
from skerry.client.core.subscriptions import JOIN_MARK
from skerry.objects.internal import internal_class
from skerry.protocol.access.wire import Wire
from tests.unit.client.stage import SECOND, Shout, Stage, Vessel, operations


def asked(core: SpaceCore) -> list[tuple[str, str, str | None]]:
    """The DotsMember messages a space sends next."""
    found = []
    for transmit in core.connection.take_transmits():
        for header, payload in Wire().feed(transmit.data):
            if header.type_name == "DotsMember":
                message = internal_class("DotsMember").decode(payload)
                slow = message.slow.label if message.slow else None
                found.append((message.groupName, message.event.label, slow))
    return found


def test_type_is_joined_once_and_left_with_the_last_subscriber() -> None:
    stage = Stage()
    core = stage.space()
    first = core.subscribe(Vessel, print, stage.now_ns)
    assert asked(core) == [("Vessel", "join", None)]
    second = core.subscribe(Vessel, print, stage.now_ns)
    core.unsubscribe(*first, stage.now_ns, on_slow="disconnect")
    assert asked(core) == []
    core.unsubscribe(*second, stage.now_ns, on_slow="disconnect")
    core.unsubscribe(*second, stage.now_ns, on_slow="disconnect")
    assert asked(core) == [("Vessel", "leave", None)]


def test_container_holds_the_type() -> None:
    stage = Stage()
    core = stage.space()
    subscription, _ = core.hold(Vessel, stage.now_ns)
    place = core.subscribe(Vessel, print, stage.now_ns)
    core.unsubscribe(*place, stage.now_ns, on_slow="disconnect")
    assert asked(core) == [("Vessel", "join", None)]
    core.release(subscription, stage.now_ns)
    assert asked(core) == [("Vessel", "leave", None)]


def test_conflation_is_requested_while_all_subscribers_allow_it() -> None:
    stage = Stage()
    core = stage.space()
    core.subscribe(Vessel, print, stage.now_ns, on_slow="conflate")
    assert asked(core) == [("Vessel", "join", "conflate")]
    core.subscribe(Vessel, print, stage.now_ns, on_slow="conflate")
    assert asked(core) == []
    core.subscribe(Vessel, print, stage.now_ns, on_slow="disconnect")
    assert asked(core) == [("Vessel", "join", None)], "a subscriber needs every state"


def test_strict_subscriber_beside_a_container_misses_nothing() -> None:
    stage = Stage()
    core = stage.space()
    core.subscribe(Vessel, print, stage.now_ns, on_slow="conflate")
    subscription, shape = core.hold(Vessel, stage.now_ns)
    assert asked(core) == [("Vessel", "join", "conflate")]
    core.subscribe_beside(subscription, print, shape, stage.now_ns, on_slow="disconnect")
    assert asked(core) == [("Vessel", "join", None)]


def test_replay_ends_are_matched_to_joins_in_order() -> None:
    stage = Stage()
    writer, core = stage.space(), stage.space()
    stage.publish(writer, Vessel(mmsi=1, lat=1.0))
    whole, _ = core.hold(Vessel, stage.now_ns)
    some, _ = core.hold(Vessel, stage.now_ns, where="lat > 5")
    assert (whole.is_complete, some.is_complete) == (False, False)
    stage.run()
    assert (whole.is_complete, some.is_complete) == (True, True)


def test_condition_moves_between_node_and_client() -> None:
    stage = Stage()
    writer, core = stage.space(), stage.space()
    events = stage.hear(core, Vessel, where="lat > 1")
    stage.publish(writer, Vessel(mmsi=1, lat=5.0))
    assert "Vessel" not in core.intake.routes, "the whole type is not asked for"
    stage.kill()
    stage.restart(extensions=False)
    stage.run(5)
    stage.publish(writer, Vessel(mmsi=2, lat=5.0), Vessel(mmsi=3, lat=0.0))
    assert [event.object.mmsi for event in events if event.operation == "create"] == [1, 2]
    stage.kill()
    stage.restart(extensions=True)
    stage.run(10)
    stage.publish(writer, Vessel(mmsi=4, lat=5.0))
    assert events[-1].object.mmsi == 4
    assert operations(events).count("create") == 3


def test_left_join_does_not_take_another_replay_end() -> None:
    stage = Stage()
    core = stage.space()
    subscription, _ = core.hold(Vessel, stage.now_ns)
    core.release(subscription, stage.now_ns)
    again, _ = core.hold(Vessel, stage.now_ns)
    answers = []
    for _ in range(2):
        core.subscriptions.replay_ended("Vessel", 1.0)
        answers.append(again.is_complete)
    # Asked again behind what was left, which is the answer that counts.
    core.subscriptions.leave_echoed(1.0)
    assert not again.is_complete
    core.subscriptions.replay_ended("Vessel", 1.0)
    assert [*answers, again.is_complete] == [False, False, True]


def test_replay_end_of_a_left_pattern_affects_no_other() -> None:
    stage = Stage()
    writer, core = stage.space(), stage.space()
    place = core.subscribe("/...", print, stage.now_ns)
    events = stage.hear(core, Vessel)
    stage.publish(writer, *[Vessel(mmsi=n, name="x" * 30_000) for n in range(9)])
    stage.cut(core)
    while core.intake.context.epoch < 2:
        stage.now_ns += SECOND
        core.connection.advance(stage.now_ns)
        stage._step()
    core.unsubscribe(*place, stage.now_ns, on_slow="disconnect")
    stage.run()
    assert operations(events) == ["create"] * 9, "they were there all the time"


def test_object_that_moves_during_a_leave_is_complete_for_another_pattern() -> None:
    stage = Stage()
    writer, core = stage.space(), stage.space()
    place = core.subscribe("/fleet/*", print, stage.now_ns)
    yard = stage.hear(core, "/yard/*")
    stage.publish(writer, Vessel(mmsi=1, name="a", lat=1.0), subject="/fleet/1")
    # The node receives the move before it receives the leave.
    core.unsubscribe(*place, stage.now_ns, on_slow="disconnect")
    stage.publish(writer, Vessel(mmsi=1, lat=2.0), subject="/yard/1")
    assert [event.object for event in yard] == [Vessel(mmsi=1, name="a", lat=2.0)]
    assert stage.current(core, Vessel) == stage.cached(Vessel)


def test_object_that_moves_away_during_a_leave_is_removed() -> None:
    stage = Stage()
    writer, core = stage.space(), stage.space()
    place = core.subscribe(Vessel, print, stage.now_ns)
    fleet = stage.hear(core, "/fleet/*")
    stage.publish(writer, *[Vessel(mmsi=n, lat=1.0) for n in (1, 2)], subject="/fleet/1")
    core.unsubscribe(*place, stage.now_ns, on_slow="disconnect")
    stage.publish(writer, Vessel(mmsi=1, lat=2.0), subject="/yard/1")
    assert operations(fleet) == ["create", "create", "remove"]
    assert len(stage.current(core, Vessel)) == 1


def test_left_group_is_forgotten_when_the_connection_is_lost() -> None:
    stage = Stage()
    writer, core = stage.space(), stage.space()
    places = [core.subscribe(what, print, stage.now_ns) for what in (Vessel, "/fleet/*")]
    stage.publish(writer, Vessel(mmsi=1), Vessel(mmsi=2), subject="/fleet/1")
    for place in places:
        core.unsubscribe(*place, stage.now_ns, on_slow="disconnect")
    assert len(stage.current(core, Vessel)) == 2, "the node may still tell of them"
    stage.cut(core)
    assert stage.current(core, Vessel) == {}
    assert core.intake.pattern_count == 0


def test_unexpected_replay_end_is_ignored() -> None:
    core: Any = Stage().space()
    core.subscriptions.replay_ended("Nobody", 1.0)


def test_patterns_select_what_programs_publish_and_no_messages_of_the_protocol() -> None:
    stage = Stage()
    core, other = stage.space(), stage.space()
    by_pattern: list[Any] = []
    by_name: list[Any] = []
    core.subscribe("/...", by_pattern.append, stage.now_ns)
    core.subscribe("StructDescriptorData", by_name.append, stage.now_ns)
    stage.run()
    core.request_types([], stage.now_ns)
    core.flush(stage.now_ns)
    stage.publish(other, Vessel(mmsi=1), Shout(text="a"))
    other.publish_bytes("/a/b", b"x", 0.0)
    stage.publish(other, internal_class("DotsClearCache")(typeNames=["Vessel"]))
    kinds = {event.type_name for event in by_pattern}
    assert kinds == {"DotsClient", "Vessel", "Shout", "SkerryBytes"}
    vessels = [event for event in by_pattern if event.type_name == "Vessel"]
    assert operations(vessels) == ["create", "remove"]
    # Who asks for them by name gets them.
    assert {event.object.name for event in by_name} >= {"Vessel", "Shout"}
    assert core.connection.statistics().unknown_count == 0


def test_pattern_applies_to_a_type_while_it_is_subscribed() -> None:
    stage = Stage()
    core, other = stage.space(), stage.space()
    core.subscribe(Vessel, print, stage.now_ns)
    received: list[Any] = []
    patterns = ["/Vessel/1", "/Vessel/*", "/Vessel/*", "/prices/a"]
    places = [core.subscribe(pattern, received.append, stage.now_ns) for pattern in patterns]
    stage.run()
    route = core.intake.routes["Vessel"]
    assert route.has_patterns
    stage.publish(other, Vessel(mmsi=1))
    assert len(received) == 3
    for place, is_asked in zip(places, [True, True, False, False], strict=True):
        core.unsubscribe(*place, stage.now_ns, on_slow="disconnect")
        stage.run()
        assert route.has_patterns == is_asked
    stage.publish(other, Vessel(mmsi=1, name="a"))
    assert len(received) == 3
    core.subscribe("/Vessel/2", received.append, stage.now_ns)
    assert route.has_patterns


def echoes(core: SpaceCore) -> list[str]:
    """The marks of the echoes that a space sends next."""
    return [
        internal_class("DotsEcho").decode(payload).data
        for transmit in core.connection.take_transmits()
        for header, payload in Wire().feed(transmit.data)
        if header.type_name == "DotsEcho"
    ]


def test_join_that_a_dots_host_may_not_answer_is_followed_by_an_echo() -> None:
    stage = Stage(extensions=False)
    core = stage.space()
    subscription, _ = core.hold(Vessel, stage.now_ns)
    assert echoes(core) == [JOIN_MARK]
    assert (core.subscriptions.is_awaiting_echo, subscription.is_complete) == (True, False)
    core.subscriptions.join_echoed(1.0)
    assert (core.subscriptions.is_awaiting_echo, subscription.is_complete) == (False, True)


def test_echo_after_an_answered_join_changes_nothing() -> None:
    stage = Stage(extensions=False)
    publisher = stage.space()
    publisher.publish(Vessel(mmsi=1), 1.0)
    stage.run()
    core = stage.space()
    subscription, _ = core.hold(Vessel, stage.now_ns)
    again, _ = core.hold(Vessel, stage.now_ns)
    assert again is subscription
    stage.run()
    assert subscription.is_complete
    assert not core.subscriptions.is_awaiting_echo
    assert subscription.route is not None
    assert subscription.route.store is not None
    assert len(subscription.route.store.objects) == 1


def test_skerry_node_gets_no_echo_after_a_join() -> None:
    stage = Stage()
    core = stage.space()
    core.hold(Vessel, stage.now_ns)
    assert echoes(core) == []


def test_skerry_types_are_not_joined_at_a_dots_host() -> None:
    stage = Stage(extensions=False)
    core = stage.space()
    subscription, _ = core.hold("SkerryPicture", stage.now_ns)
    assert subscription.is_complete
    assert asked(core) == []


def test_dots_host_that_is_silent_after_a_join_is_closed() -> None:
    stage = Stage(extensions=False)
    core = stage.space()
    core.hold(Vessel, stage.now_ns)
    core.connection.take_transmits()
    core.connection.advance(stage.now_ns + core.config.answer_ns_max // 2)
    core.connection.take_transmits()
    core.connection.advance(stage.now_ns + core.config.answer_ns_max)
    assert core.connection.state is SpaceState.DISCONNECTED
