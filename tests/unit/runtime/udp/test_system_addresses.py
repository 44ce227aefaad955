"""Where a node is reached."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.errors import ConfigError
from skerry.protocol.rtps.entities import Channel
from skerry.runtime.udp.system_addresses import (
    NODE_INDEX_COUNT,
    LocalAddress,
    SystemNetworkConfig,
    find_local_address,
    split_address,
    unicast_port,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ("", 0)),
        ("eth0", ("eth0", 0)),
        ("192.168.1.*:26660", ("192.168.1.*", 26660)),
        ("[fd00::5]:1", ("fd00::5", 1)),
        ("[fd00::5]", ("fd00::5", 0)),
        ("fd00::5", ("fd00::5", 0)),
    ],
)
def test_host_and_port_are_split(text: str, found: tuple[str, int]) -> None:
    assert split_address(text, key="control") == found


@pytest.mark.parametrize("text", ["eth0:x", "eth0:0", "eth0:65536", "[fd00::5", "[fd00::5]1"])
def test_a_malformed_address_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ConfigError, match="control") as refused:
        split_address(text, key="control")
    assert "write 192.168.1.5" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("key", "value"),
    [("domain", -1), ("domain", 232), ("interface_timeout_s", -1), ("socket_buffer_bytes", 1)],
)
def test_a_value_outside_its_range_is_refused(key: str, value: int) -> None:
    fields: dict[str, Any] = {key: value}
    with pytest.raises(ValueError, match=f"{key} = {value}"):
        SystemNetworkConfig(**fields)


def test_the_ports_of_all_nodes_of_a_domain_differ_and_are_valid() -> None:
    nodes = [(channel, index) for channel in Channel for index in range(NODE_INDEX_COUNT)]
    for domain in (0, 77, 231):
        ports = {unicast_port(domain, *node) for node in nodes}
        assert len(ports) == len(nodes)
        assert max(ports) < 1 << 16
    assert unicast_port(0, Channel.CONTROL, 0) == 7410


def test_loopback_is_found_by_address_and_wild_card() -> None:
    for text in ("127.0.0.1:5", "127.0.0.*:5"):
        found = find_local_address(text, key="control", is_v6=False)
        assert isinstance(found, LocalAddress)
        assert (found.host, found.port, found.interface.name) == ("127.0.0.1", 5, "lo")


def test_an_address_of_another_computer_is_refused_with_the_own_ones() -> None:
    with pytest.raises(ConfigError, match=r"198\.51\.100\.\*") as refused:
        find_local_address("198.51.100.*", key="control", is_v6=False)
    assert "127.0.0.1" in (refused.value.hint or "")


def test_versions_are_not_mixed() -> None:
    with pytest.raises(ConfigError, match="not mixed"):
        find_local_address("127.0.0.1", key="data", is_v6=True)
