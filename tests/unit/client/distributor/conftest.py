"""Groups on the loopback interface, and connections that are always closed."""

from __future__ import annotations

import contextlib
import queue
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skerry.client.distributor.sync import BlockingGroupConnection, open_connection

QUICK = {
    "interface": "127.0.0.1",
    "ttl": 0,
    "request_timeout_ms": 30,
    "request_delay_ms_max": 2,
    "server_holdback_ms": 2,
    "socket_buffer_bytes": 2_000_000,
}


@pytest.fixture
def group() -> str:
    """A group that no other program uses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return f"239.255.77.{10 + port % 200}:{port}"


@pytest.fixture
def join(group: str) -> Iterator[Callable[..., BlockingGroupConnection]]:
    """Opens connections to the group."""
    with contextlib.ExitStack() as stack:

        def joined(**fields: Any) -> BlockingGroupConnection:
            connection = open_connection(group, **{**QUICK, **fields})
            stack.callback(connection.close, linger=False)
            return connection

        yield joined


class Collector:
    """The callbacks of a subscriber, which collect updates and events."""

    def __init__(self) -> None:
        self.updates: queue.Queue[tuple[str, bytes, object, int]] = queue.Queue()
        self.events: queue.Queue[Any] = queue.Queue()

    def on_update(self, subject: str, data: bytes, tag: object, queue_length: int) -> None:
        self.updates.put((subject, data, tag, queue_length))

    def on_event(self, event: Any) -> None:
        self.events.put(event)

    def take(self, count: int) -> list[tuple[str, bytes]]:
        """The next updates."""
        return [self.updates.get(timeout=10)[:2] for _ in range(count)]

    def event(self, kind: type) -> Any:
        """The next event of this kind."""
        while True:
            event = self.events.get(timeout=10)
            if isinstance(event, kind):
                return event


@pytest.fixture
def collected() -> Collector:
    return Collector()
