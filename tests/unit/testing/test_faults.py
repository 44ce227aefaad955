"""Faults on links: that each does what it says, as often as it says, and the same for a seed."""

from __future__ import annotations

from itertools import pairwise

import pytest

from skerry.limits import SIM_INBOX_COUNT_MAX
from skerry.protocol.machine import Address
from skerry.testing import (
    MS,
    MULTICAST,
    SECOND,
    UNICAST,
    Clog,
    Duplication,
    Exactly,
    Fault,
    Jitter,
    LinkFault,
    LongDatagrams,
    LoseIf,
    Loss,
    Partition,
    RateLimit,
    Reordering,
    World,
)
from tests.sim.probe import Probe

COUNT = 5000


def heard(fault: Fault, *, seed: int = 1, count: int = COUNT) -> list[int]:
    """The numbers of the datagrams that arrive through a fault, one sent every 10 us."""
    world = World(seed)
    a, b = world.pair(Probe, Probe)
    world.inject(fault)
    for n in range(count):
        a.machine.send(b.address, b"%d" % n)
        a.do(lambda _machine, _now_ns: None)
        world.run_for(10_000)
    world.run_for(SECOND)
    return [int(data) for data in b.machine.heard]


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 1.0])
def test_loss_loses_its_share(rate: float) -> None:
    fault = Loss(rate)
    arrived = heard(fault)
    assert arrived == sorted(set(arrived)), "order stays, nothing doubles"
    assert abs(COUNT - len(arrived) - rate * COUNT) < 0.02 * COUNT
    assert fault.strike_count == COUNT - len(arrived)


def test_duplication_doubles_its_share() -> None:
    fault = Duplication(0.2, delay_ns_max=MS)
    arrived = heard(fault)
    assert set(arrived) == set(range(COUNT))
    assert len(arrived) == COUNT + fault.strike_count
    assert abs(fault.strike_count - 0.2 * COUNT) < 0.02 * COUNT


def test_reordering_swaps_its_share_and_loses_nothing() -> None:
    fault = Reordering(0.1, delay_ns_max=MS)
    arrived = heard(fault)
    assert sorted(arrived) == list(range(COUNT))
    assert arrived != sorted(arrived)
    assert abs(fault.strike_count - 0.1 * COUNT) < 0.02 * COUNT
    held_up = sum(1 for one, two in pairwise(arrived) if two < one)
    assert held_up > 0.05 * COUNT


@pytest.mark.parametrize(
    "make", [lambda: Loss(0.5), lambda: Duplication(0.5), lambda: Reordering(0.5)]
)
def test_faults_repeat_with_the_seed_and_differ_without(make: type[LinkFault]) -> None:
    assert heard(make(), seed=1, count=500) == heard(make(), seed=1, count=500)
    assert heard(make(), seed=1, count=500) != heard(make(), seed=2, count=500)


def test_jitter_delays_everything_within_its_bound(world: World) -> None:
    a, b = world.pair(Probe, Probe)
    world.inject(Jitter(delay_ns_max=MS))
    sent_ns = b.now_ns + world.network.latency_ns
    a.do(lambda machine, _: machine.send(b.address, *[b"x"] * 500))
    world.run_for(SECOND)
    delays_ns = [at_ns - sent_ns for at_ns in b.machine.heard_at_ns]
    assert len(delays_ns) == 500
    assert 0 < min(delays_ns) < 0.1 * MS
    assert 0.9 * MS < max(delays_ns) <= MS


def test_exactly_loses_these_on_every_link_and_no_others() -> None:
    assert heard(Exactly(seqs={0, 3, 4}), count=8) == [1, 2, 5, 6, 7]


def test_exactly_counts_each_direction_by_itself(world: World) -> None:
    a, b = world.pair(Probe, Probe)
    world.inject(Exactly(seqs={1}))
    a.do(lambda machine, _: machine.send(b.address, b"0"))
    b.do(lambda machine, _: machine.send(a.address, b"0", b"1"))
    a.do(lambda machine, _: machine.send(b.address, b"1", b"2"))
    world.run_for(SECOND)
    assert b.machine.heard == [b"0", b"2"]
    assert a.machine.heard == [b"0"]


def test_lose_if_loses_the_chosen_packets() -> None:
    fault = LoseIf(lambda packet: packet.data.endswith(b"3"))
    assert heard(fault, count=15) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14]
    assert fault.strike_count == 2


def test_long_datagrams_are_lost_at_the_limit_and_not_before(world: World) -> None:
    a, b = world.pair(Probe, Probe)
    world.inject(LongDatagrams(100))
    a.do(lambda machine, _: machine.send(b.address, bytes(100), bytes(101)))
    world.run_for(SECOND)
    assert b.machine.heard == [bytes(100)]


def test_a_partition_cuts_one_way_only_until_it_stops(world: World) -> None:
    a, b = world.pair(Probe, Probe)
    cut = Partition(sources=["first"], destinations=["second"])
    world.inject(cut)
    a.do(lambda machine, _: machine.send(b.address, b"x"))
    b.do(lambda machine, _: machine.send(a.address, b"y"))
    world.run_for(SECOND)
    assert (a.machine.heard, b.machine.heard) == ([b"y"], [])
    cut.stop(world)
    cut.stop(world)
    a.do(lambda machine, _: machine.send(b.address, b"z"))
    world.run_for(SECOND)
    assert b.machine.heard == [b"z"]


def test_a_fault_can_be_narrowed_to_one_kind_of_packet(world: World) -> None:
    group = Address("239.1.1.1", 1)
    a = world.add("a", Probe)
    b = world.add("b", Probe, groups=[group])
    world.inject(Loss(1.0).between(kinds=[MULTICAST]))
    a.do(lambda machine, _: machine.send(group, b"multicast"))
    a.do(lambda machine, _: machine.send(b.address, b"unicast"))
    world.run_for(SECOND)
    assert b.machine.heard == [b"unicast"]
    world.inject(Loss(1.0).between(kinds=[UNICAST], sources=["b"]))
    a.do(lambda machine, _: machine.send(b.address, b"unicast"))
    world.run_for(SECOND)
    assert len(b.machine.heard) == 2


def test_a_rate_limit_delays_datagrams_and_drops_those_beyond_the_queue(world: World) -> None:
    a, b = world.pair(Probe, Probe)
    limit = RateLimit(bytes_per_s=1_000_000, queue_bytes_max=5000)
    world.inject(limit)
    sent_ns = b.now_ns + world.network.latency_ns
    a.do(lambda machine, _: machine.send(b.address, *[bytes(1000)] * 8))
    world.run_for(SECOND)
    assert [at_ns - sent_ns for at_ns in b.machine.heard_at_ns] == [MS * n for n in range(1, 6)]
    assert limit.strike_count == 3
    a.do(lambda machine, _: machine.send(b.address, bytes(1000)))
    world.run_for(SECOND)
    assert len(b.machine.heard) == 6


def test_a_clog_holds_everything_and_then_lets_it_through_in_order(world: World) -> None:
    a, b = world.pair(Probe, Probe)
    clog = Clog()
    world.inject(clog)
    a.do(lambda machine, _: machine.send(b.address, b"1", b"2", b"3"))
    world.run_for(SECOND)
    assert b.machine.heard == []
    clog.stop(world)
    world.run_for(MS)
    assert b.machine.heard == [b"1", b"2", b"3"]


def test_a_clog_holds_only_so_much(world: World) -> None:
    a, b = world.pair(Probe, Probe)
    clog = Clog()
    world.inject(clog)
    a.do(lambda machine, _: machine.send(b.address, *[b"x"] * (SIM_INBOX_COUNT_MAX + 3)))
    clog.stop(world)
    world.run_for(MS)
    assert len(b.machine.heard) == SIM_INBOX_COUNT_MAX


def test_faults_combine_and_calm_ends_them_all(world: World) -> None:
    a, b = world.pair(Probe, Probe)
    faults = [Exactly(seqs={0}), Duplication(1.0), Loss(0.0)]
    for fault in faults:
        world.inject(fault)
    a.do(lambda machine, _: machine.send(b.address, b"0", b"1"))
    world.run_for(SECOND)
    assert b.machine.heard == [b"1", b"1"]
    assert world.fault_count() == 2
    world.calm()
    a.do(lambda machine, _: machine.send(b.address, b"2"))
    world.run_for(SECOND)
    assert b.machine.heard == [b"1", b"1", b"2"]


@pytest.mark.parametrize("rate", [-0.1, 1.1])
def test_a_rate_is_a_share(rate: float) -> None:
    for make in (Loss, Duplication, Reordering):
        with pytest.raises(AssertionError):
            make(rate)
