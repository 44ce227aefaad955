"""The network without faults: one latency, order, groups, and datagrams without a receiver."""

from __future__ import annotations

import pytest

from skerry.errors import SimulationError
from skerry.limits import DATAGRAM_BYTES_MAX
from skerry.protocol.machine import Address
from skerry.testing import MS, Loss, World
from tests.sim.probe import Probe

GROUP = Address("239.1.1.1", 4711)


def test_a_quiet_network_delivers_once_in_order_after_its_latency(world: World) -> None:
    a, b = world.add("a", Probe), world.add("b", Probe)
    data = [b"%d" % n for n in range(100)]
    a.do(lambda machine, _: machine.send(b.address, *data))
    sent_ns = b.now_ns
    world.run_for(MS)
    assert b.machine.heard == data
    assert set(b.machine.heard_at_ns) == {sent_ns + world.network.latency_ns}
    assert b.machine.sources[0] == a.address


def test_latency_is_an_argument_of_the_world() -> None:
    world = World(0, latency_ns=5 * MS)
    a, b = world.add("a", Probe), world.add("b", Probe)
    a.do(lambda machine, _: machine.send(b.address, b"x"))
    world.run_for(5 * MS - 1)
    assert b.machine.heard == []
    world.run_for(1)
    assert b.machine.heard == [b"x"]


def test_a_group_reaches_exactly_its_members(world: World) -> None:
    members = [world.add(f"member-{n}", Probe, groups=[GROUP]) for n in range(3)]
    stranger = world.add("stranger", Probe)
    stranger.do(lambda machine, _: machine.send(GROUP, b"hello"))
    world.run_for(MS)
    assert [member.machine.heard for member in members] == [[b"hello"]] * 3
    assert stranger.machine.heard == []


def test_a_member_receives_its_own_datagrams_without_faults(world: World) -> None:
    member, other = (world.add(name, Probe, groups=[GROUP]) for name in ("a", "b"))
    world.inject(Loss(1.0))
    member.do(lambda machine, _: machine.send(GROUP, b"hello"))
    world.run_for(MS)
    assert member.machine.heard == [b"hello"]
    assert other.machine.heard == []


def test_joining_and_leaving_take_effect_at_once(world: World) -> None:
    sender, receiver = world.add("a", Probe), world.add("b", Probe)
    sender.do(lambda machine, _: machine.send(GROUP, b"before"))
    world.run_for(MS)
    world.network.join(receiver, GROUP)
    sender.do(lambda machine, _: machine.send(GROUP, b"joined"))
    world.run_for(MS)
    world.network.leave(receiver, GROUP)
    sender.do(lambda machine, _: machine.send(GROUP, b"left"))
    world.run_for(MS)
    assert receiver.machine.heard == [b"joined"]


def test_a_member_is_still_one_after_a_restart(world: World) -> None:
    sender, receiver = world.add("a", Probe), world.add("b", Probe, groups=[GROUP])
    world.restart(receiver, down_ns=MS)
    world.run_for(2 * MS)
    sender.do(lambda machine, _: machine.send(GROUP, b"hello"))
    world.run_for(MS)
    assert receiver.machine.heard == [b"hello"]


def test_ports_and_groups_are_distinguished(world: World) -> None:
    sender = world.add("a", Probe)
    receiver = world.add("b", Probe, port=9, groups=[GROUP])
    sender.do(lambda machine, _: machine.send(Address("b", 7), b"other port"))
    sender.do(lambda machine, _: machine.send(Address(GROUP.host, 1), b"other group"))
    sender.do(lambda machine, _: machine.send(Address("b", 9), b"here"))
    world.run_for(MS)
    assert receiver.machine.heard == [b"here"]


def test_a_datagram_has_a_longest_length(world: World) -> None:
    a, b = world.add("a", Probe), world.add("b", Probe)
    a.do(lambda machine, _: machine.send(b.address, bytes(DATAGRAM_BYTES_MAX)))
    world.run_for(MS)
    assert len(b.machine.heard[0]) == DATAGRAM_BYTES_MAX
    with pytest.raises(SimulationError, match="65508 bytes, the limit is 65507"):
        a.do(lambda machine, _: machine.send(b.address, bytes(DATAGRAM_BYTES_MAX + 1)))
