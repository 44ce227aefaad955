"""What a message between nodes costs: one sender and three receivers in one process.

First the machines alone, without sockets: the sender sends until it refuses, its datagrams are
passed to all receivers, and their acknowledgements back. Then four nodes of a system on real
sockets on loopback, in one process and on one loop, with discovery, picture and heartbeats.

The messages are of 16 types with 100 keys each in turn, and each is compared with what was sent.
In the unfavourable load each message is sent alone, so that each has a datagram of its own, and
each is acknowledged.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from benchmarks.macro._link_programs import Load
from benchmarks.rows import Row, best_of
from skerry.engine.system.config import SystemConfig
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import NotFull, RecordsReceived
from skerry.protocol.link.link import Link
from skerry.protocol.machine import Address, MachineEvent
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.rtps.entities import Channel
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.loops import new_loop
from skerry.runtime.udp.system_addresses import SystemNetworkConfig
from skerry.runtime.udp.system_runtime import SystemRuntime

RECEIVER_COUNT = 3
GROUP = Address("239.255.77.9", 26651)
LARGE_BYTES = 8000
PER_DATAGRAM_MIN = 20
"""The least number of messages of 56 bytes in a datagram, if it is large enough for them."""
BATCH_COUNT = {56: 1600, 1000: 400, 100_000: 20}
SOCKET_COUNT = 200_000
SOCKET_WARM_UP_COUNT = 20_000


def run() -> list[Row]:
    """Rows for the machines, the datagrams, and the nodes on sockets."""
    machines = {
        "56 bytes": Machines(usual(56)),
        f"56 bytes, datagrams of {LARGE_BYTES} bytes": Machines(
            Load((56,), datagram_bytes=LARGE_BYTES)
        ),
        "1000 bytes": Machines(usual(1000)),
        "100 000 bytes": Machines(usual(100_000)),
        "56 to 5000 bytes in turn": Machines(usual(56, 1000, 56, 5000)),
        "56 bytes, one at a time": Machines(usual(56), at_once=1),
    }
    times = best_of(*(one.exchange for one in machines.values()), seconds=6.0)
    rows = [
        Row(name=f"link, machines, {name}", ours=ns / one.batch_count, unit="ns CPU")
        for (name, one), ns in zip(machines.items(), times, strict=True)
    ]
    for name in ("56 bytes", f"56 bytes, datagrams of {LARGE_BYTES} bytes"):
        one = machines[name]
        is_large = one.load.datagram_bytes == LARGE_BYTES
        rows.append(
            Row(
                name=f"link, messages of a datagram, {name}",
                ours=one.sent_count / one.datagram_count,
                unit="",
                goal=PER_DATAGRAM_MIN if is_large else None,
            )
        )
    rows.append(
        Row(
            name="link, four nodes on sockets, 56 bytes",
            ours=min(new_loop().run_until_complete(on_sockets()) for _ in range(3)),
            unit="ns CPU",
        )
    )
    return rows


def usual(*sizes: int) -> Load:
    """Messages in datagrams as on Ethernet."""
    return Load(sizes, datagram_bytes=LinkConfig().datagram_bytes)


class Machines:
    """A sender and its receivers, connected by function calls."""

    def __init__(self, load: Load, *, at_once: int = 0) -> None:
        """`at_once` is how many messages are sent in a turn; 0 for as many as are accepted."""
        self.load = load
        self._ring = load.ring(0)
        self._at_once = at_once or len(self._ring)
        self._expected = [data for _, _, data in self._ring]
        self.batch_count = min(len(self._ring), BATCH_COUNT.get(load.sizes[0], 400))
        self._type = NodeType(
            multicast_control=f"{GROUP.host}:{GROUP.port - 1}",
            multicast_data=f"{GROUP.host}:{GROUP.port}",
        )
        types = NodeTypes([self._type])
        config = LinkConfig(datagram_bytes=load.datagram_bytes)
        self._now_ns = 0
        links = [
            Link(
                channel=Channel.DATA,
                node=1 + index,
                node_types=types,
                own_type=self._type,
                now_ns=0,
                config=config,
            )
            for index in range(1 + RECEIVER_COUNT)
        ]
        self._sender, self._receivers = links[0], links[1:]
        self._places = [Address(f"10.0.0.{1 + index}", 26661) for index in range(len(links))]
        for index, link in enumerate(links):
            for other in range(len(links)):
                if other != index:
                    link.meet(1 + other, self._type, self._places[other])
                    link.include(1 + other, 0)
        self._received: list[list[bytes]] = [[] for _ in self._receivers]
        self._next = 0
        self.sent_count = 0
        """Messages that were sent."""
        self.datagram_count = 0
        """Datagrams of all, also acknowledgements."""
        for one in self._receivers:
            self._answers(one)
        self._deliver()

    def exchange(self) -> None:
        """Send a batch of messages and receive them everywhere."""
        stop = self._next + self.batch_count
        send, ring, now_ns = self._sender.send_all, self._ring, self._now_ns
        while self._next < stop or any(len(one) < self.batch_count for one in self._received):
            at_once = 0
            while self._next < stop and at_once < self._at_once:
                data_type, key, data = ring[self._next % len(ring)]
                if not send(self._type, data_type, data, now_ns, key=key):
                    break
                self._next += 1
                at_once += 1
            now_ns += 1000
            self._deliver()
            self._sender.take_events()
        self._now_ns = now_ns
        self.sent_count += self.batch_count
        start = (self._next - self.batch_count) % len(ring)
        expected = self._expected[start : start + self.batch_count]
        expected += self._expected[: self.batch_count - len(expected)]
        for received in self._received:
            if received != expected:
                raise AssertionError("not all messages came, in order")
            received.clear()

    def _deliver(self) -> None:
        bursts = self._sender.take_bursts()
        source, now_ns = self._places[0], self._now_ns
        self.datagram_count += sum(len(datagrams) for _, datagrams in bursts)
        for receiver, place, received in zip(
            self._receivers, self._places[1:], self._received, strict=True
        ):
            for destination, datagrams in bursts:
                if destination in (GROUP, place):
                    is_multicast = destination == GROUP
                    for data in datagrams:
                        receiver.receive(data, source, now_ns, is_multicast=is_multicast)
            for event in receiver.take_events():
                if isinstance(event, RecordsReceived):
                    for _, _, data in event.records:
                        received.append(data)
            self._answers(receiver)

    def _answers(self, receiver: Link) -> None:
        for destination, answers in receiver.take_bursts():
            self.datagram_count += len(answers)
            if destination == self._places[0]:
                for data in answers:
                    self._sender.receive(data, self._places[1], self._now_ns)


# -- real sockets


@dataclass(slots=True)
class SocketNode:
    """A node on real sockets, and how many messages it has received."""

    runtime: SystemRuntime
    count: int = 0


async def on_sockets() -> float:
    """Return the CPU nanoseconds of a message from one node to three others."""
    load = Load((56,))
    ring = load.ring(0)
    contents = [data for _, _, data in ring]
    control, data = _free_ports(2)
    node_type = NodeType(
        multicast_control=f"{GROUP.host}:{control}", multicast_data=f"{GROUP.host}:{data}"
    )
    nodes: list[SocketNode] = []
    sent, stop = 0, 0

    def send_more() -> None:
        nonlocal sent
        send, now_ns = nodes[0].runtime.machine.send_all, monotonic_ns()
        while sent < stop:
            data_type, key, data = ring[sent % len(ring)]
            if not send(node_type.name, data_type, data, now_ns, key=key):
                return
            sent += 1

    def report(number: int, events: Sequence[MachineEvent]) -> None:
        node = nodes[number]
        for event in events:
            if isinstance(event, RecordsReceived):
                for _, _, content in event.records:
                    if content != contents[node.count % len(contents)]:
                        raise AssertionError("a message is not the one that was sent")
                    node.count += 1
            elif isinstance(event, NotFull):
                send_more()

    async def exchange(count: int) -> None:
        nonlocal stop
        stop += count
        send_more()
        nodes[0].runtime.wake()
        while any(node.count < stop for node in nodes[1:]):  # noqa: ASYNC110
            await asyncio.sleep(0.002)

    for number in range(1 + RECEIVER_COUNT):
        config = SystemConfig(
            system="bench",
            name=f"n{number}",
            node_types=NodeTypes([node_type]),
            type_name=node_type.name,
            control=Address(""),
            data=Address(""),
            seed_groups=(Address(GROUP.host, control),),
        )
        runtime = SystemRuntime(
            config,
            SystemNetworkConfig(control="127.0.0.1"),
            rng=Random(number),
            on_events=partial(report, number),
        )
        nodes.append(SocketNode(runtime))
        await runtime.start()
    try:
        end_s = time.monotonic() + 60
        for node in nodes:
            peers = node.runtime.machine.data.peers
            while sum(peer.is_included for peer in peers.values()) < RECEIVER_COUNT:
                if time.monotonic() > end_s:
                    raise AssertionError("the nodes did not form a system")
                await asyncio.sleep(0.01)
        await exchange(SOCKET_WARM_UP_COUNT)
        before_ns = time.process_time_ns()
        await exchange(SOCKET_COUNT)
        return (time.process_time_ns() - before_ns) / SOCKET_COUNT
    finally:
        for node in nodes:
            await node.runtime.close(notice=False)


def _free_ports(count: int) -> list[int]:
    made = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for one in made:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in made]
    for one in made:
        one.close()
    return ports
