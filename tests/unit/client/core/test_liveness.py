"""A silent node is sent an echo, probed, and disconnected."""

from __future__ import annotations

from random import Random

import skerry
from skerry.client.core.liveness import Liveness
from skerry.client.core.settings import SpaceConfig
from skerry.engine.node import NodeCore
from skerry.engine.persistence import Journal
from skerry.protocol.machine import Connect, Disconnect
from tests.unit.client.stage import NODE, SECOND, Stage, alone, greeted, states

CONFIG = SpaceConfig(
    handshake_ns_max=3 * SECOND, answer_ns_max=10 * SECOND, idle_ns_max=20 * SECOND
)


def watched(now_ns: int = 0) -> Liveness:
    """A node of our own kind that has let us in."""
    liveness = Liveness(CONFIG)
    liveness.opened(now_ns)
    liveness.received(now_ns)
    liveness.connected(now_ns, is_ours=True)
    return liveness


def played(liveness: Liveness, *times_s: int, is_waiting: bool = True) -> list[tuple[int, str]]:
    """The actions at these times."""
    return [
        (time_s, action.value)
        for time_s in times_s
        for action in liveness.advance(time_s * SECOND, is_waiting=is_waiting)
    ]


def test_handshake_continues_while_bytes_are_received() -> None:
    liveness = Liveness(CONFIG)
    liveness.opened(0)
    liveness.received(2 * SECOND)
    assert played(liveness, 3, 4) == []
    assert liveness.deadline_ns() == 5 * SECOND
    assert played(liveness, 5) == [(5, "close")]


def test_node_that_owes_an_answer_is_probed_before_it_is_closed() -> None:
    liveness = watched()
    liveness.expect_answer(SECOND)
    assert played(liveness, 5, 6, 10, 11) == [(6, "probe"), (11, "close")]


def test_node_that_answers_probes_is_not_closed() -> None:
    liveness = watched()
    liveness.expect_answer(SECOND)
    for time_s in range(2, 40):
        liveness.received(time_s * SECOND)
        assert played(liveness, time_s) == []


def test_node_that_answered_gets_no_echo_until_it_is_idle() -> None:
    liveness = watched()
    liveness.expect_answer(SECOND)
    liveness.received(2 * SECOND)
    assert played(liveness, 6, 20, 21, is_waiting=False) == []
    assert played(liveness, 22, is_waiting=False) == [(22, "echo")]
    assert played(liveness, 27, 32) == [(27, "probe"), (32, "close")]


def test_closed_connection_gets_no_echo() -> None:
    liveness = watched()
    liveness.expect_answer(SECOND)
    assert played(liveness, 6, 1000) == [(6, "probe"), (1000, "close")]
    liveness.closed()
    assert liveness.deadline_ns() is None


def test_node_whose_timeout_expired_during_a_sleep_is_closed() -> None:
    stage = Stage()
    core = stage.space()
    core.flush(stage.now_ns)
    core.connection.advance(stage.now_ns + 5 * SECOND)
    core.connection.take_events()
    core.connection.advance(stage.now_ns + 1000 * SECOND)
    assert states(core) == ["disconnected"]


def test_silent_host_is_closed_during_the_handshake() -> None:
    core = alone(is_patient=True)
    core.connection.advance(12 * SECOND)
    assert core.connection.take_transmits() == [Disconnect(destination=NODE)]
    core.connection.advance(20 * SECOND)
    assert core.connection.take_transmits() == [Connect(destination=NODE)]


def test_node_that_does_not_answer_a_flush_is_closed() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    flush = core.flush(2 * SECOND)
    for time_s in (7, 11):
        core.connection.advance(time_s * SECOND)
        assert str(core.connection.state) == "connected"
    core.connection.advance(12 * SECOND)
    assert str(core.connection.state) == "disconnected"
    assert not flush.is_done, "nothing was in doubt, so it is asked again"


def test_node_that_waits_for_its_storage_is_not_closed() -> None:
    stage = Stage()
    journal = Journal(rng=Random(1))
    stage.node = NodeCore(journal=journal)
    core = stage.space()
    kept = skerry.define_types("struct Kept [persistent] { 1: [key] uint32 id; }").Kept
    core.publish(kept(id=1), 1.0)
    flush = core.flush(stage.now_ns)
    stage.run(100)
    assert not flush.is_done
    assert core.connection.statistics().connected_count == 1
    batch = journal.take_batch(stage.now_ns)
    assert batch is not None
    journal.written(batch.number)
    stage.run()
    assert (flush.is_done, flush.error) == (True, None)


def test_idle_skerry_node_gets_an_echo() -> None:
    stage = Stage()
    core = stage.space()
    stage.run(100)
    assert core.connection.statistics().connected_count == 1
    # The stream is dead, without an error.
    stage.streams.clear()
    core.connection.take_events()
    stage.run(31)
    assert states(core) == ["disconnected", "connected"]


def test_idle_dots_host_gets_no_echo() -> None:
    core = alone()
    greeted(core, accepted=True, preload=False)
    assert core.connection.deadline_ns() is None
