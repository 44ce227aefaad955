"""The probe: it sends what a test passes to it, and records what it receives."""

from __future__ import annotations

from skerry.protocol.machine import Address, CloseReason, Connect, Disconnect, Transmit
from skerry.testing import World
from tests.sim.probe import Heard, Probe, ProbeStatistics

PEER = Address("peer", 1, is_stream=True)


def test_a_probe_sends_in_order_and_only_once(world: World) -> None:
    probe = world.add("a", Probe).machine
    probe.connect(PEER)
    probe.send(PEER, b"1", b"2")
    probe.disconnect(PEER)
    assert probe.take_transmits() == [
        Connect(destination=PEER),
        Transmit(destination=PEER, data=b"1"),
        Transmit(destination=PEER, data=b"2"),
        Disconnect(destination=PEER),
    ]
    assert probe.take_transmits() == []


def test_a_probe_records_all_calls(world: World) -> None:
    probe = world.add("a", Probe).machine
    probe.stream_opened(PEER, 1)
    probe.receive(b"x", PEER, 2)
    probe.stream_closed(PEER, CloseReason.ENDED, 3)
    probe.set_wall_offset(9, 4)
    probe.wake_ns = 5
    probe.stored = b"disk"
    assert probe.deadline_ns() == 5
    probe.advance(5)
    assert probe.deadline_ns() is None
    assert probe.take_events() == [Heard(data=b"x", source="peer")]
    assert (probe.opened, probe.closed) == ([PEER], [(PEER, CloseReason.ENDED)])
    assert (probe.heard, probe.sources, probe.heard_at_ns) == ([b"x"], [PEER], [2])
    assert (probe.wall_offset_ns, probe.advanced_at_ns, probe.durable()) == (9, [5], b"disk")
    assert probe.statistics() == ProbeStatistics(heard_count=1, sent_count=0)
