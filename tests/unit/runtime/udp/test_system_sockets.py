"""The sockets of both channels of a node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from skerry.errors import ConnectFailed
from skerry.protocol.node_types import NodeTypes
from skerry.protocol.rtps.entities import Channel
from skerry.runtime.udp.system_addresses import SystemNetworkConfig, unicast_port
from skerry.runtime.udp.system_sockets import SocketStatistics, SystemSockets
from tests.runtime.system_nodes import free_port, multicast_type


def opened(**fields: str) -> SystemSockets:
    node_type = multicast_type()
    given: dict[str, Any] = {"control": "127.0.0.1", **fields}
    network = SystemNetworkConfig(**given)
    return SystemSockets(network, NodeTypes([node_type]), node_type)


@pytest.fixture
def sockets() -> Iterator[SystemSockets]:
    made = opened()
    yield made
    made.close()


def test_nodes_of_one_computer_find_ports_of_their_own(sockets: SystemSockets) -> None:
    other = opened()
    try:
        ports = {one.address(channel).port for one in (sockets, other) for channel in Channel}
    finally:
        other.close()
    assert len(ports) == 4
    known = {unicast_port(77, channel, index) for channel in Channel for index in range(120)}
    assert ports <= known


def test_a_given_port_that_is_taken_is_refused(sockets: SystemSockets) -> None:
    port = sockets.address(Channel.CONTROL).port
    with pytest.raises(ConnectFailed, match=str(port)):
        opened(control=f"127.0.0.1:{port}", data=f"127.0.0.1:{free_port()}")


def test_loopback_has_room_for_large_datagrams(sockets: SystemSockets) -> None:
    assert sockets.loopback_bytes == sockets.mtu(Channel.DATA) - 48
    one = sockets._channels[Channel.DATA]
    one.interface = replace(one.interface, is_loopback=False)
    assert sockets.loopback_bytes == 0


def test_counters_begin_at_zero(sockets: SystemSockets) -> None:
    found = sockets.statistics()
    assert isinstance(found, SocketStatistics)
    assert (found.unsent_count, found.waiting_bytes, found.reopened_count) == (0, 0, 0)
