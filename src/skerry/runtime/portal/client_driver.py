"""The ZeroMQ sockets of a client of a portal, on the running loop."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import zmq

from skerry.protocol.machine import MachineEvent
from skerry.protocol.portal.config import PortalClientConfig, ipc_endpoint, tcp_endpoint
from skerry.protocol.portal.messages import (
    MANAGER_MESSAGE_BYTES_MAX,
    DataSocket,
    PortalTransport,
)
from skerry.protocol.portal.session import PortalSession
from skerry.protocol.portal.session_messages import (
    AskManager,
    ConnectData,
    DropSockets,
    SetFilter,
)
from skerry.protocol.portal.subscriptions import PortalMatch
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.machine_driver import MachineDriver
from skerry.runtime.portal.frame_reader import FrameReader, ZmqSocket

_HEARTBEAT_MS: Final = 1000
_HEARTBEAT_TIMEOUT_MS: Final = 3000
"""A broker whose computer has failed does not close its connections. ZeroMQ of any version of Goby
answers these heartbeats by itself."""
_RECONNECT_MS: Final = 100
"""Interval of attempts to connect. All clients of a restarted broker are back after about it."""
_SEND_COUNT_MAX: Final = 500
"""Publications that are sent in one turn, so that it also reads."""
_ROOM_WAIT_NS: Final = 1_000_000
"""When to try again to send to a socket without room, which ZeroMQ does not report."""
_ENDS: Final = {
    zmq.EVENT_DISCONNECTED: "the broker closed the connection, or does not answer",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "the peer is not a broker: the handshake failed",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "the peer is not a broker: it violates ZMTP",
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "the broker requires authentication",
}
_EVENTS: Final = sum(event.value for event in _ENDS)


class FrameTaker(Protocol):
    """Receives the frames that match a subscription."""

    def __call__(self, match: PortalMatch, frame: bytes, start: int) -> None:
        """Take a frame, whose payload begins at `start`."""


class PortalClientDriver:
    """Carries out what the machine of a client asks for. Made on a loop."""

    def __init__(
        self,
        session: PortalSession,
        config: PortalClientConfig,
        *,
        on_frame: FrameTaker,
        on_events: Callable[[Sequence[MachineEvent]], None],
    ) -> None:
        """`on_frame` is called for each frame with a subscription; it has to be quick."""
        self._session = session
        self._config = config
        self._on_frame = on_frame
        self._context: zmq.Context[ZmqSocket] = zmq.Context(io_threads=config.io_threads)
        self._request: _Port | None = None
        self._publisher: _Port | None = None
        self._subscriber: _Port | None = None
        self._driver = MachineDriver(
            session, take_input=lambda _now_ns: False, send=self._send, on_events=on_events
        )
        self.wake()

    def wake(self) -> None:
        """Send what the machine has to send, in the next iteration of the loop."""
        self._driver.wake()

    async def close(self, linger_s: float) -> None:
        """Close the sockets; waits up to `linger_s` seconds until what ZeroMQ holds is sent."""
        self._session.close()
        self._session.take_commands()
        self._driver.close()
        self._close_ports(linger_ms=round(linger_s * 1000))
        try:
            await asyncio.to_thread(self._context.term)
        except RuntimeError:
            # The interpreter ends, and starts no thread any more.
            self._context.term()

    # -- inside

    def _send(self) -> None:
        for command in self._session.take_commands():
            match command:
                case AskManager(data=data):
                    self._ask(data)
                case ConnectData():
                    self._connect(command)
                case SetFilter(filter=text, is_set=is_set):
                    self._set_filter(text, is_set=is_set)
                case DropSockets():
                    self._close_ports(linger_ms=0)
        if self._publisher is not None:
            self._send_frames(self._publisher)

    def _send_frames(self, publisher: _Port) -> None:
        session, send = self._session, publisher.socket.send
        now_ns = monotonic_ns()
        for _ in range(_SEND_COUNT_MAX):
            frame = session.next_frame()
            if frame is None:
                break
            try:
                send(frame, zmq.NOBLOCK)
            except zmq.Again:
                session.wait_for_room(now_ns + _ROOM_WAIT_NS)
                break
            session.frame_sent(now_ns)
        else:
            self.wake()
        # Sending may have consumed the notice that a frame can be read.
        publisher.reader.wake()

    def _ask(self, data: bytes) -> None:
        self._close_ports(linger_ms=0)
        # DEALER instead of REQ, which cannot be read while it has no request; the bytes on the wire
        # are the same.
        socket = self._socket(zmq.DEALER)
        socket.setsockopt(zmq.MAXMSGSIZE, MANAGER_MESSAGE_BYTES_MAX)
        self._request = _Port(socket, self._answered, self._ended, is_multipart=True)
        socket.connect(self._config.manager)
        socket.send_multipart([b"", data], zmq.NOBLOCK)

    def _connect(self, command: ConnectData) -> None:
        subscriber = self._socket(zmq.SUB)
        # A bound would drop subscriptions that are made before the connection exists.
        subscriber.setsockopt(zmq.SNDHWM, 0)
        subscriber.setsockopt(zmq.RCVHWM, command.subscribe.receive_queue_size)
        for text in command.filters:
            subscriber.subscribe(text)
        # XPUB instead of PUB, to see the subscriptions that the router passes on; the bytes on the
        # wire are the same.
        publisher = self._socket(zmq.XPUB)
        publisher.setsockopt(zmq.RCVHWM, 0)
        publisher.setsockopt(zmq.SNDHWM, command.publish.send_queue_size)
        publisher.setsockopt(zmq.XPUB_NODROP, 1)
        self._subscriber = _Port(subscriber, self._received, self._ended)
        self._publisher = _Port(publisher, self._subscription_passed, self._ended)
        subscriber.connect(self._endpoint(command.subscribe))
        publisher.connect(self._endpoint(command.publish))

    def _endpoint(self, socket: DataSocket) -> str:
        if socket.transport == PortalTransport.IPC:
            return ipc_endpoint(socket.path)
        return tcp_endpoint(self._config.address, socket.port)

    def _socket(self, kind: int) -> ZmqSocket:
        socket = self._context.socket(kind)
        for option, value in (
            (zmq.IPV6, 1),
            (zmq.LINGER, 0),
            (zmq.HEARTBEAT_IVL, _HEARTBEAT_MS),
            (zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS),
            (zmq.RECONNECT_IVL, _RECONNECT_MS),
            (zmq.MAXMSGSIZE, self._config.message_bytes_max),
        ):
            socket.setsockopt(option, value)
        return socket

    def _set_filter(self, text: bytes, *, is_set: bool) -> None:
        if self._subscriber is not None:
            socket = self._subscriber.socket
            (socket.subscribe if is_set else socket.unsubscribe)(text)
            self._subscriber.reader.wake()

    def _close_ports(self, *, linger_ms: int) -> None:
        for port in (self._request, self._publisher, self._subscriber):
            if port is not None:
                port.close(linger_ms)
        self._request = self._publisher = self._subscriber = None

    # -- input

    def _answered(self, parts: list[bytes]) -> None:
        self._session.manager_answered(b"".join(parts[1:]), monotonic_ns())
        self.wake()

    def _received(self, frame: bytes) -> None:
        found = self._session.receive(frame, monotonic_ns())
        if found is not None and found[0].targets:
            self._on_frame(found[0], frame, found[1])
        if self._session.has_output:
            self.wake()

    def _subscription_passed(self, frame: bytes) -> None:
        self._session.subscription_passed(frame, monotonic_ns())
        self.wake()

    def _ended(self, reason: str) -> None:
        self._session.connection_lost(reason, monotonic_ns())
        self.wake()


class _Port:
    """A socket with its reader, and the monitor of its connection."""

    def __init__(
        self,
        socket: ZmqSocket,
        receive: Callable[..., None],
        ended: Callable[[str], None],
        *,
        is_multipart: bool = False,
    ) -> None:
        self.socket = socket
        self._ended = ended
        self._monitor = socket.get_monitor_socket(_EVENTS)
        self._monitor_reader = FrameReader(self._monitor, self._observe, is_multipart=True)
        self.reader = FrameReader(socket, receive, is_multipart=is_multipart)

    def close(self, linger_ms: int) -> None:
        self.reader.close()
        self._monitor_reader.close()
        self.socket.disable_monitor()
        self._monitor.close(linger=0)
        self.socket.close(linger=linger_ms)

    def _observe(self, parts: list[bytes]) -> None:
        event, _ = struct.unpack("=hi", parts[0])
        reason = _ENDS.get(event)
        if reason is not None:
            self._ended(reason)
