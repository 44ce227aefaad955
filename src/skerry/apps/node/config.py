"""Section `node` of the configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

from skerry.apps.node.distributor_carriage import NodeDistributorConfig
from skerry.apps.node.peers import NodePeersConfig
from skerry.apps.node.portal import NodePortalConfig
from skerry.engine.admission.admission import AdmissionConfig
from skerry.limits import RECORDER_QUEUE_BYTES_MAX
from skerry.observe.logs import Form, Level
from skerry.protocol.discovery.descriptions import NODE_NAME_CHAR_COUNT_MAX
from skerry.runtime.loops import LoopKind
from skerry.runtime.recordings.config import RecordingConfig
from skerry.runtime.storage.contract import StorageConfig
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.tls import TlsFiles
from skerry.runtime.streams.websocket import WebSocketConfig

METRICS_ADDRESS: Final = "127.0.0.1:11237"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Section `node.log`: level and form of log lines."""

    level: Level = "info"
    """Lowest level that is logged: debug, info, warning or error."""
    form: Form = "auto"
    """`text`, `json` (one object per line), or `auto`: text on a terminal, JSON elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecordingConfig(RecordingConfig):
    """Section `node.recording`: the recording that a node makes of its own updates."""

    folder: str = ""
    """Folder of the recording; empty for no recording."""
    queue_bytes_max: int = RECORDER_QUEUE_BYTES_MAX
    """Bytes of rows that may wait for the disk. Above it, new updates are dropped, and a gap row
    states which."""

    def __post_init__(self) -> None:
        RecordingConfig.__post_init__(self)
        check_queue_bytes(self.queue_bytes_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Section `node`: a node and its endpoints."""

    name: str = "skerry"
    """Name of the node, which clients receive."""
    system: str = ""
    """Name of the system whose nodes find each other on the network; empty for a single node."""
    peers: NodePeersConfig = field(default_factory=NodePeersConfig)
    listen: tuple[str, ...] = ()
    """Endpoints at which clients connect. If any is given, the default endpoints are not used."""
    extensions: bool = True
    """Whether to offer the additions of skerry. If off, every frame is as from a DOTS host."""
    metrics: str = METRICS_ADDRESS
    """HOST:PORT of the pages for metrics and health, or `off`."""
    socket_mode: str = "0600"
    """Permissions of the node's Unix sockets, in octal digits."""
    socket_group: str | None = None
    """Group of the node's Unix sockets, for a mode such as 0660."""
    batch_delay_ms: float = 2.0
    """Milliseconds that updates for a client that receives a stream may be delayed, so that updates
    of several publishers are sent together; 0 for no delay. A single update is never delayed."""
    loop: LoopKind = "auto"
    """Event loop: `uvloop`, `asyncio`, or `auto`: the first of them that is installed."""
    tls: TlsFiles = field(default_factory=TlsFiles)
    log: LogConfig = field(default_factory=LogConfig)
    websocket: WebSocketConfig = field(default_factory=WebSocketConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    distributor: NodeDistributorConfig = field(default_factory=NodeDistributorConfig)
    recording: NodeRecordingConfig = field(default_factory=NodeRecordingConfig)
    portal: NodePortalConfig = field(default_factory=NodePortalConfig)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name is empty: clients could not identify the node")
        if not re.fullmatch(r"0?[0-7]{3}", self.socket_mode):
            raise ValueError(f"socket_mode is {self.socket_mode!r}, not three octal digits")
        if not 0 <= self.batch_delay_ms <= 100:
            raise ValueError(f"batch_delay_ms is {self.batch_delay_ms}, not 0 to 100")
        if self.metrics != "off":
            split_host_port(self.metrics)
        for text in self.listen:
            parse_endpoint(text)
        if not self.system and self.peers != NodePeersConfig():
            raise ValueError("peers is configured without the name of a system; add system")
        if self.system:
            self.effective_peers()
            if len(self.name) > NODE_NAME_CHAR_COUNT_MAX:
                limit = NODE_NAME_CHAR_COUNT_MAX
                raise ValueError(
                    f"name has {len(self.name)} characters; in a system, at most {limit}"
                )

    def effective_peers(self) -> NodePeersConfig:
        """Section `peers`, with the interface of the distributor where it names none."""
        interface = self.distributor.interface
        if self.peers.control or not interface:
            return self.peers
        return replace(self.peers, control=f"[{interface}]" if ":" in interface else interface)

    @property
    def socket_bits(self) -> int:
        return int(self.socket_mode, 8)


def split_host_port(text: str) -> tuple[str, int]:
    """Split HOST:PORT; an IPv6 address is in brackets. ValueError if it is not HOST:PORT."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT such as {METRICS_ADDRESS}")
    return host, int(port)


def check_queue_bytes(size: int) -> None:
    if not 1 <= size <= RECORDER_QUEUE_BYTES_MAX:
        raise ValueError(f"queue_bytes_max is {size}, not 1 to {RECORDER_QUEUE_BYTES_MAX}")
