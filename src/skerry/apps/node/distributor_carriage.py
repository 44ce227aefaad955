"""The carrier of a node on real sockets: messages of the site by the multicast group of its system.

It lives on the node's loop. What the node gives it in one turn goes out together in the next one,
and what comes from the group is read in portions, so that clients have their turn between.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from skerry.apps.node.in_process_stream import InsideStream
from skerry.engine.admission.admission import INSIDE
from skerry.engine.carriage.distributor.carriage import GroupCarriage, system_group
from skerry.engine.carriage.distributor.events import GroupStatistics
from skerry.protocol.access.wire import Wire
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import ConnectionClosed, Direction
from skerry.protocol.distributor.identity import address_bytes, draw_identity
from skerry.protocol.machine import Address, MachineEvent
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.key_files import open_seal, read_keys
from skerry.runtime.streams.node_server import NodeServer
from skerry.runtime.udp.interfaces import parse_group
from skerry.runtime.udp.multicast import MulticastSocket, SenderNumber
from skerry.runtime.udp.segmentation import split_segments

__all__ = ["NodeCarrier", "NodeDistributorConfig", "group_of_node"]

_READ_COUNT_MAX: Final = 16
"""Calls of the kernel in one go; a few hundred datagrams, before others have their turn."""
_MS: Final = 1_000_000
_DEFAULTS: Final = DistributorConfig()
_NONE: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDistributorConfig:
    """Section `node.distributor`: the multicast group by which messages go to the other nodes."""

    group: str = ""
    """Address and port of the group; empty for that of the system, if one is named, and `none` for
    no multicast at all."""
    interface: str = ""
    """Name or address of the network interface; empty for the one the system chooses."""
    ttl: int = _DEFAULTS.ttl
    """How many routers a datagram may pass, itself included: 1 stays on the local network."""
    socket_buffer_bytes: int = 4_000_000
    """Size that is asked of the system for the receive and the send buffer."""
    key_file: str = ""
    """File with the keys of the group; empty for a group that anybody can read and write."""
    freshness_s: int = _DEFAULTS.freshness_s
    """How far from now the time of a sealed datagram may be; 0 for any, where clocks are apart."""
    sender_id: int = 0
    """Number that is unique on this computer; 0 to find one."""
    segment_bytes: int = _DEFAULTS.segment_bytes
    """Size of the largest data datagram."""
    unicode_subjects: bool = False
    """Publish subjects beyond ASCII too. A Java program would read others."""
    heartbeat_interval_ms: int = _DEFAULTS.heartbeat_interval_ms
    configuration_interval_ms: int = _DEFAULTS.configuration_interval_ms
    """How often the node and the types in use are told to the group."""
    holdback_delay_ms: int = 0
    """How long an update may wait for others to share its datagram; 0 sends what came together."""
    holdback_threshold_per_s: int = _DEFAULTS.holdback_threshold_per_s
    """Updates wait only while more than this many are published a second."""
    bandwidth_mbit_max: float = 0.0
    """Data sent a second, in Mbit; 0 for no limit. What is above waits in the node."""
    request_delay_ms_max: int = _DEFAULTS.request_delay_ms_max
    """A lost datagram is asked for after a random time up to this."""
    request_timeout_ms: int = _DEFAULTS.request_timeout_ms
    """An answer that has not come by then is asked for again."""
    request_retry_count_max: int = _DEFAULTS.request_retry_count_max
    """How often it is asked for again; then it is lost, which is logged."""
    cache_bytes_max: int = _DEFAULTS.cache_bytes_max
    """Sent datagrams that are kept to be sent again."""
    cache_age_s: int = _DEFAULTS.cache_age_s
    """How long they are kept; 0 for as long as there is room."""

    def __post_init__(self) -> None:
        if self.group not in ("", _NONE):
            parse_group(self.group)
        self.connection_config()

    def connection_config(self, *, application: str = "skerry") -> DistributorConfig:
        """The parameters of the connection. A node never gives up because it asks too much."""
        given = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "group"
        }
        name = application.encode("ascii", "ignore")[: _DEFAULTS.control_bytes // 4].decode()
        return DistributorConfig(
            **given, application=name or "skerry", host=_host_name(), nagging_window_ms=0
        )


def group_of_node(config: NodeDistributorConfig, system: str) -> Address | None:
    """The group that a node is to be in, if there is one: no multicast without being told."""
    if config.group == _NONE or not (config.group or system):
        return None
    return Address(*parse_group(config.group)) if config.group else system_group(system)


class NodeCarrier:
    """Between a node's server and a multicast socket."""

    def __init__(
        self,
        server: NodeServer,
        group: Address,
        config: NodeDistributorConfig,
        *,
        name: str,
        rng: Random,
        hear: Callable[[Sequence[MachineEvent]], None],
    ) -> None:
        """ConfigError for what cannot be used, ConnectFailed if the group cannot be joined."""
        self._server = server
        self._hear = hear
        self._key_file = config.key_file
        self._seal = (
            open_seal(config.key_file, freshness_s=config.freshness_s) if config.key_file else None
        )
        parameters = config.connection_config(application=name)
        self._number: SenderNumber | None = None
        self._socket = MulticastSocket(
            group,
            interface=config.interface,
            ttl=config.ttl,
            buffer_bytes=config.socket_buffer_bytes,
        )
        try:
            if not config.sender_id:
                self._number = SenderNumber(parameters.sender_id_first)
            now_ns = monotonic_ns()
            self._connection = self._make_connection(parameters, rng, now_ns)
            self._carrier = GroupCarriage(
                server.core, self._connection, config=parameters, now_ns=now_ns
            )
        except BaseException:
            self._leave()
            raise
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self._turning: asyncio.Handle | None = None
        self._stream: InsideStream | None = None
        self._failures: dict[Direction, str] = {}
        self._is_ended = asyncio.Event()
        self._is_closing = False

    @property
    def place(self) -> str:
        """Group and interface, for people."""
        group, interface = self._socket.group, self._socket.interface
        host = f"[{group.host}]" if ":" in group.host else group.host
        return f"{host}:{group.port} on {interface.name or interface.address}"

    def start(self) -> None:
        """Begin to carry."""
        self._loop.add_reader(self._socket.fileno(), self._readable)
        self._turn()

    def reload_keys(self) -> None:
        """Read the keys of the group anew; ConfigError if that fails, and all stays as it was."""
        if self._seal is not None:
            self._seal.rekey(read_keys(self._key_file))

    def statistics(self) -> GroupStatistics:
        """All counters."""
        return GroupStatistics(
            carrier=self._carrier.statistics(),
            seal=None if self._seal is None else self._seal.statistics(),
            kernel_drop_count=self._socket.drop_count,
        )

    async def close(self) -> None:
        """Say goodbye, serve the last requests, and leave the group."""
        has_sent = self._connection.statistics().sent_datagram_count > 0
        self._is_closing = True
        self._carrier.close(monotonic_ns())
        self._turn()
        if has_sent:
            await self._is_ended.wait()
        self._loop.remove_reader(self._socket.fileno())
        for handle in (self._timer, self._turning):
            if handle is not None:
                handle.cancel()
        self._leave()
        if self._stream is not None:
            self._stream.close()

    # -- what the node tells

    def said(self, stream: InsideStream) -> None:
        """The node wrote something: it is taken up when all others had their turn."""
        if stream is self._stream:
            self._turn_soon()

    def ended(self, stream: InsideStream) -> None:
        """The node ended the stream."""
        if stream is self._stream:
            self._stream = None
            if not self._is_closing:
                self._carrier.node_closed(monotonic_ns())
                self._turn_soon()

    # -- inside

    def _make_connection(
        self, parameters: DistributorConfig, rng: Random, now_ns: int
    ) -> GroupConnection:
        address = self._socket.interface.address
        return GroupConnection(
            group=self._socket.group,
            identity=draw_identity(
                address=address_bytes(address) if address else bytes(4),
                sender_id=self._number.value if self._number else parameters.sender_id,
                process_id=os.getpid(),
                wall_ms=wall_ns() // _MS,
                rng=rng,
            ),
            rng=rng,
            now_ns=now_ns,
            config=parameters,
            seal=self._seal,
            segment_bytes=self._socket.segment_bytes,
            wall_offset_ns=wall_ns() - monotonic_ns(),
        )

    def _leave(self) -> None:
        self._socket.close()
        if self._number is not None:
            self._number.close()

    def _turn_soon(self) -> None:
        if self._turning is None:
            self._turning = self._loop.call_soon(self._turn)

    def _readable(self) -> None:
        now_ns = monotonic_ns()
        try:
            for _ in range(_READ_COUNT_MAX):
                data, size, source = self._socket.receive()
                for datagram in split_segments(data, size):
                    self._carrier.receive(datagram, source, now_ns)
        except BlockingIOError:
            self._failures.pop(Direction.RECEIVE, None)
        except OSError as error:
            self._failed(Direction.RECEIVE, error)
        self._turn()

    def _turn(self) -> None:
        """Carry bytes both ways, do what is due, and set the alarm clock."""
        if self._turning is not None:
            self._turning.cancel()
            self._turning = None
        now_ns = monotonic_ns()
        self._open_if_due(now_ns)
        stream = self._stream
        if stream is not None and stream.waiting:
            data = b"".join(stream.waiting)
            stream.waiting.clear()
            self._carrier.node_said(data, now_ns)
        self._carrier.advance(now_ns)
        self._send()
        # Its clients hear what came from the group.
        self._server.carry()
        self._tell()
        self._set_timer(now_ns)

    def _open_if_due(self, now_ns: int) -> None:
        opens_ns = self._carrier.opens_ns
        if opens_ns is None or now_ns < opens_ns or self._is_closing:
            return
        self._stream = stream = InsideStream(self, self._server)
        stream.address = self._server.opened(stream, Wire(), INSIDE, True)
        # Where there was no room for one more client, it is gone already.
        if self._stream is stream:
            self._carrier.node_opened(stream.address)

    def _send(self) -> None:
        datagrams = self._carrier.take_datagrams()
        if not datagrams:
            return
        try:
            self._socket.send_all(datagrams)
        except OSError as error:
            self._failed(Direction.SEND, error)
        else:
            self._failures.pop(Direction.SEND, None)

    def _failed(self, direction: Direction, error: OSError) -> None:
        """Told once, until it works again or something else is wrong."""
        reason = error.strerror or str(error)
        if self._failures.get(direction) != reason:
            self._failures[direction] = reason
            self._connection.failed(direction, reason)

    def _tell(self) -> None:
        events = self._carrier.take_events()
        if events:
            self._hear(events)
        if any(isinstance(event, ConnectionClosed) for event in events):
            self._is_ended.set()

    def _set_timer(self, now_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ns = self._carrier.deadline_ns()
        if due_ns is not None:
            self._timer = self._loop.call_later(max(0, due_ns - now_ns) / 1e9, self._turn)


def _host_name() -> str:
    name = socket.gethostname().encode("ascii", "ignore")[: _DEFAULTS.control_bytes // 4]
    return name.decode() or _DEFAULTS.host
