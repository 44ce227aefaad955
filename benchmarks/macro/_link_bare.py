"""The messages of the benchmark of the link over bare sockets: what nothing can be cheaper than.

The datagrams have the size of ours, go to a multicast group, and as many are in flight. A receiver
answers each half window with one datagram. Nothing is numbered, checked or repeated, so that a lost
datagram ends the benchmark.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from skerry.protocol.link.config import LinkConfig
from skerry.protocol.node_types import NodeType
from skerry.runtime.udp.datagrams import set_buffers

__all__ = ["BarePeer"]

GROUP, LOOP = "239.255.77.10", "127.0.0.1"
DATAGRAM_BYTES: Final = LinkConfig().loopback_datagram_bytes - 128
WINDOW: Final = NodeType().window(LinkConfig().loopback_datagram_bytes)
BUFFER_BYTES: Final = 4 * 1024 * 1024


class BarePeer:
    """One sender, and any number of receivers."""

    def __init__(self, load: Any, env: dict[str, Any]) -> None:
        (self._size,) = load.sizes
        self.burst = max(1, DATAGRAM_BYTES // self._size)
        """Messages of one datagram."""
        self._sender, self._group = (LOOP, env["ports"][0]), (GROUP, env["ports"][1])
        self._taken = dict.fromkeys(range(1, load.node_count), -1)
        """Datagrams that each receiver has acknowledged; -1 before it is there."""
        self._number = env["number"]
        self._count = 0
        """Datagrams that were sent or received."""
        self._parts: list[bytes] = []
        self._message: Callable[[bytes], object] = len
        self._made = made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        set_buffers(made, BUFFER_BYTES)
        way = socket.inet_aton(LOOP)
        if self._number:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(self._group)
            joined = socket.inet_aton(GROUP) + way
            made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
        else:
            made.bind(self._sender)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, way)

    def receive_from(self, _: int, message: Callable[[bytes], None]) -> None:
        self._message = message

    def wait_until_connected(self) -> None:
        """The sender asks the group until all have answered."""
        if self._number:
            self._made.recv(1)
            self._acknowledge()
        while not self._number and min(self._taken.values()) < 0:
            self._made.sendto(b"", self._group)
            self._take_acknowledgement(0.01)

    def send(self, share: list[bytes]) -> int:
        if self._count - min(self._taken.values()) >= WINDOW:
            self._take_acknowledgement(0.1)
            return 0
        data = b"".join(share) if len(share) > 1 else share[0]
        for at in range(0, len(data), DATAGRAM_BYTES):
            self._made.sendto(memoryview(data)[at : at + DATAGRAM_BYTES], self._group)
            self._count += 1
        return len(share)

    def poll(self, timeout_s: float) -> None:
        self._made.settimeout(timeout_s)
        try:
            while True:
                self._received(self._made.recv(65_535))
                self._made.settimeout(0)
        except (BlockingIOError, TimeoutError):
            return

    def close(self) -> None:
        self._made.close()

    def _received(self, data: bytes) -> None:
        if not data:
            return
        self._count += 1
        if self._count % (WINDOW // 2) == 0:
            self._acknowledge()
        size, message = self._size, self._message
        if size <= DATAGRAM_BYTES:
            for at in range(0, len(data), size):
                message(data[at : at + size])
            return
        self._parts.append(data)
        if len(self._parts) * DATAGRAM_BYTES >= size:
            message(b"".join(self._parts))
            self._parts.clear()

    def _acknowledge(self) -> None:
        self._made.sendto(struct.pack("=2Q", self._number, self._count), self._sender)

    def _take_acknowledgement(self, timeout_s: float) -> None:
        self._made.settimeout(timeout_s)
        try:
            number, count = struct.unpack("=2Q", self._made.recv(16))
        except TimeoutError:
            return
        self._taken[number] = count
