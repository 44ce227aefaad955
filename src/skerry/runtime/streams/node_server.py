"""A node on real sockets: carries bytes between `NodeCore` and the streams of its clients."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

from mypy_extensions import mypyc_attr

from skerry.durations import DurationCounter
from skerry.engine.admission.origins import INSIDE, Origin
from skerry.engine.node import NodeCore
from skerry.limits import STREAM_CHUNK_BYTES_MAX
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address, CloseReason, Disconnect, MachineEvent
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.streams.dead_peer_watch import DeadPeerWatch
from skerry.runtime.streams.endpoints import Endpoint, parse_endpoint
from skerry.runtime.streams.listeners import Listeners
from skerry.runtime.streams.orderly_close import LINGER_S_MAX, OrderlyClose
from skerry.runtime.streams.sockets import SILENCE_S_MAX, tune
from skerry.runtime.streams.tls import TlsFiles, common_name
from skerry.runtime.streams.websocket import WebSocketConfig

LOOP_TURN_NS_MAX: Final = 10_000_000
"""Time that one turn of the loop spends on the input of its sockets. The remaining input waits for
the next turn, in which clients that send little are first."""

_CLOSE_S_MAX: Final = LINGER_S_MAX
"""Time for a client to read the last messages before its connection is aborted."""
_WRITE_BYTES_HIGH: Final = 256 * 1024
_WRITE_BYTES_LOW: Final = 64 * 1024
"""Sizes of the write buffer of a transport at which the core stops and resumes writing to it: large
enough that the socket never runs empty, small because buffered bytes cannot be conflated."""
_BATCH_BYTES_MAX: Final = 64 * 1024
"""Input after which its output is written at once, instead of at the end of the loop iteration."""
_UNIX_SHARE: Final = 20
"""One in so many connections is reserved for Unix sockets."""

_INSIDE_ENDPOINT: Final = parse_endpoint("uds:/inside")
"""Stands for the endpoint of clients inside this program, which have none."""

log = logging.getLogger(__name__)


class ServerStream(Protocol):
    """The stream of a client: a transport, or a WebSocket over one."""

    def write(self, data: bytes, /) -> object:
        """Send, or buffer until it can be sent."""

    def close(self) -> object:
        """Close the stream after everything is sent."""

    def abort(self) -> object:
        """Close the stream now."""

    def is_closing(self) -> bool:
        """Whether the stream is closing or closed."""


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeServer:
    """A node on real sockets.

    Each input is passed to the core, then the output of the core is written. Output for the first
    input in an iteration of the loop is written at once. Output for further inputs in the same
    iteration is collected and written together.
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
        on_events: Callable[[Sequence[MachineEvent]], None] | None = None,
        after_input: Callable[[], None] | None = None,
    ) -> None:
        """`on_events` receives the events of the core, `after_input` is called after each input.

        The connection of a client that acknowledges nothing for `silence_s_max` is aborted.
        """
        self.core = core
        self.buffer = memoryview(bytearray(STREAM_CHUNK_BYTES_MAX))
        """Receive buffer shared by all streams; its content is consumed before the next read."""
        self.iteration = 0
        """Counts iterations of the loop with input."""
        self._connection_count_max = connection_count_max
        if connection_count_max is not None:
            core.admission.bound_connections(connection_count_max)
        self._on_events = on_events
        self._after_input = after_input
        self._dead_peers = DeadPeerWatch(silence_s_max)
        self.listeners = Listeners(
            self,
            self._protocol,
            core.registry,
            tls=tls or TlsFiles(),
            websocket=websocket,
            socket_mode=socket_mode,
            socket_group=socket_group,
            connection_count_max=connection_count_max,
            message_bytes_max=lambda: core.admission.limits.frame_bytes_max,
        )
        self._endpoints: list[str] = []
        self._streams: dict[Address, ServerStream] = {}
        self._protocols: dict[Address, _ClientProtocol] = {}
        """Protocols of streams that are transports, which need help to close in order."""
        self._open: set[ServerStream] = set()
        """All open streams, including those that are closing and still have data to send."""
        self._closing: dict[ServerStream, asyncio.TimerHandle] = {}
        """Timers that abort streams that do not close in time."""
        self._is_idle = asyncio.Event()
        """Set while no stream is open."""
        self._is_idle.set()
        self._count = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self._timer_ns = 0
        self._batch_timer: asyncio.TimerHandle | None = None
        self._is_batching = False
        """Whether this iteration of the loop has had input."""
        self.turns = DurationCounter()
        """From the first input of an iteration of the loop to the end of its processing: how long
        updates are in the node, except for those that wait for a slow client or a batch."""
        self._iteration_end_ns = 0
        """Time at which further input of this iteration of the loop is deferred."""
        self._held: dict[Address, Callable[[], None]] = {}
        """Clients whose reading is paused, with the function that resumes it."""
        self._batched_bytes = 0

    # -- listening

    async def listen(self, endpoint: Endpoint) -> str:
        """Accept clients at an endpoint; the endpoint with the port that was chosen.

        ConnectFailed if the endpoint is in use, ConfigError if its certificates are invalid.
        """
        text = await self.listeners.listen(endpoint)
        self._endpoints.append(text)
        self.core.set_endpoints(self._endpoints, monotonic_ns())
        self.carry()
        return text

    async def connect_inside(self) -> socket.socket:
        """The other end of the stream of a new client inside this program, which may do all."""
        own, other = socket.socketpair()
        try:
            await self._loop.connect_accepted_socket(
                lambda: _ClientProtocol(self, _INSIDE_ENDPOINT), own
            )
        except BaseException:
            own.close()
            other.close()
            raise
        return other

    async def close(self) -> None:
        """Stop listening, notify the clients and close all connections."""
        await self.listeners.close()
        self.core.farewell(monotonic_ns())
        self.carry()
        for address in list(self._streams):
            self._end(address)
        try:
            await asyncio.wait_for(self._is_idle.wait(), _CLOSE_S_MAX)
        except TimeoutError:
            # A client that does not read must not keep the node from stopping.
            for stream in list(self._open):
                stream.abort()
            await self._is_idle.wait()
        self.listeners.remove_files()
        self._dead_peers.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- called by the streams of clients

    def admit(self, transport: asyncio.Transport, *, is_unix: bool = False) -> bool:
        """Whether a file descriptor is left for one more connection; if not, it is rejected.

        The last descriptors are reserved for Unix sockets.
        """
        limit = self._connection_count_max
        count = len(self._open) + self.listeners.pending_count
        if limit is not None and not is_unix:
            limit -= limit // _UNIX_SHARE
        if limit is None or count < limit:
            raw = transport.get_extra_info("socket")
            if raw is not None:
                tune(raw)
                self._dead_peers.add(transport, raw)
            return True
        # Without descriptors the system accepts no connections, and the node could not even open
        # its storage.
        log.warning(
            "connection rejected: too many connections are open",
            extra={"connection_count": count},
        )
        transport.abort()
        return False

    def discard(self, transport: asyncio.Transport) -> None:
        """Stop watching a closed connection, whether it was that of a client or not."""
        self._dead_peers.discard(transport)

    def opened(
        self,
        stream: ServerStream,
        wire: Wire,
        origin: Origin,
        extensions: bool,
        protocol: _ClientProtocol | None = None,
    ) -> Address:
        """Add a client that connected; `protocol` is that of a stream that is a transport."""
        self._count += 1
        address = Address("client", self._count, is_stream=True)
        self._streams[address] = stream
        if protocol is not None:
            self._protocols[address] = protocol
        self._open.add(stream)
        self._is_idle.clear()
        self.core.open(address, wire, monotonic_ns(), origin=origin, extensions=extensions)
        self.carry()
        return address

    def received(self, address: Address, data: bytes) -> bool:
        """Process input of a client; whether to pause reading from it."""
        now_ns = monotonic_ns()
        if not self._is_batching:
            self._is_batching = True
            self._iteration_end_ns = now_ns + LOOP_TURN_NS_MAX
            self.core.receive(data, address, now_ns)
            self._send()
            # Events and timers are handled after the output for clients.
            self._loop.call_soon(self._end_iteration)
        elif now_ns >= self._iteration_end_ns:
            # Other clients have used up the time. The core processes clients with little input
            # first.
            self.core.receive_later(data, address)
        else:
            self.core.receive(data, address, now_ns)
            self._batched_bytes += len(data)
            if self._batched_bytes >= _BATCH_BYTES_MAX:
                self._send()
        return self.core.is_held(address)

    def hold(self, address: Address, release: Callable[[], None]) -> None:
        """Call `release` when reading from a paused client may resume."""
        self._held[address] = release

    def unfinished(self, address: Address, size: int) -> None:
        """Account for the size of an incomplete message of a client."""
        if address in self._streams:
            self.core.note_unfinished(address, size, monotonic_ns())
            self.carry()

    def too_large(self, address: Address, size: int) -> None:
        """Handle a message of `size` bytes, which exceeds the limit of its client."""
        if address in self._streams:
            self.core.refuse_large(address, size, monotonic_ns())
            self.carry()

    def paused(self, address: Address) -> None:
        """Stop writing to a client whose write buffer is full."""
        if address in self._streams:
            self.core.pause(address)

    def resumed(self, address: Address) -> None:
        """Resume writing to a client whose write buffer has been sent."""
        if address in self._streams:
            self.core.resume(address, monotonic_ns())
            self.carry()

    def lost(self, address: Address, stream: ServerStream) -> None:
        """Remove a client whose stream is closed."""
        self._open.discard(stream)
        if not self._open:
            self._is_idle.set()
        if timer := self._closing.pop(stream, None):
            timer.cancel()
        self._protocols.pop(address, None)
        self._held.pop(address, None)
        if self._streams.pop(address, None) is not None:
            self.core.stream_closed(address, CloseReason.LOST, monotonic_ns())
            self.carry()

    # -- output of the core

    def carry(self) -> None:
        """Send the output of the core, report its events and set its timer."""
        self._send()
        self._settle()

    def _send(self) -> None:
        """Write the output for clients."""
        self._batched_bytes = 0
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
        """Send the updates that were delayed to be sent in batches."""
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        self.core.end_delays(monotonic_ns())
        self._send()

    def _settle(self) -> None:
        """Report the events of the core and set its timer."""
        events = self.core.take_events()
        if events and self._on_events is not None:
            self._on_events(events)
        if self._after_input is not None:
            self._after_input()
        self._set_timer()

    def _end(self, address: Address, *, is_abrupt: bool = False) -> None:
        stream = self._streams.pop(address)
        release = self._held.pop(address, None)
        if release is not None:
            # Further input is read and dropped.
            release()
        protocol = self._protocols.pop(address, None)
        if is_abrupt:
            stream.abort()
            return
        if protocol is None:
            stream.close()
        else:
            protocol.close()
        if stream in self._open:
            self._closing[stream] = self._loop.call_later(_CLOSE_S_MAX, stream.abort)

    def _end_iteration(self) -> None:
        self.iteration += 1
        self._is_batching = False
        if self._batched_bytes:
            self._send()
        self.turns.add(monotonic_ns() - self._iteration_end_ns + LOOP_TURN_NS_MAX)
        self._settle()

    def _set_timer(self) -> None:
        due_ns = self.core.task_deadline_ns()
        if due_ns is None:
            return
        if self._timer is not None:
            if self._timer_ns <= due_ns:
                # It fires earlier than needed and is then set again, which is cheaper than now.
                return
            self._timer.cancel()
        self._timer_ns = due_ns
        delay_ns = due_ns - monotonic_ns()
        if delay_ns <= 0:
            # After the other callbacks that are ready.
            self._timer = self._loop.call_soon(self._wake)
        else:
            self._timer = self._loop.call_later(delay_ns / 1e9, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.core.advance(monotonic_ns())
        self.carry()

    def _protocol(self, endpoint: Endpoint) -> asyncio.BaseProtocol:
        return _ClientProtocol(self, endpoint)


class _ClientProtocol(asyncio.BufferedProtocol):
    """The stream of one client.

    It reads into a shared buffer. With `asyncio.Protocol`, asyncio allocates a buffer of the full
    size for each read, which costs more than copying the received bytes.
    """

    def __init__(self, server: NodeServer, endpoint: Endpoint) -> None:
        self._server = server
        self._endpoint = endpoint
        self._view = server.buffer
        self._address: Address | None = None
        self._stream: asyncio.Transport | None = None
        self._full_iteration = -1
        """The last iteration of the loop in which a read filled the buffer."""
        self._is_held = False
        """Whether reading is paused until the node has processed the input."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: the transports of uvloop are not subclasses of asyncio.Transport.
        transport = cast("asyncio.Transport", transport)
        self._stream = transport
        if not self._server.admit(transport, is_unix=self._endpoint.kind == "unix"):
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
        # A memoryview: TLS reads into a slice of it, and a slice of a bytearray is a copy.
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        if self._address is not None:
            if self._server.received(self._address, bytes(self._view[:nbytes])):
                self._hold()
            elif nbytes == STREAM_CHUNK_BYTES_MAX:
                self._yield_to_others()

    def close(self) -> None:
        """Close the stream after everything is sent and received (`OrderlyClose`)."""
        stream = self._stream
        assert stream is not None
        if not stream.is_closing():
            OrderlyClose(stream, self, self._view)

    def pause_writing(self) -> None:
        # Without an address the client is still connecting; the greeting is short.
        if self._address is not None:
            self._server.paused(self._address)

    def resume_writing(self) -> None:
        if self._address is not None:
            self._server.resumed(self._address)

    def connection_lost(self, exc: Exception | None) -> None:
        assert self._stream is not None
        self._server.discard(self._stream)
        if self._address is not None:
            self._server.lost(self._address, self._stream)

    def _yield_to_others(self) -> None:
        """Pause reading until the next iteration, if the loop reads repeatedly in one.

        uvloop does so up to 32 times as long as the buffer is filled. TLS reads into a buffer of
        its own, and stops when that is full.
        """
        stream = self._stream
        assert stream is not None
        if self._full_iteration != self._server.iteration:
            self._full_iteration = self._server.iteration
        elif not self._endpoint.is_secure and not stream.is_closing():
            stream.pause_reading()
            asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
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
        self._resume()


def origin_of(transport: asyncio.BaseTransport, endpoint: Endpoint) -> Origin:
    if endpoint.kind == "unix":
        return INSIDE if endpoint is _INSIDE_ENDPOINT else Origin(kind="unix")
    peer = transport.get_extra_info("peername") or ("",)
    return Origin(kind=endpoint.kind, host=str(peer[0]), certificate=common_name(transport))
