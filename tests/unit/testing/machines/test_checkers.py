"""The checkers of the small machines: each sees the one thing it is for."""

from __future__ import annotations

import pytest

from skerry.errors import SimulationError
from skerry.protocol.machine import Address, MachineEvent
from skerry.testing import MS, SECOND, Node, World
from skerry.testing.machines.echo import (
    AllAnswered,
    Answered,
    GaveUp,
    Served,
    answered_once,
    genuine,
    served_once,
)
from tests.sim.heartbeat import (
    AllHeard,
    Beat,
    Found,
    HeartbeatConfig,
    HeartbeatDetector,
    NoHastySuspicion,
    Restored,
    Suspected,
    SuspicionsAlternate,
)
from tests.sim.probe import Probe

GROUP = Address("239.1.1.1", 1)


class Emitter(Probe):
    """Tells the layer above whatever a test wants."""

    life = 1

    def emit(self, *events: MachineEvent) -> None:
        self._events.extend(events)


def emit(node: Node[Emitter], *events: MachineEvent) -> None:
    node.do(lambda machine, _: machine.emit(*events))


def test_an_answer_reported_twice_is_found(world: World) -> None:
    world.watch(answered_once())
    node = world.add("a", Emitter)
    emit(node, Answered(life=1, number=1, data=b""), Answered(life=1, number=2, data=b""))
    with pytest.raises(SimulationError, match="answered once"):
        emit(node, Answered(life=1, number=1, data=b""))


def test_a_question_may_be_served_once_in_each_life_of_the_server(world: World) -> None:
    world.watch(served_once())
    node = world.add("a", Emitter)
    served = Served(life=1, number=1, data=b"")
    emit(node, served)
    world.restart(node, down_ns=1)
    world.run_for(MS)
    emit(node, served)
    with pytest.raises(SimulationError, match="served once"):
        emit(node, served)


def test_data_that_was_never_asked_is_seen(world: World) -> None:
    checker = genuine()
    world.watch(checker)
    node = world.add("a", Emitter)
    checker.announce((1, 1, b"asked"))
    emit(node, Answered(life=1, number=1, data=b"asked"), Found(peer="x"))
    with pytest.raises(SimulationError, match="genuine"):
        emit(node, Answered(life=1, number=1, data=b"garbled"))


def test_a_question_without_an_answer_is_awaited(world: World) -> None:
    checker = AllAnswered()
    world.watch(checker)
    node = world.add("a", Emitter)
    checker.asked(node, life=1, number=5)
    assert checker.liveness(world) == "question 5 of a has no answer"
    emit(node, Answered(life=1, number=5, data=b""))
    assert checker.liveness(world) is None


def test_a_question_of_a_past_life_is_not_awaited(world: World) -> None:
    checker = AllAnswered()
    node = world.add("a", Emitter)
    checker.asked(node, life=0, number=5)
    assert checker.liveness(world) is None


def test_giving_up_is_seen(world: World) -> None:
    world.watch(AllAnswered())
    node = world.add("a", Emitter)
    with pytest.raises(SimulationError, match="gave up question 3"):
        emit(node, GaveUp(life=1, number=3))


@pytest.mark.parametrize(("silence_ns", "is_hasty"), [(900 * MS, True), (1001 * MS, False)])
def test_a_suspicion_within_the_timeout_is_found(
    world: World, silence_ns: int, is_hasty: bool
) -> None:
    world.watch(NoHastySuspicion(HeartbeatConfig()))
    watcher, peer = world.add("watcher", Emitter), world.add("peer", Emitter)
    peer.do(lambda machine, _: machine.send(watcher.address, Beat(life=1, number=0).encode()))
    world.run_for(world.network.latency_ns)
    world.run_for(silence_ns)
    if is_hasty:
        with pytest.raises(SimulationError, match=r"peer, whose beat arrived 900\.0 ms ago"):
            emit(watcher, Suspected(peer="peer"))
    else:
        emit(watcher, Suspected(peer="peer"))
        assert list(watcher.events)[-1] == Suspected(peer="peer")


def test_beats_of_a_past_life_and_late_ones_do_not_count(world: World) -> None:
    world.watch(NoHastySuspicion(HeartbeatConfig()))
    watcher, peer = world.add("watcher", Emitter), world.add("peer", Emitter)
    peer.do(lambda machine, _: machine.send(watcher.address, Beat(life=1, number=5).encode()))
    world.run_for(SECOND)
    late, past = Beat(life=1, number=4).encode(), Beat(life=0, number=9).encode()
    peer.do(lambda machine, _: machine.send(watcher.address, late, past, b"noise"))
    world.run_for(500 * MS)
    emit(watcher, Suspected(peer="peer"))
    assert Suspected(peer="peer") in watcher.events


@pytest.mark.parametrize(
    "events",
    [
        [Suspected(peer="x")],
        [Found(peer="x"), Restored(peer="x")],
        [Found(peer="x"), Found(peer="x")],
        [Found(peer="x"), Suspected(peer="x"), Suspected(peer="x")],
    ],
)
def test_events_in_the_wrong_order_are_found(world: World, events: list[MachineEvent]) -> None:
    world.watch(SuspicionsAlternate())
    node = world.add("a", Emitter)
    with pytest.raises(SimulationError, match="in the wrong order"):
        emit(node, *events)


def test_events_in_turn_pass(world: World) -> None:
    world.watch(SuspicionsAlternate())
    node = world.add("a", Emitter)
    found, suspected, restored = Found(peer="x"), Suspected(peer="x"), Restored(peer="x")
    emit(node, found, suspected, restored, suspected)
    world.restart(node, down_ns=1)
    world.run_for(MS)
    emit(node, found)
    assert len(node.events) == 5


def test_every_running_member_must_be_trusted(world: World) -> None:
    nodes = [
        world.add(
            name,
            lambda setting: HeartbeatDetector(
                address=setting.address, group=GROUP, rng=setting.rng, now_ns=setting.now_ns
            ),
            groups=[GROUP],
        )
        for name in ("a", "b", "c")
    ]
    checker = AllHeard()
    assert checker.liveness(world) == "a does not receive beats of b"
    world.run_for(SECOND)
    assert checker.liveness(world) is None
    world.crash(nodes[2])
    assert checker.liveness(world) is None
