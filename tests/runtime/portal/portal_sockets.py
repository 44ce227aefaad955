"""Portals on real ZeroMQ sockets of a test: an unused name, or an unused port of loopback."""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

from skerry.aio import portal
from skerry.apps.portal.service import PortalService
from skerry.client.portal.aio import AsyncPortalConnection
from skerry.runtime.portal.broker_config import PortalBrokerConfig

PATIENCE_S = 60.0
"""For what takes milliseconds; the computer may be busy with other things."""
Transport = Literal["ipc", "tcp"]


def free_port() -> int:
    """A TCP port that is not in use now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def place(transport: Transport) -> Any:
    """Fields of PortalConfig for a portal that no other test has."""
    # Not the folder of the test: the path of a Unix socket is short.
    folder = tempfile.mkdtemp(prefix="skerry-portal-")
    try:
        fields: dict[str, Any] = {"transport": transport, "socket_name": f"{folder}/p"}
        if transport == "tcp":
            fields["tcp_port"] = free_port()
        yield fields
    finally:
        shutil.rmtree(folder)


@asynccontextmanager
async def served(fields: dict[str, Any], **more: Any) -> AsyncIterator[PortalService]:
    """A running portal."""
    service = PortalService(PortalBrokerConfig(**fields, **more))
    service.ready()
    try:
        yield service
    finally:
        await service.close()


async def client(fields: dict[str, Any], name: str, **more: Any) -> AsyncPortalConnection:
    return await portal.open(name, **fields, **more)


async def until(is_true: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_true():  # noqa: ASYNC110 - many kinds of conditions
            await asyncio.sleep(0.005)
    assert is_true(), what
