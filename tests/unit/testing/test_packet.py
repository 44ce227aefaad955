"""Packets: what faults and checkers can see of a datagram."""

from __future__ import annotations

from functools import partial
from zlib import adler32, crc32

from skerry.protocol.machine import Address
from skerry.testing import MULTICAST, UNICAST, LoseIf, Packet, World
from tests.sim.probe import Probe


def test_a_packet_has_source_and_kind(world: World) -> None:
    seen: list[Packet] = []
    group = Address("239.1.1.1", 5)
    sender = world.add("sender", Probe)
    world.add("receiver", Probe, groups=[group])

    def look(packet: Packet) -> bool:
        seen.append(packet)
        return False

    world.inject(LoseIf(look))
    world.run_for(1000)
    sender.do(lambda machine, _: machine.send(Address("receiver", 7), b"one"))
    sender.do(lambda machine, _: machine.send(group, b"two"))
    assert [(p.source.name, p.destination.name, p.data, p.kind, p.sent_ns) for p in seen] == [
        ("sender", "receiver", b"one", UNICAST, 1000),
        ("sender", "receiver", b"two", MULTICAST, 1000),
    ]
    assert [packet.checksum for packet in seen] == [adler32(b"one"), adler32(b"two")]


def send(data: bytes, machine: Probe, _now_ns: int) -> None:
    machine.send(Address("receiver", 7), data)


def test_datagrams_that_end_with_their_own_checksum_differ_in_the_trace(world: World) -> None:
    sender = world.add("sender", Probe)
    world.add("receiver", Probe)
    lines: list[str] = []
    for body in (b"one!", b"two!"):
        data = body + crc32(body).to_bytes(4, "little")
        sender.do(partial(send, data))
        world.run_for(1_000_000)
        found = [line for line in world.trace.tail(5) if "receive" in line and "checksum" in line]
        lines.append(found[-1].partition("checksum")[2].partition(",")[0])
    assert lines[0] != lines[1]
