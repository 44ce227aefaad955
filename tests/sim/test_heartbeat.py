"""The heartbeat without a network: beats, silence, last calls, and lives told apart."""

from __future__ import annotations

from random import Random

import pytest

from skerry.protocol.machine import Address, MachineEvent
from skerry.tracing import DatagramDropped, DropReason, TraceEvent
from tests.sim.heartbeat import (
    Beat,
    Found,
    HeartbeatConfig,
    HeartbeatDetector,
    Restarted,
    Restored,
    Suspected,
)

OWN = Address("own", 1)
PEER = Address("peer", 1)
GROUP = Address("239.1.1.1", 1)
CONFIG = HeartbeatConfig(
    interval_ns=100,
    timeout_ns=1000,
    last_call_ns=10,
    peer_count_max=2,
    past_life_count_max=2,
)


class Drops:
    """Takes the reasons of dropped datagrams."""

    def __init__(self) -> None:
        self.reasons: list[DropReason] = []

    def emit(self, event: TraceEvent) -> None:
        assert isinstance(event, DatagramDropped)
        self.reasons.append(event.reason)


def member(drops: Drops | None = None) -> HeartbeatDetector:
    return HeartbeatDetector(
        address=OWN,
        group=GROUP,
        rng=Random(1),
        now_ns=0,
        config=CONFIG,
        tracer=drops or Drops(),
    )


def beat(life: int = 1, number: int = 0) -> bytes:
    return Beat(life=life, number=number).encode()


def run_to(machine: HeartbeatDetector, now_ns: int) -> list[MachineEvent]:
    """Advance at each deadline up to `now_ns`, as a driver that is never late does."""
    events: list[MachineEvent] = []
    while (deadline_ns := machine.deadline_ns()) is not None and deadline_ns <= now_ns:
        machine.advance(deadline_ns)
        events += machine.take_events()
    return events


def test_a_member_beats_once_an_interval_with_growing_numbers() -> None:
    machine = member()
    run_to(machine, 1000)
    beats = [Beat.decode(transmit.data) for transmit in machine.take_transmits()]
    assert beats == [Beat(life=machine.life, number=n) for n in range(10)]


def test_a_peer_without_beats_is_suspected_after_timeout_and_last_call() -> None:
    machine = member()
    machine.receive(beat(), PEER, 500)
    assert machine.take_events() == [Found(peer="peer")]
    assert run_to(machine, 1509) == []
    assert machine.alive() == ["peer"]
    assert run_to(machine, 1510) == [Suspected(peer="peer")]
    assert machine.alive() == []
    assert run_to(machine, 9000) == [], "once is enough"


def test_a_beat_of_a_suspected_peer_restores_it() -> None:
    machine = member()
    machine.receive(beat(number=0), PEER, 0)
    run_to(machine, 2000)
    machine.receive(beat(number=1), PEER, 2000)
    assert machine.take_events() == [Restored(peer="peer")]
    assert run_to(machine, 3009) == []
    assert run_to(machine, 3010) == [Suspected(peer="peer")]


def test_a_resumed_member_reads_its_datagrams_before_it_suspects() -> None:
    machine = member()
    machine.receive(beat(number=0), PEER, 0)
    machine.take_events()
    machine.advance(5000)
    assert machine.take_events() == []
    machine.receive(beat(number=1), PEER, 5000)
    assert run_to(machine, 6000) == []
    assert machine.alive() == ["peer"]


def test_a_late_last_call_is_repeated() -> None:
    machine = member()
    machine.receive(beat(number=0), PEER, 0)
    machine.take_events()
    machine.advance(1000)
    machine.advance(1010 + 11)
    assert machine.take_events() == []
    machine.advance(1021 + 10)
    assert machine.take_events() == [Suspected(peer="peer")]


def test_a_restart_of_a_peer_is_reported_once() -> None:
    drops = Drops()
    machine = member(drops)
    for life, number in ((1, 5), (2, 0), (1, 6), (2, 1)):
        machine.receive(beat(life, number), PEER, 0)
    assert machine.take_events() == [Found(peer="peer"), Restarted(peer="peer")]
    assert drops.reasons == [DropReason.DUPLICATE]


def test_only_the_last_past_lives_are_remembered() -> None:
    machine = member()
    for life in (1, 2, 3, 4):
        machine.receive(beat(life), PEER, 0)
    machine.take_events()
    machine.receive(beat(3, 9), PEER, 0)
    machine.receive(beat(2, 9), PEER, 0)
    assert machine.take_events() == []
    machine.receive(beat(1, 9), PEER, 0)
    assert machine.take_events() == [Restarted(peer="peer")], "forgotten, so taken for new"


def test_a_delayed_beat_is_not_a_sign_of_life() -> None:
    drops = Drops()
    machine = member(drops)
    machine.receive(beat(number=7), PEER, 0)
    for number in (7, 6):
        machine.receive(beat(number=number), PEER, 900)
    assert drops.reasons == [DropReason.DUPLICATE] * 2
    machine.take_events()
    assert run_to(machine, 1010) == [Suspected(peer="peer")]


def test_own_beats_and_invalid_datagrams_are_not_peers() -> None:
    drops = Drops()
    machine = member(drops)
    machine.receive(beat(), OWN, 0)
    machine.receive(b"", PEER, 0)
    machine.receive(b"beet" + bytes(12), PEER, 0)
    assert machine.take_events() == []
    assert drops.reasons == [DropReason.MALFORMED] * 2


def test_the_number_of_monitored_peers_is_bounded() -> None:
    drops = Drops()
    machine = member(drops)
    for name in ("a", "b", "c"):
        machine.receive(beat(), Address(name), 0)
    assert machine.alive() == ["a", "b"]
    assert drops.reasons == [DropReason.STRANGER]


def test_members_that_start_together_send_beats_at_different_times() -> None:
    first = [
        HeartbeatDetector(address=OWN, group=GROUP, rng=Random(seed), now_ns=0).deadline_ns()
        for seed in range(5)
    ]
    assert len(set(first)) == 5


def test_inconsistent_times_are_rejected() -> None:
    with pytest.raises(AssertionError):
        HeartbeatConfig(interval_ns=100, timeout_ns=100)
    with pytest.raises(AssertionError):
        HeartbeatConfig(interval_ns=100, timeout_ns=1000, last_call_ns=100)
