"""A mapping between a portal and a node, on real sockets of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from skerry.apps.node.inside_space import open_inside_space
from skerry.apps.portal.log_player import LogPlayback, PlayedEntry, play_log
from skerry.apps.portal.mapper import MapperStatistics, MappingService, PortalMapper, connect_node
from skerry.apps.portal.service import PortalService
from skerry.client.api import aio
from skerry.client.portal.portal_link import PortalLink
from skerry.engine.node import NodeCore
from skerry.protocol.portal.config import PortalClientConfig
from skerry.protocol.portal.mapping.portal_mapping import PortalMapping
from skerry.protocol.portal.mapping.rules import PortalRule
from skerry.recording.goby.entries import GobyLogEntry
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.portal.broker_config import PortalBrokerConfig
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import NodeServer
from tests.unit.protocol.portal.mapping.descriptors import fleet, message

pytestmark = pytest.mark.slow
PATIENCE_S = 30
RULES = (
    PortalRule(
        scheme="PROTOBUF", group="nav", type="fleet.Report", key=("name",), direction="both"
    ),
    PortalRule(scheme="CSTR", direction="both", subject="/text/{group}"),
)


class Site:
    """A node, a portal and a client of it."""

    def __init__(self, folder: Path) -> None:
        self.config = PortalClientConfig(socket_name=str(folder / "p"), client_name="client")
        core = NodeCore(name="harbour", wall_offset_ns=wall_ns() - monotonic_ns())
        self.server = NodeServer(core)
        self.service = PortalService(
            PortalBrokerConfig(socket_name=self.config.socket_name), state_folder=folder
        )
        self.service.ready()
        self.link = PortalLink(self.config, None)
        self.heard: asyncio.Queue[Any] = asyncio.Queue()
        self.link.subscribe(self.heard.put_nowait, "nav", None, None, None, None)
        self.link.subscribe(self.heard.put_nowait, "text", None, None, None, None)
        self.link.set_ready()

    def publish(self, group: str, content: Any) -> None:
        self.link.publish(self.link.frame_of(group, content, None, None))


@asynccontextmanager
async def site(folder: Path) -> AsyncIterator[Site]:
    made = Site(folder)
    try:
        await made.link.wait_open(PATIENCE_S)
        await made.link.settle(PATIENCE_S)
        yield made
    finally:
        await made.link.close(1.0)
        await made.service.close()
        await made.server.close()


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 4 * PATIENCE_S))


def test_a_mapping_passes_publications_and_updates(tmp_path: Path) -> None:
    async def work() -> None:
        async with site(tmp_path) as at:
            space = await open_inside_space(at.server, name="mapping")
            other = await open_inside_space(at.server, name="other")
            mapper = PortalMapper(PortalMapping(RULES, fleet()), space, at.config)
            await mapper.wait_open(PATIENCE_S)
            events: asyncio.Queue[Any] = asyncio.Queue()
            other.subscribe("/fleet_Report/*", events.put_nowait)
            await other.flush()
            at.publish("nav", message("Report", 'name: "a" late: 3'))
            event = await events.get()
            assert (event.object.name, event.object.late) == ("a", 3)
            assert (await at.heard.get()).group == "nav"  # its own, by the router
            at.publish("nav", message("Report", 'name: "a"'))
            assert (await events.get()).object.late is None
            await at.heard.get()
            other.publish("/text/text", b"back")
            assert (await at.heard.get()).payload == b"back\0"
            other.publish(type(event.object)(name="b", late=9))
            assert (await at.heard.get()).message(type(message("Report"))).late == 9
            assert mapper.statistics() == MapperStatistics(
                into_space_count=2,
                into_portal_count=2,
                unmapped_count=0,
                returned_count=2,
                removes_count=0,
                dropped_count=0,
            )
            other.remove(type(event.object)(name="b"))
            await other.flush()
            other.publish("/text/text", b"end")
            await at.heard.get()
            assert mapper.statistics().removes_count == 1
            await mapper.close()
            await space.close()
            await other.close()

    run(work)


def test_what_the_space_refuses_is_dropped_and_counted(tmp_path: Path) -> None:
    async def work() -> None:
        async with site(tmp_path) as at:
            space = await open_inside_space(at.server, name="mapping")
            mapper = PortalMapper(PortalMapping(RULES, fleet()), space, at.config)
            await mapper.wait_open(PATIENCE_S)
            await space.close()
            at.publish("text", "lost")
            await at.heard.get()
            while not mapper.statistics().dropped_count:  # noqa: ASYNC110 - nothing else says so
                await asyncio.sleep(0)
            assert mapper.statistics().dropped_count == 1
            await mapper.close()

    run(work)


def test_a_service_waits_for_its_node_and_reports_its_end(tmp_path: Path) -> None:
    async def work() -> None:
        async with site(tmp_path) as at:
            opened = asyncio.Event()
            spaces: list[aio.AsyncSpace] = []

            async def open_space() -> aio.AsyncSpace:
                await opened.wait()
                spaces.append(await open_inside_space(at.server, name="mapping"))
                return spaces[0]

            service = MappingService(PortalMapping(RULES, fleet()), at.config, open_space)
            assert service.statistics().into_space_count == 0
            assert service.trouble == ""
            opened.set()
            while not service.statistics().into_space_count:
                at.publish("text", "again")
                await at.heard.get()
            await spaces[0].close()
            while not service.trouble:  # noqa: ASYNC110 - nothing else says so
                await asyncio.sleep(0)
            assert "the mapping has ended" in service.trouble
            await service.close()

    run(work)


def test_a_node_is_named_or_the_default(tmp_path: Path) -> None:
    async def work() -> None:
        core = NodeCore(name="harbour", wall_offset_ns=wall_ns() - monotonic_ns())
        server = NodeServer(core)
        waiting = asyncio.create_task(connect_node(f"uds:{tmp_path}/n"))
        await server.listen(parse_endpoint(f"uds:{tmp_path}/n"))
        space = await waiting
        assert space.node_name == "harbour"
        await space.close()
        await server.close()

    run(work)


def test_a_log_is_played_in_order_and_what_a_portal_cannot_have_is_left_out(
    tmp_path: Path,
) -> None:
    def entry(number: int, group: str = "text") -> GobyLogEntry:
        return GobyLogEntry(
            scheme=0, group=group, type_name="CSTR", time_us=number, data=b"%d\0" % number
        )

    async def work() -> None:
        async with site(tmp_path) as at:
            done = await play_log(
                lambda: [entry(1), entry(2, "a/b"), entry(3)],
                at.link,
                is_stopped=lambda: False,
                speed=None,
            )
            assert (done.played, done.rounds, len(done.left_out)) == (2, 1, 1)
            assert [(await at.heard.get()).text() for _ in range(2)] == ["1", "3"]
            stopped = await play_log(
                lambda: [entry(1)], at.link, is_stopped=lambda: True, is_looping=True
            )
            assert stopped == LogPlayback(played=0, rounds=1)
            assert PlayedEntry(entry(5)).time_ns == 5000

    run(work)
