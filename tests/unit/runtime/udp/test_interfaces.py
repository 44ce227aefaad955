"""Network interfaces by name and address, and parsing of groups."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from skerry.errors import ConfigError, ConnectFailed
from skerry.runtime.udp.interfaces import Interface, find_interface, list_interfaces, parse_group

GROUP = "239.255.77.1"


def found(text: str) -> Interface:
    return find_interface(text, group=GROUP, port=4711)


def test_loopback_is_found_by_name_and_by_address() -> None:
    by_name, by_address = found("lo"), found("127.0.0.1")
    assert by_name == by_address
    assert by_name.is_loopback
    assert by_name.is_up
    assert by_name.mtu >= 1500


def test_ipv6_group_needs_an_ipv6_address() -> None:
    interface = find_interface("lo", group="ff15::1", port=4711)
    assert interface.address == "::1"
    assert find_interface("::1", group="ff15::1", port=4711) == interface


def test_every_interface_is_listed_once() -> None:
    names = [interface.name for interface in list_interfaces()]
    assert names == [name for _, name in socket.if_nameindex()]
    assert [i.name for i in list_interfaces(socket.AF_INET6)] == names


def test_further_address_of_an_interface_is_accepted() -> None:
    # All of 127.0.0.0/8 is this computer, and the interface tells only the first.
    assert found("127.0.0.2") == Interface(name="", index=0, address="127.0.0.2")


def test_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="no network interface 'loo'") as caught:
        found("loo")
    assert caught.value.hint is not None
    with pytest.raises(ConfigError, match="no network interface of this computer has"):
        found("203.0.113.7")


def test_without_a_route_an_interface_must_be_named() -> None:
    program = (
        "from skerry.errors import ConnectFailed\n"
        "from skerry.runtime.udp.interfaces import find_interface\n"
        "try: find_interface('', group='239.255.77.1', port=4711)\n"
        "except ConnectFailed as error: print(error, '|', error.hint)\n"
    )
    command = ["unshare", "-Urn", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if "unshare" in done.stderr:
        pytest.skip("this user may not make network namespaces")
    assert "no route to the group 239.255.77.1" in done.stdout
    assert "name an interface" in done.stdout


def test_the_system_chooses_where_no_interface_is_named() -> None:
    try:
        interface = found("")
    except ConnectFailed:
        pytest.skip("this computer has no way for multicast")
    assert interface.address


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("239.192.7.1:4711", ("239.192.7.1", 4711)),
        ("[ff15::7:1]:1", ("ff15::7:1", 1)),
        ("224.0.0.1:65535", ("224.0.0.1", 65535)),
    ],
)
def test_groups_are_parsed(text: str, group: tuple[str, int]) -> None:
    assert parse_group(text) == group


@pytest.mark.parametrize(
    "text",
    ["", "239.192.7.1", "239.192.7.1:", "239.192.7.1:0", "239.192.7.1:65536", "10.0.0.1:4711",
     "ff15::1:4711", "[239.192.7.1]:4711", "[::1]:4711", "nowhere:4711", ":4711"],
)  # fmt: skip
def test_invalid_group_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_group(text)
    assert caught.value.hint is not None
