"""Section `node.peers`: defaults, node types, seeds, and a message for each mistake (FS-58)."""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.apps.node.config import NodeConfig
from skerry.apps.node.peers import (
    NodePeersConfig,
    NodeTypeConfig,
    Seed,
    parse_seed,
    read_black_list,
    system_config,
)
from skerry.config import load, read_sources
from skerry.engine.system.config import Rejoin
from skerry.errors import ConfigError, SkerryError
from skerry.protocol.machine import Address
from skerry.protocol.rtps.entities import Channel


def from_file(tmp_path: Path, text: str) -> NodeConfig:
    file = tmp_path / "skerry.toml"
    file.write_text(text)
    sources = read_sources(sections=("node",), file=file, environ={})
    return load("node", NodeConfig, sources).value


def test_without_configuration_there_is_a_type_for_multicast_and_one_for_unicast() -> None:
    config = NodePeersConfig()
    node, unicast = config.node_types()
    assert config.type_name == node.name == "node"
    assert node.group(Channel.CONTROL) == Address("239.192.77.1", 26650)
    assert node.group(Channel.DATA) == Address("239.192.77.1", 26651)
    assert (unicast.name, unicast.group(Channel.CONTROL)) == ("unicast", None)
    assert config.seed_group_address() == Address("239.192.77.1", 26650)


def test_a_node_with_seeds_is_reached_by_unicast_and_searches_no_group() -> None:
    config = NodePeersConfig(seeds=("server-1", "10.0.0.2:4000"))
    assert config.type_name == "unicast"
    assert config.seed_group_address() is None
    assert config.seed_addresses() == [
        Seed(host="server-1", port=26660),
        Seed(host="10.0.0.2", port=4000),
    ]
    v6 = NodePeersConfig(seeds=("[fd00::5]", "server-1:5"), control="[fd00::6]")
    assert v6.seed_addresses() == [Seed(host="fd00::5", port=26660), Seed(host="server-1", port=5)]
    named = NodePeersConfig(seeds=("server-1",), type="node", seed_group="239.192.77.9:4000")
    assert named.type_name == "node"
    assert named.seed_group_address() == Address("239.192.77.9", 4000)
    assert parse_seed("h:5", port=1) == Seed(host="h", port=5)


def test_the_domain_and_the_version_of_ip_change_the_groups() -> None:
    config = NodePeersConfig(domain=3, control="[fd00::5]")
    (node, _) = config.node_types()
    assert node.group(Channel.CONTROL) == Address("ff18::77:1", 8150)
    assert config.seed_group_address() == Address("ff18::77:1", 8150)


def test_a_file_fills_all_that_a_system_has(tmp_path: Path) -> None:
    black_list = tmp_path / "stopped"
    black_list.write_text("# stopped in May\n00000000000000ff\n\n1a  # and later\n")
    config = from_file(
        tmp_path,
        f"""
        [node]
        name = "bridge"
        system = "harbour"
        [node.peers]
        type = "server"
        control = "192.168.1.*"
        domain = 5
        seeds = ["10.0.0.2"]
        alone_timeout_s = 2.5
        clock_skew_s_max = 5
        rejoin = "manual"
        black_list = "{black_list}"
        [node.peers.link]
        datagram_bytes = 8000
        [[node.peers.types]]
        name = "server"
        heartbeat_interval_ms = 100
        lost_heartbeat_count_max = 3
        retry_timeouts_ms = [10, 40]
        [[node.peers.types]]
        name = "tablet"
        multicast = false
        light = true
        may_form_system = false
        """,
    )
    made = system_config(config.peers, system="harbour", name="bridge", node_id=7)
    server, tablet = made.node_types
    assert (made.system, made.name, made.type_name, made.node_id) == (
        *("harbour", "bridge", "server", 7),
    )
    assert server.dead_timeout_ns == 450_000_000
    assert server.retry_timeouts_ms == (10, 40)
    assert server.multicast_data == "239.192.77.1:8651"
    assert (tablet.light, tablet.multicast_data) == (True, "")
    assert (made.alone_timeout_ns, made.clock_skew_ns_max) == (2_500_000_000, 5_000_000_000)
    assert made.rejoin is Rejoin.MANUAL
    assert made.black_list == {255, 26}
    assert made.link.datagram_bytes == 8000
    assert made.keys is None


def test_a_type_without_multicast_has_no_group() -> None:
    with pytest.raises(ValueError, match="multicast_control is given although multicast = false"):
        NodeTypeConfig(
            name="a", multicast=False, multicast_control="239.1.1.1:5", multicast_data="239.1.1.1:6"
        )


def test_the_interface_of_the_distributor_is_used_where_no_other_is_named(tmp_path: Path) -> None:
    def control(text: str) -> str:
        return from_file(tmp_path, f"[node]\nsystem = 's'\n{text}").effective_peers().control

    assert control("distributor.interface = '127.0.0.1'") == "127.0.0.1"
    assert control("distributor.interface = 'fd00::5'") == "[fd00::5]"
    assert control("distributor.interface = 'lo'\npeers.control = 'eth0:5'") == "eth0:5"
    assert control("") == ""


TABLE = "[[node.peers.types]]\n"
TYPE = f"{TABLE}name = 'a'\n"
V4 = "multicast_control = '239.1.1.1:5'\nmulticast_data = '239.1.1.1:6'\n"
V6 = "multicast_control = '[ff18::1]:5'\nmulticast_data = '[ff18::1]:6'\n"
MISTAKES = {
    "seed_group = '10.0.0.1:5'": "10.0.0.1 is not the address of a multicast group",
    "seed_group = '[ff18::77:1]:5'": "node are IPv4, but the group ff18::77:1 is IPv6",
    f"seed_group = '239.1.1.1:6'\n{TYPE}{V4}": "is the data group of type a",
    "seed_group = '239.1.1.1'": (
        "seed_group (file skerry.toml): '239.1.1.1' is not of the form ADDRESS:PORT"
    ),
    "control = '10.0.0.1:port'": (
        "control (file skerry.toml): 'port' in '10.0.0.1:port' is not a port"
    ),
    "control = '0.0.0.0'": "0.0.0.0 is the address of all interfaces; other nodes need that of one",
    "control = '[::]:26660'": ":: is the address of all interfaces",
    "control = '127.0.0.1'\ndata = '239.1.1.1'": "data (file skerry.toml): 239.1.1.1 is the",
    "control = '255.255.255.255'": "is the address of a group of computers",
    "control = '[::1]'\ndata = '127.0.0.1'": "'127.0.0.1' mix IPv4 and IPv6",
    "data = '[fd00::5'": "data (file skerry.toml): '[fd00::5' is not of the form [ADDRESS]:PORT",
    "domain = 232": "domain = 232 is not between 0 and 231",
    "seeds = ['10.0.0.*']": "(file skerry.toml): '10.0.0.*' is not a host, or a host and a port",
    "seeds = [':5']": "is not a host, or a host and a port",
    "seeds = ['tcp://server-1']": "is not a host, or a host and a port",
    "seeds = ['10.0.0.2', '[fd00::5]']": "node are IPv4, but the seed fd00::5 is IPv6",
    "seeds = ['server-1:99999']": "'99999' in 'server-1:99999' is not a port",
    "type = 'sever'": (
        "node.peers.type (file skerry.toml): there is no type sever; the types are node, unicast"
    ),
    f"type = 'sever'\n{TYPE}": "there is no type sever; the types are a",
    "alone_timeout_s = -1": "alone_timeout_s = -1 is not between 0 and 86400",
    "control = '127.0.0.1:5'\ndata = '127.0.0.1:5'": "control and data are both '127.0.0.1:5'",
    "rejoin = 'never'": "'never' is not",
    "colour = 'red'": "unknown key",
    "[node.peers.link]\ndatagram_bytes = 100": "datagram_bytes = 100 is not between 512 and",
    "types = [1]": "it is not a table",
    f"{TABLE}light = false": "types[0].name (file skerry.toml): it is missing",
    f"{TABLE}name = ''": "name = '' does not have 1 to 100 characters",
    f"{TYPE}{TYPE}": "two types have the name a",
    f"{TYPE}heartbeat_ms = 100": "types[0].heartbeat_ms (file skerry.toml): unknown key",
    f"{TYPE}window_packet_count = 300": "window_packet_count = 300 is not between 1 and 256",
    f"{TYPE}ack_request_threshold = 65": "65 is not between 1 and window_packet_count = 64",
    f"{TYPE}ack_request_threshold = 0": "ack_request_threshold = 0 is not between 1 and",
    f"{TYPE}window_packet_count = 5": "threshold = 32 is not between 1 and window_packet_count = 5",
    f"{TYPE}heartbeat_interval_ms = 0": "heartbeat_interval_ms = 0 is not between 10 and",
    f"{TYPE}heartbeat_interval_ms = 'fast'": "'fast' is not a whole number",
    f"{TYPE}retry_timeouts_ms = []": "retry_timeouts_ms = [] is not a list of one or more times",
    f"{TYPE}light = true": "type a is light, so it may not form a system",
    f"{TYPE}light = true\nmay_form_system = false": "no type may form a system",
    f"{TYPE}multicast_control = '239.1.1.1:5'": "multicast_control and multicast_data are given",
    f"{TYPE}multicast = false\n{V4}": "multicast_control is given although multicast = false",
    f"{TYPE}multicast_control = '10.1.1.1:5'\nmulticast_data = '239.1.1.1:6'": (
        "'10.1.1.1:5' is not a multicast address"
    ),
    f"{TYPE}multicast_control = 'ff18::1:5'\nmulticast_data = 'ff18::1:6'": (
        "'ff18::1:5' is not a group and a port, such as"
    ),
    f"{TYPE}multicast_control = '239.1.1.1:5'\nmulticast_data = '239.1.1.1:5'": (
        "the group 239.1.1.1:5 is used twice: by type a, for both channels"
    ),
    f"{TYPE}{V4}{TABLE}name = 'b'\n{V4}": (
        "types (file skerry.toml): the group 239.1.1.1:5 is used twice: by the types a and b"
    ),
    f"{TYPE}{V6}": "node are IPv4, but the group ff18::1 is IPv6",
    f"{TYPE}{V4}{TABLE}name = 'b'\n{V6}": (
        "239.1.1.1:5 of type a and [ff18::1]:5 of type b mix IPv4 and IPv6"
    ),
}


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text.replace("\n", " "))
def test_fs_58_each_mistake_has_a_message(tmp_path: Path, text: str) -> None:
    with pytest.raises(SkerryError) as caught:
        from_file(tmp_path, f"[node]\nsystem = 's'\n[node.peers]\n{text}")
    message = str(caught.value).replace(f"{tmp_path}/", "")
    assert MISTAKES[text] in message
    assert message.startswith("node.peers")


@pytest.mark.parametrize("text", ["seeds = ['10.0.0.1']", "link.checksum = false"])
def test_peers_need_the_name_of_a_system(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="peers is configured without the name of a system"):
        from_file(tmp_path, f"[node.peers]\n{text}")


def test_the_name_of_a_node_in_a_system_has_a_limit(tmp_path: Path) -> None:
    from_file(tmp_path, f"[node]\nsystem = 's'\nname = '{'x' * 100}'")
    with pytest.raises(ConfigError, match="name has 101 characters; in a system, at most 100"):
        from_file(tmp_path, f"[node]\nsystem = 's'\nname = '{'x' * 101}'")


@pytest.mark.parametrize(
    ("content", "detail"),
    [(None, "No such file"), (b"\xff", "can't decode"), (b"1\nxyz\n", "line 2: 'xyz' is not a")],
)
def test_a_black_list_that_cannot_be_read_is_refused(
    tmp_path: Path, content: bytes | None, detail: str
) -> None:
    file = tmp_path / "list"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=detail):
        read_black_list(str(file))


def test_the_keys_are_those_of_the_group_unless_others_are_named(tmp_path: Path) -> None:
    named, group = str(tmp_path / "named"), str(tmp_path / "group")
    for config, tried in (
        (NodePeersConfig(key_file=named), named),
        (NodePeersConfig(), group),
    ):
        with pytest.raises(ConfigError) as caught:
            system_config(config, system="s", name="n", node_id=1, group_key_file=group)
        assert tried in str(caught.value)
