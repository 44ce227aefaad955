"""A real node for tests of what talks to one: on a Unix socket, in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from skerry.engine.node import NodeCore
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import NodeServer


class LiveNode:
    """A node that can be stopped and started again at its place."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._server: NodeServer | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def start(self) -> None:
        self._do(self._start())

    def stop(self) -> None:
        self._do(self._stop())

    def end(self) -> None:
        try:
            self.stop()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        core = NodeCore(name="harbour", wall_offset_ns=wall_ns() - monotonic_ns())
        self._server = NodeServer(core)
        self.place = await self._server.listen(parse_endpoint(self.place))

    async def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.close()


@pytest.fixture
def live_node(tmp_path: Path) -> Iterator[LiveNode]:
    """A running node, named harbour."""
    node = LiveNode(f"uds:{tmp_path}/live.sock")
    try:
        node.start()
        yield node
    finally:
        node.end()
