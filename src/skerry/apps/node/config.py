"""Section `node` of the configuration: all that can be said about a node before it runs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from skerry.apps.node.distributor_carriage import NodeDistributorConfig
from skerry.apps.node.recording_config import NodeRecordingConfig
from skerry.engine.admission.admission import AdmissionConfig
from skerry.observe.logs import Form, Level
from skerry.runtime.loops import LoopKind
from skerry.runtime.storage.config import StorageConfig
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.tls import TlsFiles
from skerry.runtime.streams.websocket import WebSocketConfig

__all__ = ["METRICS_ADDRESS", "LogConfig", "NodeConfig", "split_host_port"]

METRICS_ADDRESS: Final = "127.0.0.1:11237"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Section `node.log`: what is written about the node's day, and how."""

    level: Level = "info"
    """The least important that is written: debug, info, warning or error."""
    form: Form = "auto"
    """`text` for people, `json` for programs: one object a line. `auto` is text on a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Section `node`: a node and its doors."""

    name: str = "skerry"
    """What the node tells its clients."""
    system: str = ""
    """Name of the system whose nodes find each other on the network; empty for a node alone."""
    listen: tuple[str, ...] = ()
    """Endpoints to take clients at. Any of them replaces the usual places."""
    extensions: bool = True
    """Whether to offer what plain DOTS does not have. Off, every frame is as from a DOTS host."""
    metrics: str = METRICS_ADDRESS
    """HOST:PORT of the pages for metrics and health, or `off`."""
    socket_mode: str = "0600"
    """Rights of the node's Unix sockets, in octal digits."""
    socket_group: str | None = None
    """Group that the node's Unix sockets are given to, for a mode such as 0660."""
    batch_delay_ms: float = 2.0
    """How long updates for a client that receives a stream may be delayed, so that updates of
    several publishers are sent together; 0 for no delay. A single update is never delayed."""
    loop: LoopKind = "auto"
    """`uvloop`, `asyncio`, or the first of them that is installed."""
    tls: TlsFiles = field(default_factory=TlsFiles)
    log: LogConfig = field(default_factory=LogConfig)
    websocket: WebSocketConfig = field(default_factory=WebSocketConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    distributor: NodeDistributorConfig = field(default_factory=NodeDistributorConfig)
    recording: NodeRecordingConfig = field(default_factory=NodeRecordingConfig)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name is empty: clients would not know with whom they talk")
        if not re.fullmatch(r"0?[0-7]{3}", self.socket_mode):
            raise ValueError(f"socket_mode is three octal digits, and not {self.socket_mode!r}")
        if not 0 <= self.batch_delay_ms <= 100:
            raise ValueError(f"batch_delay_ms is 0 to 100, and not {self.batch_delay_ms}")
        if self.metrics != "off":
            split_host_port(self.metrics)
        for text in self.listen:
            parse_endpoint(text)

    @property
    def socket_bits(self) -> int:
        """The rights of Unix sockets as a number."""
        return int(self.socket_mode, 8)


def split_host_port(text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT, a host with colons in brackets; ValueError if it is none."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, as in {METRICS_ADDRESS}")
    return host, int(port)
