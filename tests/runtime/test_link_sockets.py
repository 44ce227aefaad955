"""Tests of group-communication about sockets, on real UDP sockets on loopback."""

from __future__ import annotations

import asyncio
import select
import socket
import time
from collections import deque
from collections.abc import Iterator

import pytest

from skerry.engine.system.system_core import Received
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.direct_link import DirectConfig, DirectLink
from skerry.protocol.link.events import RecordsReceived
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeTypes
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.udp.channel_sockets import ChannelSockets
from skerry.runtime.udp.interfaces import find_interface
from tests.runtime.system_nodes import SystemNode, free_port, multicast_type, until

HOST = "239.255.77.32"


def opened(group: Address, buffer_bytes: int = 1 << 20) -> ChannelSockets:
    return ChannelSockets(
        Address("127.0.0.1", 0),
        find_interface("127.0.0.1", group=HOST, port=1, key="control"),
        groups=[group],
        ttls={group: 1},
        buffer_bytes=buffer_bytes,
        now_ns=0,
    )


@pytest.fixture
def five() -> Iterator[list[ChannelSockets]]:
    """Five channels that share one multicast port."""
    group = Address(HOST, free_port())
    made = [opened(group) for _ in range(5)]
    yield made
    for one in made:
        one.close()


def received(channel: ChannelSockets, count: int, timeout_s: float = 10.0) -> list[Received]:
    """The next datagrams, up to so many."""
    into: deque[Received] = deque()
    end_s = time.monotonic() + timeout_s
    while len(into) < count and time.monotonic() < end_s:
        ready, _, _ = select.select([made for made, _ in channel.sockets()], [], [], 0.02)
        for made, destination in channel.sockets():
            if made in ready:
                channel.read(made, destination, into, 0)
    return list(into)


def test_gc_1_2_an_icmp_answer_to_an_earlier_datagram_fails_no_later_one(
    five: list[ChannelSockets],
) -> None:
    sender, live = five[:2]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind(("127.0.0.1", 0))
        dead = Address("127.0.0.1", closed.getsockname()[1])
    found: list[bytes] = []
    for number in range(1000):
        sender.send([b"to nobody"], dead, 0)
        sender.send([b"%d" % number], live.address, 0)
        if number % 100 == 99:  # before the receive buffer is full
            found += [data for data, _, _ in received(live, 100)]
    assert found == [b"%d" % number for number in range(1000)]
    live.send([b"answer"], sender.address, 0)
    assert [data for data, _, _ in received(sender, 1)] == [b"answer"], "it can still receive"


def test_gc_1_3_an_answer_to_a_multicast_request_reaches_only_its_sender(
    five: list[ChannelSockets],
) -> None:
    asking, *others = five
    (group,) = [destination for _, destination in asking.sockets()[1:]]
    asking.send([b"who?"], group, 0)
    for number, one in enumerate(others):
        ((data, source, destination),) = received(one, 1)
        assert (data, source, destination) == (b"who?", asking.address, group)
        one.send([b"%d" % number], source, 0)
    answers = received(asking, 4)
    assert sorted(data for data, _, _ in answers) == [b"0", b"1", b"2", b"3"]
    assert {source for _, source, _ in answers} == {one.address for one in others}
    for one in others:
        assert received(one, 1, timeout_s=0.05) == []


class _Ends:
    """Two programs without membership, on real sockets."""

    def __init__(self, buffer_bytes: int, config: DirectConfig) -> None:
        group = Address(HOST, free_port())
        self.sockets = [opened(group, buffer_bytes) for _ in range(2)]
        now_ns = monotonic_ns()
        self.links = [
            DirectLink(node=number, now_ns=now_ns, config=config) for number in (100, 101)
        ]
        self.links[0].contact(101, self.sockets[1].address)
        self.received: list[bytes] = []

    def turn(self) -> None:
        """Do what there is to do, and wait for a little while if that is nothing."""
        made = [one for channel in self.sockets for one, _ in channel.sockets()]
        ready, _, _ = select.select(made, [], [], 0.002)
        for channel, link in zip(self.sockets, self.links, strict=True):
            into: deque[Received] = deque()
            for one, destination in channel.sockets():
                if one in ready:
                    channel.read(one, destination, into, 0)
            now_ns = monotonic_ns()
            for data, source, _ in into:
                link.receive(data, source, now_ns)
            link.advance(now_ns)
            for event in link.take_events():
                assert isinstance(event, RecordsReceived)
                self.received += [data for _, _, data in event.records]
            for destination, datagrams in link.take_bursts():
                channel.send(datagrams, destination, now_ns)
                if channel.is_waiting:
                    channel.send_pending()

    def close(self) -> None:
        for channel in self.sockets:
            channel.close()


@pytest.mark.slow
@pytest.mark.parametrize("buffer_bytes", [1 << 20, 8192], ids=["sized buffers", "8 KiB"])
def test_gc_9_1_messages_of_30000_bytes_in_fragments_of_8192(buffer_bytes: int) -> None:
    """The four fragments of a message leave at once. With sized buffers nothing is sent again: only
    what is lost is, since the timeouts are longer than a busy computer is late."""
    is_sized = buffer_bytes > 30_000
    ends = _Ends(
        buffer_bytes,
        DirectConfig(
            link=LinkConfig(datagram_bytes=8192 + 128),
            retry_timeouts_ms=(5000,) if is_sized else (20, 80),
        ),
    )
    try:
        end_ns = monotonic_ns() + 60_000_000_000
        sent = [bytes([number]) * 30_000 for number in range(100 if is_sized else 10)]
        for number, data in enumerate(sent, 1):
            assert ends.links[0].send_to(101, 7, data, monotonic_ns())
            while len(ends.received) < number:
                assert monotonic_ns() < end_ns, f"{len(ends.received)} messages have arrived"
                ends.turn()
        assert ends.received == sent
        (row,) = ends.links[0].statistics().peers
        drops = ends.sockets[1].drop_count()
        assert (row.retransmission_count, drops) == (0, 0) or not is_sized
    finally:
        ends.close()


@pytest.mark.slow
def test_gc_11_4_a_handler_that_blocks_for_two_seconds_does_not_fill_the_receive_buffer() -> None:
    """A thread drains the sockets in place of the loop that is blocked."""

    async def main() -> None:
        node_type = multicast_type(group="239.255.77.33")
        node = SystemNode("a", NodeTypes([node_type]), network={"socket_buffer_bytes": 65_536})
        await node.runtime.start()
        try:
            data = node.runtime.machine.config.data
            count = 0
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
                end_ns = monotonic_ns() + 2_000_000_000
                # The loop does not turn in these two seconds: this is a handler that blocks.
                while monotonic_ns() < end_ns or count * 1000 <= 2 * 65_536:
                    flood.sendto(bytes(1000), (data.host, data.port))
                    count += 1
                    select.select([], [], [], 0.005)
            statistics = node.runtime.statistics()
            assert count * 1000 > 2 * 65_536, "more than the receive buffer"
            assert statistics.guarded_bytes > 65_536
            assert statistics.kernel_drop_count == 0
            await until(lambda: sum(node.runtime.machine.data.statistics().drops.values()) == count)
        finally:
            await node.runtime.close(notice=False)

    asyncio.run(main())
