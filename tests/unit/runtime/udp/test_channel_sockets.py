"""The sockets of one channel, on loopback."""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Iterator

import pytest

from skerry.engine.system.system_core import Received
from skerry.protocol.machine import Address
from skerry.runtime.udp import channel_sockets
from skerry.runtime.udp.channel_sockets import ChannelSockets
from skerry.runtime.udp.datagrams import Buffer
from skerry.runtime.udp.interfaces import find_interface
from tests.runtime.system_nodes import free_port

HOST = "239.255.77.31"


@pytest.fixture
def group() -> Address:
    return Address(HOST, free_port())


@pytest.fixture
def pair(group: Address) -> Iterator[tuple[ChannelSockets, ChannelSockets]]:
    interface = find_interface("127.0.0.1", group=HOST, port=1, key="control")
    pair = tuple(
        ChannelSockets(
            Address("127.0.0.1", 0),
            interface,
            groups=[group],
            ttls={group: 1},
            buffer_bytes=1 << 20,
            now_ns=0,
        )
        for _ in range(2)
    )
    yield pair  # type: ignore[misc]
    for one in pair:
        one.close()


def received(channel: ChannelSockets, count: int) -> list[Received]:
    """The next datagrams; fails if they do not arrive."""
    into: deque[Received] = deque()
    while len(into) < count:
        made = [one for one, _ in channel.sockets()]
        ready, _, _ = select.select(made, [], [], 10)
        assert ready, f"{len(into)} of {count} datagrams arrived"
        for one, destination in channel.sockets():
            if one in ready:
                channel.read(one, destination, into, 0)
    return list(into)


def test_a_datagram_arrives_with_its_source_and_the_address_it_was_sent_to(
    pair: tuple[ChannelSockets, ChannelSockets], group: Address
) -> None:
    first, second = pair
    first.send([b"to one"], second.address, 0)
    first.send([b"to all"], group, 0)
    assert sorted(received(second, 2)) == [
        (b"to all", first.address, group),
        (b"to one", first.address, second.address),
    ]


def test_a_node_does_not_receive_what_it_sends_to_a_group(
    pair: tuple[ChannelSockets, ChannelSockets], group: Address
) -> None:
    first, second = pair
    first.send([b"own"], group, 0)
    second.send([b"other"], group, 0)
    assert [data for data, _, _ in received(first, 1)] == [b"other"]


def test_what_the_kernel_drops_of_a_node_itself_is_not_counted_as_lost(
    pair: tuple[ChannelSockets, ChannelSockets], group: Address
) -> None:
    first, second = pair
    first.send([b"own"] * 5 + [b"one more"], group, 0)
    second.send([b"other"], group, 0)
    assert len(received(second, 6)) == 6
    assert [data for data, _, _ in received(first, 1)] == [b"other"]
    assert first.drop_count() == second.drop_count() == 0
    assert not select.select([one for one, _ in first.sockets()], [], [], 0)[0]
    first.close()
    assert first.drop_count() == 0


def test_only_addresses_of_this_computer_are_loopback(
    pair: tuple[ChannelSockets, ChannelSockets],
) -> None:
    first, _ = pair
    assert first.is_loopback
    first.address = Address("10.1.2.3", 1)  # which the interface may have as well
    assert not first.is_loopback


def test_many_datagrams_of_one_size_arrive_apart_and_in_order(
    pair: tuple[ChannelSockets, ChannelSockets],
) -> None:
    first, second = pair
    sent = [bytes([number]) * 1200 for number in range(40)]
    first.send([*sent, b"short"], second.address, 0)
    assert [data for data, _, _ in received(second, 41)] == [*sent, b"short"]


def test_what_cannot_be_sent_is_counted_and_logged_once(
    pair: tuple[ChannelSockets, ChannelSockets], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = pair
    for _ in range(3):
        first._usable_ns = 0  # so that the interface is examined each time
        first.send([bytes(70_000)], second.address, 0)
    assert (first.send_error_count, first.dropped_count) == (3, 3)
    (record,) = [one for one in caplog.records if one.message == "datagrams cannot be sent"]
    assert vars(record)["destination"] == second.address.text
    first.send([b"next"], second.address, 0)
    assert [data for data, _, _ in received(second, 1)] == [b"next"]


def test_whole_datagrams_are_sent_and_those_that_do_not_fit_are_dropped(
    pair: tuple[ChannelSockets, ChannelSockets],
) -> None:
    first, second = pair
    # The largest MTU of an interface is 65536 bytes, that of loopback.
    first.send_whole([(second.address, b"x" * 65_508), (second.address, b"small")])
    ((data, _, _),) = received(second, 1)
    assert data == b"small"
    assert first.send_error_count == 0
    first.send([b"y" * 2000], second.address, 0)
    assert len(received(second, 1)[0][0]) == 2000


def test_a_silent_group_is_joined_again(
    pair: tuple[ChannelSockets, ChannelSockets], group: Address
) -> None:
    first, second = pair
    first.check(8_000_000_000)
    assert first.rejoined_count == 1
    second.send([b"after"], group, 0)
    assert [data for data, _, _ in received(first, 1)] == [b"after"]


@pytest.mark.parametrize(("granted_bytes", "count"), [(106_495, 1), (106_496, 0)])
def test_a_small_receive_buffer_is_logged_once_with_what_to_do(
    granted_bytes: int,
    count: int,
    group: Address,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def granted(_made: socket.socket, size: int) -> tuple[Buffer, Buffer]:
        limited = Buffer(asked_bytes=size, bytes=granted_bytes, sysctl="net.core.rmem_max")
        return limited, limited

    monkeypatch.setattr(channel_sockets, "set_buffers", granted)
    channel = ChannelSockets(
        Address("127.0.0.1", 0),
        find_interface("127.0.0.1", group=HOST, port=1, key="control"),
        groups=[group],
        ttls={group: 1},
        buffer_bytes=1 << 20,
        now_ns=0,
    )
    channel.close()
    found = [one for one in caplog.records if "receive buffer is small" in one.message]
    assert len(found) == count, "there are two sockets"
    for one in found:
        assert vars(one)["hint"] == "sysctl -w net.core.rmem_max=1048576"


def test_a_taken_port_is_an_error(pair: tuple[ChannelSockets, ChannelSockets]) -> None:
    first, _ = pair
    with pytest.raises(OSError, match="in use"):
        ChannelSockets(
            first.address, first.interface, groups=[], ttls={}, buffer_bytes=1 << 16, now_ns=0
        )


def test_closed_sockets_are_closed(pair: tuple[ChannelSockets, ChannelSockets]) -> None:
    first, _ = pair
    sending = first.sending
    assert isinstance(sending, socket.socket)
    first.close()
    assert not first.is_open
    assert sending.fileno() == -1
    assert first.sockets() == []
