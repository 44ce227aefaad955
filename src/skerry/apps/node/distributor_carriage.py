"""The distributor carriage of a node: messages of the site by the multicast group of its system.

It runs on the node's loop. Messages that the node writes in one iteration are sent together in the
next one. Datagrams of the group are read in portions, so that clients are served in between.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from skerry.apps.node.in_process_stream import InProcessStream
from skerry.engine.admission.origins import INSIDE
from skerry.engine.carriage.distributor.carriage import GroupCarriage, system_group
from skerry.engine.carriage.distributor.events import GroupStatistics
from skerry.protocol.access.wire import Wire
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.events import ConnectionClosed
from skerry.protocol.machine import Address, MachineEvent
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.key_files import open_seal, read_keys
from skerry.runtime.machine_driver import MachineDriver
from skerry.runtime.streams.node_server import NodeServer
from skerry.runtime.udp.group_driver import GroupDriver, host_name
from skerry.runtime.udp.interfaces import parse_group

_DEFAULTS: Final = DistributorConfig()
_HOST: Final = host_name(_DEFAULTS.control_bytes // 4) or _DEFAULTS.host
_NONE: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDistributorConfig:
    """Section `node.distributor`: the multicast group that connects the nodes of a system.

    Parameters without a description are those of `DistributorConfig`.
    """

    group: str = ""
    """Address and port of the group; empty for the group of the system, if it has a name, and
    `none` for no multicast."""
    interface: str = ""
    """Name or address of the network interface; empty for the one the system chooses."""
    ttl: int = _DEFAULTS.ttl
    socket_buffer_bytes: int = 4_000_000
    key_file: str = ""
    """File with the keys of the group; empty for a group without a seal."""
    freshness_s: int = _DEFAULTS.freshness_s
    """Largest difference between now and the time of a sealed datagram; 0 for no limit."""
    sender_id: int = 0
    segment_bytes: int = _DEFAULTS.segment_bytes
    unicode_subjects: bool = False
    heartbeat_interval_ms: int = _DEFAULTS.heartbeat_interval_ms
    configuration_interval_ms: int = _DEFAULTS.configuration_interval_ms
    """Interval at which the node and the types in use are announced to the group."""
    holdback_delay_ms: int = 0
    holdback_threshold_per_s: int = _DEFAULTS.holdback_threshold_per_s
    bandwidth_mbit_max: float = 0.0
    """Limit of data per second, in Mbit; 0 for no limit. Updates above it wait in the node."""
    request_delay_ms_max: int = _DEFAULTS.request_delay_ms_max
    request_timeout_ms: int = _DEFAULTS.request_timeout_ms
    request_retry_count_max: int = _DEFAULTS.request_retry_count_max
    """Number of retries; after them the datagram is lost, which is logged."""
    cache_bytes_max: int = _DEFAULTS.cache_bytes_max
    cache_age_s: int = _DEFAULTS.cache_age_s

    def __post_init__(self) -> None:
        if self.group not in ("", _NONE):
            parse_group(self.group, key="node.distributor.group")
        self.connection_config()

    def connection_config(self, *, application: str = "skerry") -> DistributorConfig:
        """The parameters of the connection. A node does not end it because of many repairs."""
        given = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "group"
        }
        name = application.encode("ascii", "ignore")[: _DEFAULTS.control_bytes // 4].decode()
        return DistributorConfig(
            **given, application=name or "skerry", host=_HOST, nagging_window_ms=0
        )


def group_of_node(config: NodeDistributorConfig, system: str) -> Address | None:
    """The group of a node; None without a configured group and without a system name."""
    if config.group == _NONE or not (config.group or system):
        return None
    return Address(*parse_group(config.group)) if config.group else system_group(system)


class NodeDistributorCarriage:
    """Connects the server of a node with a multicast group."""

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
        """Raises ConfigError for an invalid value, ConnectFailed if the group cannot be joined.

        `hear` is called with the events of the connection.
        """
        self._server = server
        self._hear = hear
        self._key_file = config.key_file
        self._seal = (
            open_seal(config.key_file, freshness_s=config.freshness_s) if config.key_file else None
        )
        parameters = config.connection_config(application=name)
        self._driver = GroupDriver(group, parameters, rng=rng, seal=self._seal)
        try:
            self._carriage = GroupCarriage(
                server.core, self._driver.machine, config=parameters, now_ns=monotonic_ns()
            )
            self._machine_driver = MachineDriver(
                self._carriage, take_input=self._take_input, send=self._send, on_events=self._report
            )
        except BaseException:
            self._driver.close()
            raise
        self._stream: InProcessStream | None = None
        self._is_ended = asyncio.Event()
        self._is_closing = False

    @property
    def address_text(self) -> str:
        """Group and interface, for messages."""
        group, interface = self._driver.group, self._driver.socket.interface
        return f"{group.text} on {interface.name or interface.address}"

    def start(self) -> None:
        self._machine_driver.turns.add_reader(self._driver.socket.fileno(), self._readable)
        self._machine_driver.turn()

    def reload_keys(self) -> None:
        """Read the keys of the group again; if that fails, raises ConfigError and keeps the old."""
        if self._seal is not None:
            self._seal.rekey(read_keys(self._key_file))

    def statistics(self) -> GroupStatistics:
        return GroupStatistics(
            carrier=self._carriage.statistics(),
            seal=None if self._seal is None else self._seal.statistics(),
            kernel_drop_count=self._driver.socket.drop_count,
        )

    async def close(self) -> None:
        """Close the connection, serve the last repair requests, and leave the group."""
        has_sent = self._driver.machine.statistics().sent_datagram_count > 0
        self._is_closing = True
        self._carriage.close(monotonic_ns())
        self._machine_driver.turn()
        if has_sent:
            await self._is_ended.wait()
        self._machine_driver.close()
        self._driver.close()
        if self._stream is not None:
            self._stream.close()

    # -- called by the stream to the node

    def data_written(self, stream: InProcessStream) -> None:
        """The node wrote messages, which are processed in the next iteration of the loop."""
        if stream is self._stream:
            self._machine_driver.wake()

    def stream_closed(self, stream: InProcessStream) -> None:
        """The node ended the stream."""
        if stream is self._stream:
            self._stream = None
            if not self._is_closing:
                self._carriage.node_closed(monotonic_ns())
                self._machine_driver.wake()

    def _readable(self) -> None:
        self._driver.read(monotonic_ns())
        self._machine_driver.turn()

    def _take_input(self, now_ns: int) -> bool:
        """Pass what the node wrote, and what was read, to the carriage."""
        self._open_if_due(now_ns)
        stream = self._stream
        if stream is not None and stream.waiting:
            data = b"".join(stream.waiting)
            stream.waiting.clear()
            self._carriage.node_said(data, now_ns)
        self._carriage.advance(now_ns)
        return False

    def _send(self) -> None:
        """Send in both directions: to the group, and to the clients of the node."""
        self._driver.send_ready()
        self._server.carry()

    def _open_if_due(self, now_ns: int) -> None:
        opens_ns = self._carriage.opens_ns
        if opens_ns is None or now_ns < opens_ns or self._is_closing:
            return
        self._stream = stream = InProcessStream(self, self._server)
        stream.address = self._server.opened(stream, Wire(), INSIDE, True)
        # If the node has no room for another client, it has closed the stream already.
        if self._stream is stream:
            self._carriage.node_opened(stream.address)

    def _report(self, events: Sequence[MachineEvent]) -> None:
        self._hear(events)
        if any(isinstance(event, ConnectionClosed) for event in events):
            self._is_ended.set()
