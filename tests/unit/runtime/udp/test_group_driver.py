"""The driver of a distributor connection, on the loopback interface."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from skerry.errors import ConnectFailed
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.events import CommunicationFailed, Delivered, Direction
from skerry.protocol.machine import Address
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.udp.group_driver import GroupDriver, host_name
from skerry.runtime.udp.multicast import MulticastSocket

Join = Callable[..., GroupDriver]


@pytest.fixture
def group() -> Address:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return Address("239.255.77.9", probe.getsockname()[1])


@pytest.fixture
def join(group: Address) -> Iterator[Join]:
    made: list[GroupDriver] = []

    def joined(**options: Any) -> GroupDriver:
        config = DistributorConfig(interface="127.0.0.1", ttl=0)
        made.append(GroupDriver(group, config, rng=Random(len(made)), **options))
        return made[-1]

    yield joined
    for driver in made:
        driver.close()


def publish(driver: GroupDriver, data: bytes) -> None:
    driver.machine.publish("/a", data, monotonic_ns())
    driver.send_ready()


def received(driver: GroupDriver) -> list[bytes]:
    while select.select([driver.socket], [], [], 0.1)[0]:
        driver.read(monotonic_ns())
    events = driver.machine.take_events()
    return [data for e in events if isinstance(e, Delivered) for _, data in e.updates]


def test_datagrams_of_one_driver_are_read_by_another(join: Join) -> None:
    sender, receiver = join(), join()
    receiver.machine.subscribe("/...", None, monotonic_ns())
    sender.machine.open_publisher(monotonic_ns())
    for number in range(3):
        publish(sender, b"%d" % number)
    assert received(receiver) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("hears_own", [True, False])
def test_own_data_is_dropped_unless_it_is_wanted(join: Join, hears_own: bool) -> None:
    driver = join(hears_own=hears_own)
    driver.machine.subscribe("/...", None, monotonic_ns())
    driver.filter_data(is_wanted=True)
    driver.machine.open_publisher(monotonic_ns())
    publish(driver, b"own")
    assert received(driver) == ([b"own"] if hears_own else [])


def test_data_without_subscriber_is_not_received(join: Join) -> None:
    sender, receiver = join(), join()
    receiver.filter_data(is_wanted=False)
    sender.machine.open_publisher(monotonic_ns())
    publish(sender, b"1")
    assert received(receiver) == []
    assert receiver.machine.statistics().received_datagram_count == 0


class Broken(MulticastSocket):
    """A socket that neither sends nor receives."""

    def send_all(self, datagrams: list[bytes]) -> None:
        raise OSError(101, "Network is unreachable")

    def receive(self) -> tuple[bytes, int, Address]:
        raise OSError(5, "Input/output error")


def test_each_socket_error_is_reported_once_until_it_recovers(join: Join) -> None:
    driver = join()
    woken: list[bool] = []
    driver.wake = lambda: woken.append(True)
    usual = driver.socket
    driver.machine.open_publisher(monotonic_ns())
    driver.socket = Broken(driver.group, interface="127.0.0.1")
    for _ in range(2):
        publish(driver, b"1")
        driver.read(monotonic_ns())
    driver.socket.close()
    driver.socket = usual
    publish(driver, b"2")
    failed = [e for e in driver.machine.take_events() if isinstance(e, CommunicationFailed)]
    assert [(e.direction, e.reason) for e in failed] == [
        (Direction.SEND, "Network is unreachable"),
        (Direction.RECEIVE, "Input/output error"),
    ]
    assert len(woken) == 2


def test_failure_to_join_leaves_nothing_open(group: Address) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", group.port))
        with pytest.raises(ConnectFailed):
            GroupDriver(group, DistributorConfig(interface="127.0.0.1"), rng=Random(1))


def test_closed_driver_sends_nothing(join: Join) -> None:
    driver = join()
    driver.machine.open_publisher(monotonic_ns())
    driver.close()
    publish(driver, b"1")
    driver.filter_data(is_wanted=False)
    assert driver.is_closed


def test_host_name_fits_its_limit() -> None:
    assert host_name(3) == socket.gethostname().encode("ascii", "ignore")[:3].decode()
    assert host_name(0) == ""
