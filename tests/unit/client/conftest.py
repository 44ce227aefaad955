"""A real node on loopback, in a thread of its own, which can be stopped and started again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from skerry.engine.node import NodeCore
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import NodeServer


class RunningNode:
    """A node, where it is, and the thread it runs on."""

    def __init__(self) -> None:
        self.place = "tcp://127.0.0.1:0"
        self.core = NodeCore()
        self._server: NodeServer | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def start(self) -> None:
        """A new life, at the same place."""
        self.do(self._start())

    def stop(self) -> None:
        """End it without messages, as if it was killed; only the streams end."""
        self.do(self._stop())

    def end(self) -> None:
        try:
            self.stop()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        self.core = NodeCore(wall_offset_ns=wall_ns() - monotonic_ns())
        self._server = NodeServer(self.core)
        self.place = await self._server.listen(parse_endpoint(self.place))

    async def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.close()


@pytest.fixture
def running_node() -> Iterator[RunningNode]:
    """A node that a test may stop and start."""
    node = RunningNode()
    try:
        node.start()
        yield node
    finally:
        node.end()


@pytest.fixture
def node(running_node: RunningNode) -> str:
    """Where the node is."""
    return running_node.place
