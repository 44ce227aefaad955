"""The connection is lost, refused and made again, and the space stays what it was."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

from skerry.client.core.events import Event
from skerry.client.core.space import SpaceCore
from skerry.client.core.states import SpaceState, StateChanged
from skerry.errors import Disconnected, LocalProtocolError, WouldBlock
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import AccessConnection
from skerry.protocol.access.wire import Wire
from skerry.protocol.backoff import Backoff
from skerry.protocol.machine import CloseReason, Disconnect, StreamMachine
from tests.unit.client.stage import (
    NODE,
    SECOND,
    Shout,
    Stage,
    Vessel,
    alone,
    greeted,
    operations,
    states,
)


def test_connection_is_a_stream_machine() -> None:
    assert isinstance(Stage().space().connection, StreamMachine)


def test_reconnect_restores_everything() -> None:
    stage = Stage()
    writer, reader = stage.space(), stage.space()
    events = stage.hear(reader, Vessel)
    for number in range(4):
        stage.publish(writer, Vessel(mmsi=number, name="a", lat=1.0))
    events.clear()
    reader.connection.take_events()
    stage.cut(reader)
    assert reader.connection.state is SpaceState.DISCONNECTED
    stage.remove(writer, Vessel(mmsi=0))
    stage.publish(writer, Vessel(mmsi=1, lat=2.0))
    stage.publish(writer, Vessel(mmsi=2), only=["name"])
    stage.publish(writer, Vessel(mmsi=9, name="new"))
    assert events == []
    stage.run(1)
    assert states(reader) == ["disconnected", "connected"]
    reported = {event.object.mmsi: event for event in events}
    assert {mmsi: event.operation for mmsi, event in reported.items()} == {
        0: "remove",
        1: "update",
        2: "update",
        9: "create",
    }
    assert len(events) == 4, "unchanged objects cause no event"
    assert reported[1].object == Vessel(mmsi=1, name="a", lat=2.0)
    assert reported[2].object == Vessel(mmsi=2, lat=1.0)
    assert stage.current(reader, Vessel) == stage.cached(Vessel)


def test_reconnect_restores_patterns_and_conditions() -> None:
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


def test_flush_does_not_confirm_unconfirmed_publishes() -> None:
    stage = Stage()
    core = stage.space()
    stage.publish(core, Vessel(mmsi=1))
    stage.cut(core)
    assert [
        e.unconfirmed_count for e in core.connection.take_events() if isinstance(e, StateChanged)
    ][-1] == 1
    with pytest.raises(Disconnected, match="1 publish was sent"):
        core.flush(stage.now_ns)
    flush = core.flush(stage.now_ns)
    stage.run(1)
    assert flush.is_done
    assert flush.error is None


def test_waiting_flush_fails_when_a_covered_publish_may_be_lost() -> None:
    stage = Stage()
    core = stage.space()
    core.publish(Vessel(mmsi=1), 1.0)
    flush = core.flush(stage.now_ns)
    core.connection.take_transmits()
    stage.cut(core)
    assert flush.is_done
    assert isinstance(flush.error, Disconnected)
    redone = core.flush(stage.now_ns)
    stage.run(1)
    assert redone.is_done
    assert redone.error is None


def test_paused_stream_fills_the_buffer() -> None:
    stage = Stage()
    core = stage.space(send_bytes_max=500)
    core.connection.pause()
    with pytest.raises(WouldBlock):
        for number in range(100):
            core.publish(Vessel(mmsi=number), 1.0)
            stage.run()
    assert stage.cached(Vessel) == {}
    core.connection.resume()
    stage.run()
    assert stage.cached(Vessel)
    assert core.waiting_bytes == 0


def test_delay_between_attempts_increases() -> None:
    stage = Stage()
    backoff = Backoff(first_ns=SECOND, delay_ns_max=8 * SECOND, spread_percent=0)
    core = stage.space(reconnect=backoff)
    stage.kill()
    start_ns = stage.now_ns
    times: list[float] = []
    for _ in range(5):
        due_ns = core.connection.deadline_ns()
        assert due_ns is not None
        times.append((due_ns - start_ns) / SECOND)
        stage.run((due_ns - stage.now_ns) / SECOND)
    assert times == [1, 3, 7, 15, 23]


def test_first_connection_fails_at_once_unless_patient() -> None:
    stage = Stage()
    stage.is_up = False
    hasty, patient = stage.space(), stage.space(is_patient=True)
    assert hasty.connection.state is SpaceState.CLOSED
    assert hasty.connection.failure == "connection refused"
    assert patient.connection.state is SpaceState.CONNECTING
    stage.is_up = True
    stage.run(1)
    assert str(patient.connection.state) == "connected"


def test_authentication_failure_closes_the_space_even_on_reconnect() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    assert str(core.connection.state) == "connected"
    core.connection.stream_closed(NODE, CloseReason.LOST, 2 * SECOND)
    core.connection.advance(10 * SECOND)
    core.connection.take_transmits()
    core.connection.stream_opened(NODE, 10 * SECOND)
    greeted(core, accepted=False)
    assert str(core.connection.state) == "closed"
    assert core.connection.failure == "the node rejects the client"
    assert core.connection.deadline_ns() is None
    assert core.connection.take_transmits()[-1] == Disconnect(destination=NODE)
    with pytest.raises(Disconnected, match="rejects the client"):
        core.publish(Vessel(mmsi=1), 1.0)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"clientId": 5, "reason": "too many clients, the limit is 5"}, "too many clients, the"),
        ({"clientId": 0}, "it has no room for another connection now; its log has the limit"),
    ],
)
def test_full_node_is_retried_with_wait(fields: dict[str, Any], reason: str) -> None:
    hasty, patient = alone(), alone(is_patient=True)
    for core in (hasty, patient):
        greeted(core, accepted=False, **fields)
        assert core.connection.is_rejected
    why = f"the node rejects the client: {reason}"
    assert hasty.connection.failure is not None
    assert hasty.connection.failure.startswith(why)
    assert patient.connection.failure is None
    assert patient.connection.deadline_ns() is not None
    patient.connection.stream_closed(NODE, CloseReason.ENDED, SECOND)
    patient.connection.advance(10 * SECOND)
    patient.connection.take_transmits()
    patient.connection.stream_opened(NODE, 10 * SECOND)
    assert not patient.connection.is_rejected
    greeted(patient, accepted=True, preload=False)
    assert str(patient.connection.state) == "connected"


def test_missing_secret_closes_the_space() -> None:
    core = alone()
    greeted(core, hello={"authenticationRequired": True, "authChallenge": 5}, accepted=True)
    assert core.connection.failure == "the node asks for a secret, and none was given"
    assert core.connection.is_refused


def test_reason_of_the_node_reaches_the_program() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    core.connection.take_events()
    peer = AccessConnection(Wire())
    peer.send_message(internal_class("DotsMsgError")(errorCode=1, errorText="too slow"), 1.0)
    core.connection.receive(peer.take_output(), NODE, 2 * SECOND)
    (changed,) = core.connection.take_events()
    assert isinstance(changed, StateChanged)
    assert str(changed) == "disconnected: too slow"
    assert Disconnect(destination=NODE) in core.connection.take_transmits()


def test_dots_host_supports_no_subjects() -> None:
    stage = Stage(extensions=False)
    core = stage.space()
    with pytest.raises(LocalProtocolError, match="supports only types"):
        core.subscribe("/Vessel/*", print, stage.now_ns)
    with pytest.raises(LocalProtocolError, match="supports only types"):
        core.publish(Vessel(mmsi=1), 1.0, subject="/nav/1")
    with pytest.raises(LocalProtocolError, match="supports only types"):
        core.publish_bytes("/nav/1", b"", 1.0)
    with pytest.raises(LocalProtocolError, match="a condition needs a type"):
        core.subscribe("/Vessel/*", print, stage.now_ns, where="lat > 1")
    early = stage.space(preload=["/Vessel/*"])
    assert early.connection.failure is not None
    assert "supports only types" in early.connection.failure


@pytest.mark.parametrize("seed", range(6))
def test_all_spaces_converge_after_random_faults(seed: int) -> None:
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
    """Apply events to a model, and check that they are consistent with it."""
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
