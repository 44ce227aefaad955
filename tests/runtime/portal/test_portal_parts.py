"""The parts of a portal and of its clients, each on real sockets."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click
import pytest
from click.testing import CliRunner

from skerry.apps.portal.config import PortalProgramConfig
from skerry.apps.portal.pages import portal_pages
from skerry.apps.portal.program import run_portal
from skerry.cli.portal.options import client_config, connect_or_fail, portal_options
from skerry.client.portal.aio import AsyncPortalConnection
from skerry.client.portal.portal_link import PortalLink, config_of
from skerry.client.portal.publications import PortalPublication
from skerry.client.portal.responder import ProgramResponder, publish_as
from skerry.client.portal.sync import PortalConnection, open_portal
from skerry.errors import ConnectFailed
from skerry.protocol.portal.config import PortalClientConfig
from skerry.protocol.portal.programs.program_messages import (
    HEALTH_REQUEST,
    HEALTH_RESPONSE,
    HealthState,
    read_process_health,
)
from tests.runtime.portal.portal_sockets import PATIENCE_S, place, served, until


def test_the_pages_say_whether_the_portal_is_ready() -> None:
    async def run(fields: dict[str, Any]) -> None:
        async with served(fields, required_clients=("pilot",)) as service:
            pages = portal_pages(service)
            assert pages["/healthz"]().status == 200
            await until(lambda: b"hold waits for pilot\n" in pages["/readyz"]().body, "the page")
            assert pages["/readyz"]().status == 503
            assert b"skerry_portal_is_held 1.0" in pages["/metrics"]().body
            assert json.loads(pages["/status.json"]().body)["missing"] == ["pilot"]
            async with AsyncPortalConnection(
                PortalLink(config_of(None, "pilot", fields), None)
            ) as pilot:
                pilot.ready()
                await pilot.wait_open(PATIENCE_S)
                assert pages["/readyz"]().status == 200

    with place("ipc") as fields:
        asyncio.run(run(fields))


def test_a_portal_does_not_start_where_another_one_runs() -> None:
    async def run(fields: dict[str, Any]) -> None:
        async with served(fields):
            with pytest.raises(ConnectFailed, match="another broker"):
                await run_portal(PortalProgramConfig(**fields), report=print)

    with place("ipc") as fields:
        asyncio.run(run(fields))


def test_a_program_answers_about_its_health() -> None:
    async def run(fields: dict[str, Any]) -> None:
        async with served(fields):
            link = PortalLink(config_of(PortalClientConfig(**fields), "pilot", {}), None)
            async with AsyncPortalConnection(link) as pilot:
                found: list[PortalPublication] = []
                topic = HEALTH_RESPONSE
                pilot.subscribe(found.append, topic.group, 1, topic.type_name)
                ProgramResponder(pilot, health=lambda: (HealthState.OK, "fine"), terminate=None)
                pilot.ready()
                await pilot.wait_open(PATIENCE_S)
                await pilot.settle(PATIENCE_S)
                publish_as(pilot, HEALTH_REQUEST, b"")
                await until(lambda: len(found) == 2, "the answers of portal and program")
                names = {read_process_health(one.payload).name for one in found}
                assert names == {"gobyd", "pilot"}

    with place("ipc") as fields:
        asyncio.run(run(fields))


def test_the_options_name_a_portal(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: dict[str, Any] = {}

    @click.command()
    @portal_options
    def command(**given: Any) -> None:
        chosen.update(given["chosen"])

    monkeypatch.setenv("GOBY_INTERPROCESS", 'platform: "auv" tcp_port: 5')
    CliRunner().invoke(command, ["--transport", "tcp", "--tcp-port", "7"], catch_exceptions=False)
    assert chosen == {"transport": "tcp", "tcp_port": 7}
    config = client_config(chosen)
    assert (config.platform, config.tcp_port) == ("auv", 7)


def test_a_command_connects_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skerry.cli.portal.options._WAIT_S", 0.2)
    with place("ipc") as fields:
        chosen = {"socket_name": fields["socket_name"]}
        with pytest.raises(ConnectFailed, match="cannot be used"):
            connect_or_fail("tool", chosen)
        with open_portal("tool", **chosen) as connection:
            assert isinstance(connection, PortalConnection)
            assert not connection.is_open
