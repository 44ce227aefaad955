"""Section `node`: valid and invalid values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skerry.apps.node.config import (
    METRICS_ADDRESS,
    NodeConfig,
    NodeRecordingConfig,
    check_queue_bytes,
    split_host_port,
)
from skerry.config import load, read_sources
from skerry.errors import ConfigError
from skerry.limits import RECORDER_QUEUE_BYTES_MAX


def from_file(tmp_path: Path, text: str) -> NodeConfig:
    file = tmp_path / "skerry.toml"
    file.write_text(text)
    sources = read_sources(sections=("node",), file=file, environ={})
    return load("node", NodeConfig, sources).value


def test_nothing_has_to_be_configured() -> None:
    config = NodeConfig()
    assert (config.name, config.listen, config.metrics) == ("skerry", (), METRICS_ADDRESS)
    assert config.socket_bits == 0o600
    assert config.extensions


def test_file_fills_all_that_a_node_has(tmp_path: Path) -> None:
    config = from_file(
        tmp_path,
        """
        [node]
        name = "bridge-1"
        listen = ["tcp://127.0.0.1:4000", "tls://0.0.0.0"]
        extensions = false
        metrics = "off"
        socket_mode = "0660"
        socket_group = "fleet"
        [node.tls]
        cert = "node.pem"
        ca = "clients.pem"
        [node.log]
        level = "warning"
        form = "json"
        [node.storage]
        url = "sqlite:node.db"
        sync = "interval"
        [node.admission.limits]
        handshake_s = 2.5
        [[node.admission.permission]]
        verbs = ["subscribe"]
        subjects = ["Vessel"]
        """,
    )
    assert config.name == "bridge-1"
    assert len(config.listen) == 2
    assert config.socket_bits == 0o660
    assert config.socket_group == "fleet"
    assert (config.tls.cert, config.tls.key) == (Path("node.pem"), None)
    assert (config.log.level, config.log.form) == ("warning", "json")
    assert config.storage.url == "sqlite:node.db"
    assert config.admission.limits.handshake_s == 2.5
    assert config.admission.permission[0].subjects == ("Vessel",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = ""', "name is empty"),
        ('socket_mode = "rw"', "socket_mode is 'rw', not three octal digits"),
        ('socket_mode = "0888"', "socket_mode is '0888', not three octal digits"),
        ('metrics = "11237"', "'11237' is not HOST:PORT such as 127.0.0.1:11237"),
        ('listen = ["htp://ship"]', "there is no scheme 'htp'"),
        ('lisen = ["tcp://ship"]', "unknown key"),
    ],
)
def test_invalid_values_are_rejected_with_a_reason(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_file(tmp_path, f"[node]\n{text}\n")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("ship:0", ("ship", 0)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_host_and_port_are_split(text: str, place: tuple[str, int]) -> None:
    assert split_host_port(text) == place


@pytest.mark.parametrize("text", ["", "ship", ":80", "ship:", "ship:door", "ship:65536", "::1:80"])
def test_text_without_host_and_port_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        split_host_port(text)


@pytest.mark.parametrize("options", [{"socket_mode": "660"}, {"socket_mode": "0660"}])
def test_mode_may_begin_with_a_zero_or_not(options: dict[str, Any]) -> None:
    assert NodeConfig(**options).socket_bits == 0o660


def test_a_system_and_its_group_stand_in_the_file(tmp_path: Path) -> None:
    config = from_file(
        tmp_path,
        """
        [node]
        system = "harbour"
        [node.distributor]
        group = "239.192.7.1:4711"
        interface = "eth1"
        key_file = "keys.toml"
        bandwidth_mbit_max = 2.5
        """,
    )
    assert config.system == "harbour"
    assert config.distributor.group == "239.192.7.1:4711"
    parameters = config.distributor.connection_config(application="bridge-1")
    assert (parameters.interface, parameters.key_file) == ("eth1", "keys.toml")
    assert parameters.bandwidth_bit_max == 2_500_000
    assert parameters.application == "bridge-1"


def test_a_group_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not the address of a multicast group"):
        from_file(tmp_path, '[node.distributor]\ngroup = "10.0.0.1:4711"\n')


def test_a_node_records_nothing_without_a_folder() -> None:
    assert NodeConfig().recording == NodeRecordingConfig()
    assert NodeRecordingConfig().folder == ""


@pytest.mark.parametrize("size", [0, RECORDER_QUEUE_BYTES_MAX + 1])
def test_a_queue_has_a_size(size: int) -> None:
    with pytest.raises(ValueError, match="queue_bytes_max"):
        NodeRecordingConfig(queue_bytes_max=size)
    check_queue_bytes(RECORDER_QUEUE_BYTES_MAX)
