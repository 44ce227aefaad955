"""The checkers of the small machines: each sees the one thing it is for."""

from __future__ import annotations

import pytest

from skerry.errors import SimulationError
from skerry.protocol.machine import Address, MachineEvent
from skerry.testing import MS, SECOND, Node, World
from skerry.testing.machines.echo import Answered, GaveUp, Served
from skerry.testing.machines.scenarios import (
    AllAnswered,
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


class Teller(Probe):
    """Tells the layer above whatever a test wants."""

    life = 1

    def tell(self, *events: MachineEvent) -> None:
        self._events.extend(events)


def tell(node: Node[Teller], *events: MachineEvent) -> None:
    node.do(lambda machine, _: machine.tell(*events))


def test_an_answer_reported_twice_is_found(world: World) -> None:
    world.watch(answered_once())
    node = world.add("a", Teller)
    tell(node, Answered(life=1, number=1, data=b""), Answered(life=1, number=2, data=b""))
    with pytest.raises(SimulationError, match="answered once"):
        tell(node, Answered(life=1, number=1, data=b""))


def test_a_question_may_be_served_once_in_each_life_of_the_server(world: World) -> None:
    world.watch(served_once())
    node = world.add("a", Teller)
    served = Served(life=1, number=1, data=b"")
    tell(node, served)
    world.restart(node, down_ns=1)
    world.run_for(MS)
    tell(node, served)
    with pytest.raises(SimulationError, match="served once"):
        tell(node, served)


def test_data_that_was_never_asked_is_seen(world: World) -> None:
    checker = genuine()
    world.watch(checker)
    node = world.add("a", Teller)
    checker.announce((1, 1, b"asked"))
    tell(node, Answered(life=1, number=1, data=b"asked"), Found(peer="x"))
    with pytest.raises(SimulationError, match="genuine"):
        tell(node, Answered(life=1, number=1, data=b"garbled"))


def test_a_question_without_an_answer_is_awaited(world: World) -> None:
    checker = AllAnswered()
    world.watch(checker)
    node = world.add("a", Teller)
    checker.asked(node, life=1, number=5)
    assert checker.liveness(world) == "question 5 of a has no answer"
    tell(node, Answered(life=1, number=5, data=b""))
    assert checker.liveness(world) is None


def test_a_question_of_a_past_life_is_not_awaited(world: World) -> None:
    checker = AllAnswered()
    node = world.add("a", Teller)
    checker.asked(node, life=0, number=5)
    assert checker.liveness(world) is None


def test_giving_up_is_seen(world: World) -> None:
    world.watch(AllAnswered())
    node = world.add("a", Teller)
    with pytest.raises(SimulationError, match="gave up question 3"):
        tell(node, GaveUp(life=1, number=3))


@pytest.mark.parametrize(("silence_ns", "is_hasty"), [(900 * MS, True), (1001 * MS, False)])
def test_a_suspicion_within_the_timeout_is_found(
    world: World, silence_ns: int, is_hasty: bool
) -> None:
    world.watch(NoHastySuspicion(HeartbeatConfig()))
    watcher, peer = world.add("watcher", Teller), world.add("peer", Teller)
    peer.do(lambda machine, _: machine.send(watcher.address, Beat(life=1, number=0).encode()))
    world.run_for(world.network.latency_ns)
    world.run_for(silence_ns)
    if is_hasty:
        with pytest.raises(SimulationError, match=r"peer, whose beat arrived 900\.0 ms ago"):
            tell(watcher, Suspected(peer="peer"))
    else:
        tell(watcher, Suspected(peer="peer"))
        assert list(watcher.events)[-1] == Suspected(peer="peer")


def test_beats_of_a_past_life_and_late_ones_do_not_count(world: World) -> None:
    world.watch(NoHastySuspicion(HeartbeatConfig()))
    watcher, peer = world.add("watcher", Teller), world.add("peer", Teller)
    peer.do(lambda machine, _: machine.send(watcher.address, Beat(life=1, number=5).encode()))
    world.run_for(SECOND)
    late, past = Beat(life=1, number=4).encode(), Beat(life=0, number=9).encode()
    peer.do(lambda machine, _: machine.send(watcher.address, late, past, b"noise"))
    world.run_for(500 * MS)
    tell(watcher, Suspected(peer="peer"))
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
    node = world.add("a", Teller)
    with pytest.raises(SimulationError, match="in the wrong order"):
        tell(node, *events)


def test_events_in_turn_pass(world: World) -> None:
    world.watch(SuspicionsAlternate())
    node = world.add("a", Teller)
    found, suspected, restored = Found(peer="x"), Suspected(peer="x"), Restored(peer="x")
    tell(node, found, suspected, restored, suspected)
    world.restart(node, down_ns=1)
    world.run_for(MS)
    tell(node, found)
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
