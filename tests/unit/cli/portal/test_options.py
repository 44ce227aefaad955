"""The options that name a portal."""

from __future__ import annotations

from typing import Any

import click
import pytest

from skerry.cli.portal.options import client_config, portal_options, unusable
from skerry.errors import RequestTimedOut


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOBY_INTERPROCESS", raising=False)


def test_options_become_fields_of_the_configuration() -> None:
    found: list[dict[str, Any]] = []

    @click.command()
    @portal_options
    def command(*, chosen: dict[str, Any]) -> None:
        found.append(chosen)

    command.main(["--platform", "auv", "--tcp-port", "4711"], standalone_mode=False)
    assert found == [{"platform": "auv", "tcp_port": 4711}]
    assert client_config(found[0]).platform == "auv"


def test_the_environment_gives_what_the_options_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOBY_INTERPROCESS", 'platform: "usv" transport: TCP tcp_port: 4000')
    config = client_config({"tcp_port": 4711})
    assert (config.platform, config.transport, config.tcp_port) == ("usv", "tcp", 4711)


def test_a_wrong_value_is_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match="shorter socket_name"):
        client_config({"socket_name": "/" + "x" * 200})


def test_a_portal_that_does_not_answer_is_unreachable() -> None:
    error = unusable(client_config({"platform": "auv"}), RequestTimedOut("timed out"))
    assert "auv.manager cannot be used: timed out" in str(error)
    assert error.hint
