"""Sockets that join groups, and send to them, on one interface."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from skerry.protocol.machine import Address
from skerry.runtime.udp.group_membership import choose_way, join, rejoin, socket_address
from skerry.runtime.udp.interfaces import Interface

LOOPBACK = Interface(name="lo", index=1, address="127.0.0.1", is_loopback=True)
OWN = Address("127.0.0.1", 0)


@pytest.fixture
def made() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.settimeout(5.0)
        yield made


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("192.0.2.1", ("192.0.2.1", 7)),
        ("2001:db8::1", ("2001:db8::1", 7, 0, 0)),
        ("fe80::1", ("fe80::1", 7, 0, 1)),
        ("ff02::1", ("ff02::1", 7, 0, 1)),
    ],
)
def test_addresses_of_one_interface_name_it(host: str, expected: tuple[object, ...]) -> None:
    assert socket_address(Address(host, 7), LOOPBACK) == expected


def test_a_socket_receives_what_is_sent_to_its_group_on_this_interface(
    made: socket.socket,
) -> None:
    made.bind(("", 0))
    group = Address("239.192.77.9", made.getsockname()[1])
    join(made, group, OWN, LOOPBACK)
    rejoin(made, group, OWN, LOOPBACK)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        choose_way(sender, OWN, LOOPBACK)
        sender.sendto(b"here", socket_address(group, LOOPBACK))
    assert made.recv(100) == b"here"
