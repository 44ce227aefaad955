"""The parameters of a link that are not those of a node type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from skerry.limits import DATAGRAM_BYTES_MAX
from skerry.protocol.rtps.datagram_writer import FRAME_BYTES_MAX

__all__ = ["DATAGRAM_BYTES_MIN", "FRAGMENT_COUNT_MAX", "LinkConfig"]

FRAGMENT_COUNT_MAX: Final = 1 << 16
"""Fragments of one message."""
DATAGRAM_BYTES_MIN: Final = 512
"""With less, most of a datagram is headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConfig:
    """How the nodes of a system exchange datagrams. It is the same at all of them."""

    datagram_bytes: int = 1450
    """Size of the largest datagram: what fits an Ethernet frame with some room for tunnels."""
    loopback_datagram_bytes: int = 32_768
    """The same for nodes with addresses of the loopback interface, which reaches no other computer
    and no further. Large datagrams cost less than many."""
    send_queue_packet_count: int = 200
    """Packets of one stream that may wait for acknowledgement. More are refused."""
    send_queue_bytes: int = 1_048_576
    """The same in bytes of datagrams, so that large ones do not take much memory."""
    message_bytes_max: int = 64 * 1024 * 1024
    """Size of the largest message."""
    checksum: bool = True
    """Whether each datagram has a checksum."""

    def __post_init__(self) -> None:
        for value, key, low, high in (
            (self.datagram_bytes, "datagram_bytes", DATAGRAM_BYTES_MIN, DATAGRAM_BYTES_MAX),
            (
                self.loopback_datagram_bytes,
                "loopback_datagram_bytes",
                DATAGRAM_BYTES_MIN,
                DATAGRAM_BYTES_MAX,
            ),
            (self.send_queue_packet_count, "send_queue_packet_count", 1, 1_000_000),
            (self.send_queue_bytes, "send_queue_bytes", 1, 1 << 40),
            (self.message_bytes_max, "message_bytes_max", 1, (1 << 32) - 1),
        ):
            if not low <= value <= high:
                raise ValueError(f"{key} = {value} is not between {low} and {high}")

    def sealed(self, seal_bytes: int) -> LinkConfig:
        """Return the parameters of datagrams that are sealed before they are sent: `seal_bytes`
        longer, and authenticated without a checksum."""
        return replace(self, datagram_bytes=self.datagram_bytes - seal_bytes, checksum=False)

    def on_loopback(self, room_bytes: int) -> LinkConfig:
        """Return the parameters of nodes that only reach their own computer, whose loopback
        interface has room for datagrams of `room_bytes`."""
        size = max(DATAGRAM_BYTES_MIN, min(self.loopback_datagram_bytes, room_bytes))
        return replace(self, datagram_bytes=size)

    @property
    def queue_packet_count(self) -> int:
        """Packets of one stream that may wait for acknowledgement."""
        return max(
            1, min(self.send_queue_packet_count, self.send_queue_bytes // self.datagram_bytes)
        )

    @property
    def fragment_bytes(self) -> int:
        """Bytes of a sample that fit a datagram."""
        return (self.datagram_bytes - FRAME_BYTES_MAX) // 4 * 4
