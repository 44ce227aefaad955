"""TCP and Unix sockets under a node: carries bytes between its machine and its clients."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path
from typing import Final

from skerry.engine.node import NodeCore
from skerry.errors import ConnectFailed
from skerry.limits import STREAM_WAITING_BYTES_MAX
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address, CloseReason, Disconnect
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.endpoints import Endpoint

__all__ = ["NodeServer"]

_LAST_WORDS_S: Final = 1.0
"""How long a client may take to read what was sent to it before the node ended."""


class NodeServer:
    """A node on real sockets."""

    def __init__(self, core: NodeCore) -> None:
        self.core = core
        self._servers: list[asyncio.Server] = []
        self._streams: dict[Address, asyncio.Transport] = {}
        self._open: set[asyncio.Transport] = set()
        """All of them, also those that the node ended and that still have words to bring out."""
        self._is_quiet = asyncio.Event()
        """Whether none is open."""
        self._is_quiet.set()
        self._sockets: list[Path] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    async def listen(self, endpoint: Endpoint) -> str:
        """Take clients at an endpoint; gives it back with the port that was chosen.

        ConnectFailed when somebody else has it.
        """
        loop = asyncio.get_running_loop()
        try:
            if endpoint.path:
                _free(Path(endpoint.path))
                server = await loop.create_unix_server(
                    lambda: _Door(self, endpoint.version), endpoint.path
                )
                self._sockets.append(Path(endpoint.path))
                place = endpoint.text
            else:
                server = await loop.create_server(
                    lambda: _Door(self, endpoint.version), endpoint.host, endpoint.port
                )
                port = server.sockets[0].getsockname()[1]
                place = f"{endpoint.text.rpartition(':')[0]}:{port}"
        except (OSError, ValueError) as error:
            # Not all of them come from the system with its own words: a path may be too long.
            detail = getattr(error, "strerror", None) or error
            raise ConnectFailed(f"cannot listen at {endpoint.text}: {detail}") from None
        self._servers.append(server)
        return place

    async def close(self) -> None:
        """Let nobody in any more, and end all connections."""
        for server in self._servers:
            server.close()
        for stream in self._open:
            stream.close()
        try:
            await asyncio.wait_for(self._is_quiet.wait(), _LAST_WORDS_S)
        except TimeoutError:
            # Who does not read must not keep the node from ending.
            for stream in self._open:
                stream.abort()
            await self._is_quiet.wait()
        for server in self._servers:
            await server.wait_closed()
        for path in self._sockets:
            path.unlink(missing_ok=True)
        if self._timer is not None:
            self._timer.cancel()

    def opened(self, stream: asyncio.Transport, version: int) -> Address:
        """A client came in."""
        self._count += 1
        address = Address("client", self._count, is_stream=True)
        self._streams[address] = stream
        self._open.add(stream)
        self._is_quiet.clear()
        self.core.open(address, OldWire() if version == 1 else Wire(), monotonic_ns())
        self._carry()
        return address

    def received(self, address: Address, data: bytes) -> None:
        """A client said something."""
        self.core.receive(data, address, monotonic_ns())
        self._carry()

    def lost(self, address: Address, stream: asyncio.Transport) -> None:
        """A client is gone."""
        self._open.discard(stream)
        if not self._open:
            self._is_quiet.set()
        if self._streams.pop(address, None) is not None:
            self.core.stream_closed(address, CloseReason.LOST, monotonic_ns())
            self._carry()

    def _carry(self) -> None:
        """Bring out what the node wants to say, and set its alarm clock."""
        for transmit in self.core.take_transmits():
            stream = self._streams.get(transmit.destination)
            if stream is None:
                continue
            if isinstance(transmit, Disconnect):
                del self._streams[transmit.destination]
                stream.close()
                continue
            stream.write(transmit.data)
            if stream.get_write_buffer_size() > STREAM_WAITING_BYTES_MAX:
                # It does not keep up; the others must not wait for it.
                stream.abort()
        self._set_timer()

    def _set_timer(self) -> None:
        due_ns = self.core.deadline_ns()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ns is not None:
            delay_s = max(due_ns - monotonic_ns(), 0) / 1e9
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.core.advance(monotonic_ns())
        self._carry()


class _Door(asyncio.Protocol):
    """One client's stream."""

    def __init__(self, server: NodeServer, version: int) -> None:
        self._server = server
        self._version = version
        self._address: Address | None = None
        self._stream: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family != socket.AF_UNIX:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._stream = transport
        self._address = self._server.opened(transport, self._version)

    def data_received(self, data: bytes) -> None:
        assert self._address is not None
        self._server.received(self._address, data)

    def connection_lost(self, _error: Exception | None) -> None:
        assert self._address is not None
        assert self._stream is not None
        self._server.lost(self._address, self._stream)


def _free(path: Path) -> None:
    """Remove a socket that a node left behind; OSError when one answers."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        # The system answers for a Unix socket at once; where it would wait, there is somebody.
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except BlockingIOError:
            pass
    # Said here, since asyncio takes the place of a socket without asking whether it is used.
    raise OSError(errno.EADDRINUSE, "another node listens there")
