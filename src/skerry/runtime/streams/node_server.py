"""TCP, TLS and Unix sockets under a node: carries bytes between its machine and its clients."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol, cast

from mypy_extensions import mypyc_attr

from skerry.engine.admission.admission import Origin
from skerry.engine.node import NodeCore
from skerry.errors import ConnectFailed
from skerry.limits import (
    LOOP_TURN_NS_MAX,
    STREAM_CHUNK_BYTES_MAX,
    TLS_HANDSHAKE_COUNT_MAX,
    WEBSOCKET_WAITING_COUNT_MAX,
)
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address, CloseReason, Disconnect, MachineEvent
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.streams.dead_peer_watch import DeadPeerWatch
from skerry.runtime.streams.endpoints import Endpoint
from skerry.runtime.streams.orderly_close import LINGER_S_MAX, OrderlyClose
from skerry.runtime.streams.sockets import SILENCE_S_MAX, SocketFile, bind_tcp, bind_unix, tune
from skerry.runtime.streams.tls import (
    TlsFiles,
    TlsHandshakes,
    common_name,
    load_certificates,
    server_context,
)
from skerry.runtime.streams.websocket import WebSocketConfig, WebSocketEntrance

__all__ = ["NodeServer", "ServerStream", "origin_of"]

_LAST_WORDS_S: Final = LINGER_S_MAX
"""How long a client may take to read what was sent to it before its connection ended."""
_BACKLOG: Final = 1024
"""Connections that wait to be let in. A thousand clients come back at once when a node restarts."""
_WRITE_BYTES_HIGH: Final = 256 * 1024
_WRITE_BYTES_LOW: Final = 64 * 1024
"""What waits in a transport before the core keeps the rest, and when it gives more: enough that the
system never waits for us, little since it can be neither conflated nor taken back."""
_GATHERED_BYTES_MAX: Final = 64 * 1024
"""Input after which its effects are written at once, and not only when all had their turn."""
_UNIX_PART: Final = 20
"""One part in so many of the possible connections is reserved for Unix sockets."""
_WAITING_SHARE: Final = 8
"""Of the connections there is room for, the part that those may have at a door who are no clients
yet."""

log = logging.getLogger(__name__)


class ServerStream(Protocol):
    """What a server needs of a client's stream: of a transport, or of what a door puts over it."""

    def write(self, data: bytes, /) -> object:
        """Send, or keep until it can be sent."""

    def close(self) -> object:
        """End it when all is sent."""

    def abort(self) -> object:
        """End it now."""

    def is_closing(self) -> bool:
        """Whether it ends or is over."""


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeServer:
    """A node on real sockets.

    The rhythm: an input, then what the node wants sent because of it. What the first socket of
    a turn of the loop brings is answered at once; answers to those that were readable at the same
    time are gathered and written together.
    """

    def __init__(
        self,
        core: NodeCore,
        *,
        tls: TlsFiles | None = None,
        socket_mode: int = 0o600,
        socket_group: str | None = None,
        connection_count_max: int | None = None,
        silence_s_max: float = SILENCE_S_MAX,
        websocket: WebSocketConfig | None = None,
        hear: Callable[[Sequence[MachineEvent]], None] | None = None,
        carried: Callable[[], None] | None = None,
    ) -> None:
        """`hear` is told what the core wants known, `carried` is called after each input.

        A client that answers nothing for `silence_s_max` though bytes are under way to it is gone.
        """
        self.core = core
        self.is_listening = False
        """Whether anybody can come in."""
        self.buffer = memoryview(bytearray(STREAM_CHUNK_BYTES_MAX))
        """Into which all doors read: reading and using it are one step of the loop."""
        self.turn = 0
        """Counts turns of the loop in which something came."""
        self._tls = tls or TlsFiles()
        self._socket_mode = socket_mode
        self._socket_group = socket_group
        self._connection_count_max = connection_count_max
        if connection_count_max is not None:
            core.bound_connections(connection_count_max)
        self._websocket = websocket
        self._entrances: list[WebSocketEntrance] = []
        self._hear = hear
        self._carried = carried
        self._vigil = DeadPeerWatch(silence_s_max)
        self._lobby = TlsHandshakes(count_max=self._waiting_count_max(TLS_HANDSHAKE_COUNT_MAX))
        self._contexts: list[tuple[ssl.SSLContext, TlsFiles]] = []
        self._places: list[str] = []
        """Where it listens."""
        self._servers: list[asyncio.Server] = []
        self._files: list[SocketFile] = []
        self._streams: dict[Address, ServerStream] = {}
        self._doors: dict[Address, _Door] = {}
        """Of streams that are transports, which do not close in order by themselves."""
        self._open: set[ServerStream] = set()
        """All of them, also those that the node ended and that still have words to bring out."""
        self._leaving: dict[ServerStream, asyncio.TimerHandle] = {}
        """Those that were ended, and when that must be over."""
        self._is_quiet = asyncio.Event()
        """Whether none is open."""
        self._is_quiet.set()
        self._count = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self._timer_ns = 0
        self._batch_timer: asyncio.TimerHandle | None = None
        self._is_gathering = False
        self._turn_end_ns = 0
        """The time from which on the rest of the input of this turn of the loop has to wait."""
        self._held: dict[Address, Callable[[], None]] = {}
        """Clients that are not read from for now, with the function that resumes reading."""
        self._gathered_bytes = 0

    # -- places

    async def listen(self, endpoint: Endpoint) -> str:
        """Take clients at an endpoint; gives it back with the port that was chosen.

        ConnectFailed when somebody else has it, ConfigError when its certificates are of no use.
        """
        place = await self._begin(endpoint)
        self._places.append(place)
        self.core.tell_picture(monotonic_ns(), endpoints=self._places)
        self._carry()
        return place

    async def _begin(self, endpoint: Endpoint) -> str:
        door = self._door(endpoint)
        context = self._context(endpoint) if endpoint.is_secure else None
        try:
            if endpoint.kind == "unix":
                made, file = bind_unix(
                    Path(endpoint.path), mode=self._socket_mode, group=self._socket_group
                )
                self._files.append(file)
                await self._serve(made, door)
                return endpoint.text
            port = endpoint.port
            for made in await bind_tcp(endpoint.host, endpoint.port):
                port = made.getsockname()[1]
                await self._serve(made, door, context)
        except (OSError, ValueError) as error:
            # Not all of them come from the system with its own words: a path may be too long.
            detail = getattr(error, "strerror", None) or error
            raise ConnectFailed(f"cannot listen at {endpoint.text}: {detail}") from None
        return f"{endpoint.text.rpartition(':')[0]}:{port}"

    def reload_certificates(self) -> None:
        """Read certificates anew, for those who come from now on; ConfigError if that fails."""
        for context, files in self._contexts:
            load_certificates(context, files)

    async def close(self) -> None:
        """Let nobody in any more, say goodbye, and end all connections."""
        self.is_listening = False
        for server in self._servers:
            server.close()
        await self._lobby.close()
        for entrance in self._entrances:
            entrance.close()
        self.core.farewell(monotonic_ns())
        self._carry()
        for address in list(self._streams):
            self._end(address)
        try:
            await asyncio.wait_for(self._is_quiet.wait(), _LAST_WORDS_S)
        except TimeoutError:
            # Who does not read must not keep the node from ending.
            for stream in list(self._open):
                stream.abort()
            await self._is_quiet.wait()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()
        for file in self._files:
            file.remove()
        self._vigil.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- what doors tell

    def enter(self, transport: asyncio.Transport, *, is_unix: bool = False) -> bool:
        """Whether a file descriptor is left for one more connection; if not, it is rejected.

        The last ones are for Unix sockets.
        """
        limit = self._connection_count_max
        if limit is not None and not is_unix:
            limit -= limit // _UNIX_PART
        if limit is None or self._open_count() < limit:
            raw = transport.get_extra_info("socket")
            if raw is not None:
                tune(raw)
                self._vigil.add(transport, raw)
            return True
        # Above, the system would let nobody in, and a node could not even open its storage.
        log.warning(
            "a connection is turned away, as many are open as there is room for",
            extra={"connection_count": self._open_count()},
        )
        transport.abort()
        return False

    def leave(self, transport: asyncio.Transport) -> None:
        """A connection is over, whether it was a client's or not."""
        self._vigil.discard(transport)

    def opened(
        self,
        stream: ServerStream,
        wire: Wire,
        origin: Origin,
        extensions: bool,
        door: _Door | None = None,
    ) -> Address:
        """A client connected; `door` is the protocol of a stream that is a transport."""
        self._count += 1
        address = Address("client", self._count, is_stream=True)
        self._streams[address] = stream
        if door is not None:
            self._doors[address] = door
        self._open.add(stream)
        self._is_quiet.clear()
        self.core.open(address, wire, monotonic_ns(), origin=origin, extensions=extensions)
        self._carry()
        return address

    def received(self, address: Address, data: bytes) -> bool:
        """Pass on input of a client; whether its reading has to pause until its next turn."""
        now_ns = monotonic_ns()
        if not self._is_gathering:
            self._is_gathering = True
            self._turn_end_ns = now_ns + LOOP_TURN_NS_MAX
            self.core.receive(data, address, now_ns)
            self._send()
            # What is not for clients can wait until they have theirs, and is done then.
            self._loop.call_soon(self._end_gathering)
        elif now_ns >= self._turn_end_ns:
            # Others have used the time: a client that sends little has its turn before the others.
            self.core.receive_later(data, address)
        else:
            self.core.receive(data, address, now_ns)
            self._gathered_bytes += len(data)
            if self._gathered_bytes >= _GATHERED_BYTES_MAX:
                self._send()
        return self.core.is_held(address)

    def hold(self, address: Address, release: Callable[[], None]) -> None:
        """Call `release` when more can be read from a client that is held."""
        self._held[address] = release

    def unfinished(self, address: Address, size: int) -> None:
        """Note the size of an incomplete message of a client."""
        if address in self._streams:
            self.core.note_unfinished(address, size, monotonic_ns())
            self._carry()

    def too_large(self, address: Address, size: int) -> None:
        """A client sends a message of `size` bytes, above its limit."""
        if address in self._streams:
            self.core.met_large(address, size, monotonic_ns())
            self._carry()

    def paused(self, address: Address) -> None:
        """A client takes less than it is sent."""
        if address in self._streams:
            self.core.pause(address)

    def resumed(self, address: Address) -> None:
        """It took what waited."""
        if address in self._streams:
            self.core.resume(address, monotonic_ns())
            self._carry()

    def lost(self, address: Address, stream: ServerStream) -> None:
        """A client is gone."""
        self._open.discard(stream)
        if not self._open:
            self._is_quiet.set()
        if timer := self._leaving.pop(stream, None):
            timer.cancel()
        self._doors.pop(address, None)
        self._held.pop(address, None)
        if self._streams.pop(address, None) is not None:
            self.core.stream_closed(address, CloseReason.LOST, monotonic_ns())
            self._carry()

    # -- carrying

    def carry(self) -> None:
        """Bring out what the node has to say since something but its clients changed."""
        self._carry()

    def _carry(self) -> None:
        """Bring out what the node wants to say, and set its alarm clock."""
        self._send()
        self._settle()

    def _send(self) -> None:
        """Write what is for clients."""
        self._gathered_bytes = 0
        for address in self.core.take_released():
            release = self._held.pop(address, None)
            if release is not None:
                release()
        for transmit in self.core.take_transmits():
            stream = self._streams.get(transmit.destination)
            if stream is None:
                continue
            if isinstance(transmit, Disconnect):
                self._end(transmit.destination, is_abrupt=transmit.is_abrupt)
            else:
                stream.write(transmit.data)
        due_ns = self.core.batch_due_ns()
        if due_ns is None:
            if self._batch_timer is not None:
                self._batch_timer.cancel()
                self._batch_timer = None
        elif self._batch_timer is None:
            delay_s = max(due_ns - monotonic_ns(), 0) / 1e9
            self._batch_timer = self._loop.call_later(delay_s, self.send_delayed)

    def send_delayed(self) -> None:
        """Send the updates that are delayed to be sent in batches."""
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        self.core.end_delays(monotonic_ns())
        self._send()

    def _settle(self) -> None:
        """Tell all others, and set the alarm clock."""
        events = self.core.take_events()
        if events and self._hear is not None:
            self._hear(events)
        if self._carried is not None:
            self._carried()
        self._set_timer()

    def _end(self, address: Address, *, is_abrupt: bool = False) -> None:
        stream = self._streams.pop(address)
        release = self._held.pop(address, None)
        if release is not None:
            # Further input is read and dropped.
            release()
        if is_abrupt:
            self._doors.pop(address, None)
            stream.abort()
            return
        door = self._doors.pop(address, None)
        if door is None:
            stream.close()
        else:
            door.end()
        if stream in self._open:
            self._leaving[stream] = self._loop.call_later(_LAST_WORDS_S, stream.abort)

    def _end_gathering(self) -> None:
        self.turn += 1
        self._is_gathering = False
        if self._gathered_bytes:
            self._send()
        self._settle()

    def _set_timer(self) -> None:
        due_ns = self.core.task_deadline_ns()
        if due_ns is None:
            return
        if self._timer is not None:
            if self._timer_ns <= due_ns:
                # It rings earlier than need be, and is then set anew: cheaper than doing so now.
                return
            self._timer.cancel()
        self._timer_ns = due_ns
        delay_ns = due_ns - monotonic_ns()
        if delay_ns <= 0:
            # After all others had their turn.
            self._timer = self._loop.call_soon(self._wake)
        else:
            self._timer = self._loop.call_later(delay_ns / 1e9, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.core.advance(monotonic_ns())
        self._carry()

    # -- doors

    def _door(self, endpoint: Endpoint) -> Callable[[], asyncio.BaseProtocol]:
        """What makes the protocol of one stream that comes in by an endpoint."""
        if endpoint.kind == "websocket":
            return self._websocket_door(endpoint)
        return partial(_Door, self, endpoint)

    def _context(self, endpoint: Endpoint) -> ssl.SSLContext:
        own = TlsFiles(cert=endpoint.cert, key=endpoint.key, ca=endpoint.ca)
        files = own.or_else(self._tls)
        context = server_context(files)
        self._contexts.append((context, files))
        return context

    def _websocket_door(self, endpoint: Endpoint) -> Callable[[], asyncio.BaseProtocol]:
        entrance = WebSocketEntrance(
            self,
            self.core.registry,
            config=self._websocket,
            extensions=endpoint.extensions,
            message_bytes_max=lambda: self.core.limits.frame_bytes_max,
            waiting_count_max=self._waiting_count_max(WEBSOCKET_WAITING_COUNT_MAX),
        )
        self._entrances.append(entrance)
        return entrance.door

    def _waiting_count_max(self, usual: int) -> int:
        """How many may be at a door who are no clients yet, where descriptors may be few."""
        if self._connection_count_max is None:
            return usual
        return min(usual, max(self._connection_count_max // _WAITING_SHARE, 1))

    def _open_count(self) -> int:
        waiting = sum(entrance.waiting_count for entrance in self._entrances)
        return len(self._open) + waiting + self._lobby.waiting_count

    async def _serve(
        self,
        made: socket.socket,
        door: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext | None = None,
    ) -> None:
        try:
            if context is not None:
                made.listen(_BACKLOG)
                self._lobby.serve(made, context, door)
            else:
                is_unix = made.family == socket.AF_UNIX
                create = self._loop.create_unix_server if is_unix else self._loop.create_server
                self._servers.append(await create(door, sock=made, backlog=_BACKLOG))
        except BaseException:
            made.close()
            raise
        self.is_listening = True


class _Door(asyncio.BufferedProtocol):
    """One client's stream.

    It reads into a buffer that all share: a fresh object of the largest size for each read, as
    the simpler kind of protocol gets it, costs asyncio more than copying what came.
    """

    def __init__(self, server: NodeServer, endpoint: Endpoint) -> None:
        self._server = server
        self._endpoint = endpoint
        self._view = server.buffer
        self._address: Address | None = None
        self._stream: asyncio.Transport | None = None
        self._full_turn = -1
        """When a read last filled the buffer."""
        self._is_held = False
        """Whether reading pauses until the node has processed the input."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: the transports of uvloop have all of its methods, but not its class.
        transport = cast("asyncio.Transport", transport)
        self._stream = transport
        if not self._server.enter(transport, is_unix=self._endpoint.kind == "unix"):
            return
        transport.set_write_buffer_limits(high=_WRITE_BYTES_HIGH, low=_WRITE_BYTES_LOW)
        endpoint = self._endpoint
        self._address = self._server.opened(
            transport,
            OldWire() if endpoint.version == 1 else Wire(),
            origin_of(transport, endpoint),
            endpoint.extensions,
            self,
        )

    def get_buffer(self, sizehint: int) -> memoryview:
        # Not the buffer itself, of which TLS would take a slice to read into, which is a copy.
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        if self._address is not None:
            if self._server.received(self._address, bytes(self._view[:nbytes])):
                self._hold()
            elif nbytes == STREAM_CHUNK_BYTES_MAX:
                self._end_turn()

    def end(self) -> None:
        """Close it after all is sent, so that it is received."""
        stream = self._stream
        assert stream is not None
        if not stream.is_closing():
            OrderlyClose(stream, self, self._view)

    def pause_writing(self) -> None:
        # While it comes in it has no name yet; the greeting is far too short for this.
        if self._address is not None:
            self._server.paused(self._address)

    def resume_writing(self) -> None:
        if self._address is not None:
            self._server.resumed(self._address)

    def connection_lost(self, exc: Exception | None) -> None:
        assert self._stream is not None
        self._server.leave(self._stream)
        if self._address is not None:
            self._server.lost(self._address, self._stream)

    def _end_turn(self) -> None:
        """Let others have theirs, when the loop reads more than once in one of its turns.

        That of uvloop does so up to 32 times as long as the buffer is filled. TLS reads into
        a buffer of its own, and stops when too much is in it.
        """
        stream = self._stream
        assert stream is not None
        if self._full_turn != self._server.turn:
            self._full_turn = self._server.turn
        elif not self._endpoint.is_secure and not stream.is_closing():
            stream.pause_reading()
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        assert self._stream is not None
        if not self._is_held and not self._stream.is_closing():
            self._stream.resume_reading()

    def _hold(self) -> None:
        """Pause reading until the node has processed the input."""
        assert self._stream is not None
        assert self._address is not None
        if not self._is_held and not self._stream.is_closing():
            self._is_held = True
            self._stream.pause_reading()
            self._server.hold(self._address, self._release)

    def _release(self) -> None:
        self._is_held = False
        self._next_turn()


def origin_of(transport: asyncio.BaseTransport, endpoint: Endpoint) -> Origin:
    """Who is at the other end of a stream that came in by an endpoint."""
    if endpoint.kind == "unix":
        return Origin(kind="unix")
    peer = transport.get_extra_info("peername") or ("",)
    return Origin(kind=endpoint.kind, host=str(peer[0]), certificate=common_name(transport))
