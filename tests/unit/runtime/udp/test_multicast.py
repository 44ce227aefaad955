"""Sockets in a multicast group, on the loopback interface."""

from __future__ import annotations

import errno
import logging
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skerry.errors import ConnectFailed, LimitExceeded
from skerry.protocol.machine import Address
from skerry.runtime.udp import multicast
from skerry.runtime.udp.datagrams import Buffer
from skerry.runtime.udp.multicast import MulticastSocket, SenderNumber
from tests.segments import split_segments

Join = Callable[..., MulticastSocket]


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def join() -> Iterator[Join]:
    """Sockets in groups, closed at the end."""
    made: list[MulticastSocket] = []
    port = free_port()

    def joined(host: str = "239.255.77.1", **options: Any) -> MulticastSocket:
        options = {"interface": "127.0.0.1", "ttl": 0, **options}
        made.append(MulticastSocket(Address(host, options.pop("port", port)), **options))
        return made[-1]

    yield joined
    for one in made:
        one.close()


def received(made: MulticastSocket) -> list[bytes]:
    found: list[bytes] = []
    while select.select([made], [], [], 0.05)[0]:
        data, size, source = made.receive()
        assert source.host == "127.0.0.1"
        found += split_segments(data, size)
    return found


MIXED = [b"x" * 500] * 5 + [b"y" * 10, b"z", b"x" * 500]


@pytest.mark.parametrize("sends", [True, False])
@pytest.mark.parametrize("receives", [True, False])
def test_all_members_receive_all_datagrams_with_and_without_segmentation(
    join: Join, sends: bool, receives: bool
) -> None:
    sender, receiver, other = join(trains=sends), join(trains=receives), join()
    assert sends or not sender.sends_trains
    assert receives or not receiver.receives_trains
    sender.send_all(MIXED)
    assert received(receiver) == MIXED
    assert received(other) == MIXED
    # The sender is a member of the group, too.
    assert received(sender) == MIXED


def test_ttl_and_loopback_are_set(join: Join) -> None:
    # The loopback interface returns all datagrams, so the option of the socket is read instead.
    made = join(loopback=False, ttl=7)._sending
    assert made.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP) == 0
    assert made.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL) == 7
    assert join()._sending.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP) == 1


def test_each_sender_has_its_own_port(join: Join) -> None:
    one, other, receiver = join(), join(), join()
    ports = set()
    for sender in (one, other):
        sender.send_all([b"x"])
        assert select.select([receiver], [], [], 5)[0]
        ports.add(receiver.receive()[2].port)
    assert len(ports | {receiver.group.port}) == 3


def test_other_groups_on_the_same_port_are_not_received(join: Join) -> None:
    here, there = join("239.255.77.1"), join("239.255.77.2")
    there.send_all([b"there"])
    assert received(here) == []
    assert received(there) == [b"there"]


def test_receive_without_datagrams_raises(join: Join) -> None:
    with pytest.raises(BlockingIOError):
        join().receive()
    with pytest.raises(BlockingIOError):
        join(trains=False).receive()


def test_without_segmentation_datagrams_are_sent_one_by_one(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, receiver = join(), join()
    if not sender.sends_trains:
        pytest.skip("this kernel has no trains")
    # What the kernel says of datagrams that are larger than the way allows.
    monkeypatch.setattr(multicast, "segment_option", lambda _: [(socket.IPPROTO_UDP, 103, b"")])
    sender.send_all(MIXED)
    assert received(receiver) == MIXED
    assert not sender.sends_trains


def test_failed_datagram_raises_and_the_others_are_sent(join: Join) -> None:
    sender, receiver = join(trains=False), join()
    with pytest.raises(OSError, match="too long") as caught:
        sender.send_all([b"a", bytes(70_000), b"b"])
    assert caught.value.errno == errno.EMSGSIZE
    assert received(receiver) == [b"a", b"b"]


def test_kinds_can_be_filtered(join: Join) -> None:
    sender, receiver = join(), join()
    assert receiver.drop_kinds(1, 2)
    sender.send_all([b"\1\0\1", b"\1\0\2", b"\1\0\3"])
    assert received(receiver) == [b"\1\0\3"]
    receiver.drop_kinds()
    sender.send_all([b"\1\0\1"])
    assert received(receiver) == [b"\1\0\1"]


def test_datagrams_dropped_by_a_full_buffer_are_counted(join: Join) -> None:
    sender, receiver = join(), join(buffer_bytes=5000)
    assert receiver.drop_count == 0
    for _ in range(50):
        sender.send_all([bytes(1000)])
    assert receiver.drop_count == 50 - len(received(receiver))
    assert receiver.drop_count


@pytest.mark.parametrize("trains", [True, False])
def test_filtered_datagrams_do_not_count_as_dropped(join: Join, trains: bool) -> None:
    receiver = join(trains=trains, buffer_bytes=100_000)
    other = join(trains=trains)
    own, others = b"\x0a\0\0\1" * 3, b"\x0a\0\0\2" * 3
    receiver.drop_kinds(1, 2)
    other.send_all([b"\1\0\1\5" + others + bytes(100)] * 10)
    assert receiver.drop_count == 0
    receiver.drop_kinds(1, 2, sender=own)
    for _ in range(5):
        receiver.send_all([b"\1\0\1\5" + own + bytes(100)] * 10)
    receiver.send_all([b"\1\0\3\5" + own + bytes(100)])
    other.send_all([b"\1\0\1\5" + others + bytes(100)])
    assert len(received(receiver)) == 2
    assert receiver.drop_count == 0
    # What has no room still counts.
    for _ in range(50):
        other.send_all([b"\1\0\1\5" + others + bytes(7000)])
        receiver.send_all([b"\1\0\1\5" + own + bytes(7000)])
    dropped = 50 - len(received(receiver))
    assert receiver.drop_count == dropped > 0
    receiver.drop_kinds()
    assert receiver.drop_count == dropped


def test_an_ipv6_group_on_the_loopback_interface_is_refused_with_a_hint(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    for host, interface, hint in (
        ("ff15::7:1", "lo", "IPv4 group"),
        ("239.255.77.1", "127.0.0.1", "ip route add 224.0.0.0/4"),
    ):
        with pytest.raises(ConnectFailed) as failure:
            join(host, interface=interface)
        assert hint in (failure.value.hint or "")


def test_clipped_buffer_gives_a_warning_with_the_setting(
    join: Join, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    small = Buffer(asked_bytes=9, bytes=5, sysctl="net.core.rmem_max")
    monkeypatch.setattr(multicast, "set_buffers", lambda *_: (small, small))
    with caplog.at_level(logging.WARNING):
        join()
    (record,) = caplog.records
    assert record.__dict__["hint"] == "sysctl -w net.core.rmem_max=9"


def test_port_in_exclusive_use_is_reported(join: Join) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", 0))
        with pytest.raises(ConnectFailed, match="cannot join") as caught:
            join(port=other.getsockname()[1])
    assert caught.value.hint is not None


def test_size_of_datagrams_fits_the_mtu(join: Join) -> None:
    made = join()
    assert made.datagram_bytes_max == made.interface.mtu - 28


def test_numbers_of_senders_differ_and_are_free_again() -> None:
    first = SenderNumber(61_234)
    second = SenderNumber(61_234)
    assert 61_234 <= first.value < second.value
    first.close()
    again = SenderNumber(first.value)
    assert again.value == first.value
    second.close()
    again.close()


def test_no_free_number_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = SenderNumber(65_535)
        try:
            with pytest.raises(LimitExceeded):
                SenderNumber(65_535)
        finally:
            number.close()
