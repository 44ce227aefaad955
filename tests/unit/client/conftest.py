"""A real node on loopback, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from skerry.engine.node import NodeCore
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.endpoints import parse_endpoint
from skerry.runtime.streams import NodeServer


@pytest.fixture
def node() -> Iterator[str]:
    """Where the node is."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def do(work: object) -> object:
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)  # type: ignore[arg-type]

    server = NodeServer(NodeCore(wall_offset_ns=wall_ns() - monotonic_ns()))
    try:
        yield str(do(server.listen(parse_endpoint("tcp://127.0.0.1:0"))))
        do(server.close())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
