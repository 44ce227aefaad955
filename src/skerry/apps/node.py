"""The node as a program: a core, its sockets, and an orderly end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

from skerry.engine.node import NodeCore
from skerry.errors import ConnectFailed
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.endpoints import Endpoint, parse_endpoint
from skerry.runtime.streams import NodeServer

__all__ = ["DEFAULT_ENDPOINTS", "run_node"]

DEFAULT_ENDPOINTS = ("tcp://127.0.0.1:11235", "tcp-v1://127.0.0.1:11234")


async def run_node(
    *, name: str, endpoints: Sequence[Endpoint], tell: Callable[[str], None]
) -> None:
    """Run until SIGINT or SIGTERM. Without endpoints, at the usual places of this computer.

    A usual place that is taken is passed over with a word; a named one is ConnectFailed.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    core = NodeCore(name=name, wall_offset_ns=wall_ns() - monotonic_ns())
    server = NodeServer(core)
    try:
        places = await _listen(server, endpoints, tell)
        tell(f"node {name} listens at {', '.join(places)}")
        await stop.wait()
    finally:
        await server.close()
    tell(f"node {name} ends")


async def _listen(
    server: NodeServer, endpoints: Sequence[Endpoint], tell: Callable[[str], None]
) -> list[str]:
    if endpoints:
        return [await server.listen(endpoint) for endpoint in endpoints]
    places: list[str] = []
    for text in DEFAULT_ENDPOINTS:
        try:
            places.append(await server.listen(parse_endpoint(text)))
        except ConnectFailed as error:
            tell(f"{error}; passed over")
    if not places:
        raise ConnectFailed("every usual place to listen at is taken; name another with --listen")
    return places
