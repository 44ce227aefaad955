"""The sockets of a portal: its router, and its manager on the running loop."""

from __future__ import annotations

import logging
import os
import struct
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import zmq

from skerry.errors import ConnectFailed
from skerry.protocol.machine import MachineEvent
from skerry.protocol.portal.config import ipc_endpoint, tcp_endpoint
from skerry.protocol.portal.messages import (
    MANAGER_MESSAGE_BYTES_MAX,
    REQUEST_FILTER,
    DataSocket,
    PortalTransport,
)
from skerry.protocol.portal.portal_manager import PortalManager
from skerry.protocol.portal.statistics import PortalStatistics, RouterCounters
from skerry.runtime.portal.broker_config import PortalBrokerConfig
from skerry.runtime.portal.broker_lock import BrokerLock
from skerry.runtime.portal.data_ports import DataPorts
from skerry.runtime.portal.frame_reader import FrameReader, ZmqSocket
from skerry.runtime.portal.router import (
    SUBSCRIPTION_COUNT_MAX,
    CheckingRouter,
    PortalRouter,
    ProxyRouter,
)

_COUNTERS_WAIT_MS: Final = 50
"""How long a snapshot waits for the router, which answers between two messages."""
_HANDSHAKE_FAILURES: Final = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL,
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL,
    zmq.EVENT_HANDSHAKE_FAILED_AUTH,
)
_MONITORED: Final = sum(
    event.value for event in (zmq.EVENT_ACCEPTED, zmq.EVENT_DISCONNECTED, *_HANDSHAKE_FAILURES)
)

log = logging.getLogger(__name__)


class PortalBroker:
    """A running portal. Made on a loop; `close` ends it."""

    def __init__(
        self,
        config: PortalBrokerConfig,
        on_events: Callable[[Sequence[MachineEvent]], None],
        *,
        state_folder: Path | None = None,
    ) -> None:
        """Raises ConnectFailed if the addresses are in use. `state_folder` is where TCP ports are
        remembered."""
        self.config = config
        self._on_events = on_events
        self._ports = DataPorts(state_folder, config.tcp_port)
        self._lock = BrokerLock(config.base) if config.transport == "ipc" else None
        self._context: zmq.Context[ZmqSocket] = zmq.Context(io_threads=config.io_threads)
        self._sockets: list[ZmqSocket] = []
        self._readers: list[FrameReader] = []
        self._peers: list[_ConnectionCount] = []
        self._router: PortalRouter | None = None
        self._counters = RouterCounters()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    @property
    def fault(self) -> str:
        """Why the portal does not work; empty if it does."""
        if self._router is None:
            return "the portal is closed"
        if self._router.is_running:
            return ""
        return f"the router has ended: {self._router.fault or 'no reason given'}"

    def statistics(self) -> PortalStatistics:
        """Return an immutable snapshot of the counters."""
        if self._router is not None and self._router.is_running:
            self._counters = self._router.counters(_COUNTERS_WAIT_MS) or self._counters
        subscribers, publishers = self._peers
        manager, router = self.manager.statistics(), self._counters
        return PortalStatistics(
            publishers=publishers.count,
            subscribers=subscribers.count,
            clients=manager.clients_count,
            is_held=int(manager.is_held),
            missing_clients=len(manager.missing),
            received_publications=router.received_count,
            received_bytes=router.received_bytes,
            sent_publications=router.sent_count,
            sent_bytes=router.sent_bytes,
            refused_messages=router.refused_count,
            refused_connections=publishers.refused_count + subscribers.refused_count,
            requests=manager.requests_count,
            hold_requests=manager.hold_requests_count,
            malformed_requests=manager.malformed_count,
        )

    def close(self) -> None:
        """End the threads, and close the sockets."""
        for reader in self._readers:
            reader.close()
        if self._router is not None:
            self._router.close()
            self._router = None
        for peers in self._peers:
            peers.close()
        for socket in self._sockets:
            socket.close(linger=0)
        self._sockets.clear()
        self._context.term()
        if self._lock is not None:
            self._lock.release()

    # -- inside

    def _open(self) -> None:
        config = self.config
        xpub, xsub = self._socket(zmq.XPUB), self._socket(zmq.XSUB)
        xpub.setsockopt(zmq.RCVHWM, SUBSCRIPTION_COUNT_MAX)
        xsub.setsockopt(zmq.SNDHWM, SUBSCRIPTION_COUNT_MAX)
        self._peers = [_ConnectionCount(xpub), _ConnectionCount(xsub)]
        subscribe_socket = self._bind_data(xpub, "xpub", config.subscribe_port)
        publish_socket = self._bind_data(xsub, "xsub", config.publish_port)
        if config.transport == "tcp":
            self._ports.write({"xpub": subscribe_socket.port, "xsub": publish_socket.port})
        # ROUTER instead of REP, which loses the request after one of a client that disconnected
        # while it sent; the bytes on the wire are the same.
        self._reply = self._socket(zmq.ROUTER)
        self._reply.setsockopt(zmq.MAXMSGSIZE, MANAGER_MESSAGE_BYTES_MAX)
        subscriber, self._publisher = self._socket(zmq.SUB), self._socket(zmq.PUB)
        subscriber.subscribe(REQUEST_FILTER)
        for one, other, name in ((xpub, subscriber, "xpub"), (xsub, self._publisher, "xsub")):
            one.bind(f"inproc://{name}")
            other.connect(f"inproc://{name}")
        self.manager = PortalManager(
            publish_socket=publish_socket,
            subscribe_socket=subscribe_socket,
            required=frozenset(config.required_clients),
            process=os.getpid(),
            thread=threading.get_ident(),
        )
        # Last: a client that is answered finds everything else working.
        if config.transport == "ipc":
            self._bind(self._reply, config.manager)
        else:
            self._bind(self._reply, tcp_endpoint(config.listen, config.tcp_port))
        self._sockets = [self._reply, subscriber, self._publisher]
        router = CheckingRouter if config.filter else ProxyRouter
        self._router = router(self._context, xpub, xsub)
        self._readers = [
            FrameReader(self._reply, self._answer, is_multipart=True),
            FrameReader(subscriber, self._receive),
        ]

    def _socket(self, kind: int) -> ZmqSocket:
        config = self.config
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        for option, value in (
            (zmq.IPV6, 1),
            (zmq.LINGER, 0),
            (zmq.SNDHWM, config.send_queue_size),
            (zmq.RCVHWM, config.receive_queue_size),
            (zmq.MAXMSGSIZE, config.message_bytes_max),
        ):
            socket.setsockopt(option, value)
        return socket

    def _bind_data(self, socket: ZmqSocket, name: str, port: int) -> DataSocket:
        config = self.config
        path = f"{config.base}.{name}" if config.transport == "ipc" else ""
        if path:
            self._bind(socket, ipc_endpoint(path))
        else:
            port = self._bind_port(socket, port or self._ports.read(name), is_fixed=bool(port))
        return DataSocket(
            transport=PortalTransport.IPC if path else PortalTransport.TCP,
            path=path,
            port=port,
            send_queue_size=config.send_queue_size,
            receive_queue_size=config.receive_queue_size,
        )

    def _bind_port(self, socket: ZmqSocket, port: int, *, is_fixed: bool) -> int:
        """Bind a TCP port, or any if a remembered one is in use; returns it."""
        wanted: int | Literal["*"] = port or "*"
        try:
            self._bind(socket, tcp_endpoint(self.config.listen, wanted))
        except ConnectFailed:
            if is_fixed or not port:
                raise
            log.warning("the port of the last run is in use", extra={"port": port})
            self._bind(socket, tcp_endpoint(self.config.listen, "*"))
        return int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])

    def _bind(self, socket: ZmqSocket, endpoint: str) -> None:
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise ConnectFailed(f"cannot listen at {endpoint}: {error.strerror}") from None

    def _answer(self, parts: list[bytes]) -> None:
        # The connection, what the client puts before its request, an empty part, and the request.
        if b"" not in parts[1:]:
            return
        start = parts.index(b"", 1) + 1
        # A request has one part; the manager answers anything else as malformed.
        answer = self.manager.answer(parts[start] if len(parts) == start + 1 else b"")
        self._reply.send_multipart([*parts[:start], answer], zmq.NOBLOCK)
        self._report()

    def _receive(self, frame: bytes) -> None:
        answer = self.manager.receive(frame)
        if answer is not None:
            self._publisher.send(answer, zmq.NOBLOCK)
        self._report()

    def _report(self) -> None:
        events = self.manager.take_events()
        if events:
            self._on_events(events)


class _ConnectionCount:
    """Counts the connections of a bound socket."""

    def __init__(self, socket: ZmqSocket) -> None:
        self._open: set[int] = set()
        self.refused_count = 0
        self._monitor = socket.get_monitor_socket(_MONITORED)
        self._reader = FrameReader(self._monitor, self._observe, is_multipart=True)

    @property
    def count(self) -> int:
        return len(self._open)

    def close(self) -> None:
        self._reader.close()
        self._monitor.close(linger=0)

    def _observe(self, parts: list[bytes]) -> None:
        event, descriptor = struct.unpack("=hi", parts[0])
        if event == zmq.EVENT_ACCEPTED:
            self._open.add(descriptor)
        elif event == zmq.EVENT_DISCONNECTED:
            self._open.discard(descriptor)
        else:
            self.refused_count += 1
