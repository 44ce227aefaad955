"""Parameters of a portal and of its clients, and the addresses that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from skerry.limits import PAYLOAD_BYTES_MAX
from skerry.protocol.portal.publication_buffer import (
    BUFFERED_BYTES_DEFAULT,
    BUFFERED_COUNT_DEFAULT,
)

IPC_PATH_BYTES_MAX: Final = 107
"""Path of a Unix socket: the structure of the kernel has 108 bytes, with a NUL."""
CLIENT_NAME_CHAR_COUNT_MAX: Final = 200
"""Characters of a client's name that a manager remembers and reports."""
_QUEUE_SIZE_MAX: Final = 2**31 - 1
"""ZeroMQ counts messages in a signed number of 32 bits."""
_IO_THREAD_COUNT_MAX: Final = 64
"""More threads than a network needs; each takes memory for its stack."""
_SUFFIXES: Final = (".manager", ".xpub", ".xsub")
_DEFAULT_FOLDER: Final = "/tmp/goby_"  # noqa: S108 - the path that Goby programs use


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalConfig:
    """What a portal and its clients have in common, under the names of Goby if it has one."""

    platform: str = "default_goby_platform"
    """Name of the vehicle; part of the default path of IPC sockets."""
    transport: Literal["ipc", "tcp"] = "ipc"
    """`ipc`: Unix sockets of this computer; `tcp`: TCP."""
    socket_name: str = ""
    """Path of the IPC sockets without their suffixes; empty for `/tmp/goby_` and the platform."""
    address: str = "127.0.0.1"
    """Host at which clients reach the manager by TCP."""
    tcp_port: int = 11144
    """TCP port of the manager."""
    send_queue_size: int = 1000
    """Messages that a socket keeps for each peer that does not read; 0 for no limit."""
    receive_queue_size: int = 1000
    """Messages that a socket keeps of each peer until the program reads; 0 for no limit."""
    io_threads: int = 4
    """Threads of ZeroMQ for network I/O."""
    message_bytes_max: int = 16 * 1024 * 1024
    """Bytes of one message. A peer that sends a larger one is disconnected."""

    def __post_init__(self) -> None:
        if not self.platform or "/" in self.platform or "\0" in self.platform:
            raise ValueError(f"platform {self.platform!r} is not a name without slashes")
        if "\0" in self.socket_name:
            raise ValueError("socket_name contains a NUL")
        longest = len(self.base.encode("utf-8", "surrogateescape")) + len(_SUFFIXES[0])
        if self.transport == "ipc" and longest > IPC_PATH_BYTES_MAX:
            raise ValueError(
                f"the path {self.base}{_SUFFIXES[0]} has {longest} bytes, the limit of Unix sockets"
                f" is {IPC_PATH_BYTES_MAX}; choose a shorter socket_name"
            )
        if not 1 <= self.tcp_port <= 65535:
            raise ValueError(f"tcp_port is {self.tcp_port}, not 1 to 65535")
        for name, value, low, high in (
            ("send_queue_size", self.send_queue_size, 0, _QUEUE_SIZE_MAX),
            ("receive_queue_size", self.receive_queue_size, 0, _QUEUE_SIZE_MAX),
            ("io_threads", self.io_threads, 1, _IO_THREAD_COUNT_MAX),
            ("message_bytes_max", self.message_bytes_max, 1024, PAYLOAD_BYTES_MAX),
        ):
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}, not {low} to {high}")
        if not self.address or set(self.address) & set("/ \0"):
            raise ValueError(f"address {self.address!r} is not a host")

    @property
    def base(self) -> str:
        """The path of the IPC sockets without their suffixes."""
        return self.socket_name or _DEFAULT_FOLDER + self.platform

    @property
    def manager(self) -> str:
        """The endpoint at which clients reach the manager."""
        if self.transport == "ipc":
            return ipc_endpoint(f"{self.base}.manager")
        return tcp_endpoint(self.address, self.tcp_port)


def ipc_endpoint(path: str) -> str:
    """Return the ZeroMQ endpoint of a Unix socket."""
    return f"ipc://{path}"


def tcp_endpoint(host: str, port: int | Literal["*"]) -> str:
    """Return the ZeroMQ endpoint of a TCP port; an IPv6 address is put in brackets."""
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"tcp://{shown}:{port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalClientConfig(PortalConfig):
    """A client of a portal."""

    client_name: str = ""
    """Name of the client, which the hold may require; empty for the name of the program."""
    manager_timeout_s: float = 5.0
    """Time without an answer of the manager after which the client connects again."""
    settle_s: float = 0.2
    """Longest time after the release of the hold that the client waits until the router knows its
    subscriptions, before it sends what it has kept; 0 for no wait."""
    rejoin_s: float = 0.5
    """Time that the client waits for the other clients after it has found a restarted broker,
    before it sends what it has kept."""
    buffer_count_max: int = BUFFERED_COUNT_DEFAULT
    """Publications that are kept while they cannot be sent. Above it, the oldest are dropped."""
    buffer_bytes_max: int = BUFFERED_BYTES_DEFAULT
    """Bytes of these publications."""
    echo: bool = True
    """Whether subscriptions receive what this process publishes."""

    def __post_init__(self) -> None:
        PortalConfig.__post_init__(self)
        for name, value, low, high in (
            ("manager_timeout_s", self.manager_timeout_s, 0.1, 3600),
            ("settle_s", self.settle_s, 0, 60),
            ("rejoin_s", self.rejoin_s, 0, 60),
            ("buffer_count_max", self.buffer_count_max, 1, 10_000_000),
            ("buffer_bytes_max", self.buffer_bytes_max, 1024, 64 * 1024**3),
        ):
            if not low <= value <= high:
                raise ValueError(f"{name} is {value:g}, not {low:g} to {high:g}")
        if len(self.client_name) > CLIENT_NAME_CHAR_COUNT_MAX:
            raise ValueError(f"client_name has over {CLIENT_NAME_CHAR_COUNT_MAX} characters")
