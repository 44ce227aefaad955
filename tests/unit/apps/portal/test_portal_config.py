"""Configuration of a portal from the files and the variable of Goby."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skerry.apps.node.portal import NodePortalConfig, portal_of_node
from skerry.apps.portal.config import (
    GobyFields,
    PortalProgramConfig,
    goby_fields,
    read_goby_file,
)
from skerry.errors import ConfigError


def test_the_file_is_before_the_variable(tmp_path: Path) -> None:
    file = tmp_path / "gobyd.pb.cfg"
    file.write_text('router_threads: 2 interprocess { platform: "file" transport: TCP }')
    found = goby_fields(file, {"GOBY_INTERPROCESS": 'platform: "variable" tcp_port: 5'})
    values = {name: value for name, (_, value) in found.values.items()}
    assert values == {
        "platform": "file",
        "transport": "tcp",
        "io_threads": 2,
        "listen": "*",
        "tcp_port": 5,
    }
    assert found.values["tcp_port"][0] == "environment GOBY_INTERPROCESS"
    assert found.values["platform"][0] == f"file {file}"
    assert goby_fields(None, {}) == GobyFields(values={})


def test_a_file_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_goby_file(file)


def test_the_address_of_the_pages_is_checked() -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        PortalProgramConfig(metrics="here")


def test_a_node_has_no_portal_by_default(tmp_path: Path) -> None:
    server: Any = None
    assert portal_of_node(NodePortalConfig(), tmp_path, server) is None
