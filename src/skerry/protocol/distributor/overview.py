"""The overview that each distributor multicasts for monitoring programs.

It is sent to its own group, as a number for the kind of message followed by the fields.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from skerry.protocol.distributor.wire import JAVA_WIRE

OVERVIEW: Final = 0x10001
"""The number of this kind of message."""
OVERVIEW_BYTES_MAX: Final = 512
"""The Java program reads at most this much."""

NAME_BYTES_MAX: Final = 180
"""With two names of this length and any address, the other fields still fit."""

_COUNTS: Final = struct.Struct(">7i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    application: str | None
    distributor_id: int
    start_time: str | None
    """As `HH:mm:ss.SSS`."""
    address: str | None
    host: str | None
    tcp_port: int
    publisher_count: int
    subscriber_count: int
    connection_count: int
    requests_sent_count: int
    requests_received_count: int
    subscription_count: int

    def encode(self) -> bytes:
        text = JAVA_WIRE.text
        return b"".join(
            (
                OVERVIEW.to_bytes(4, "big"),
                text(self.application),
                self.distributor_id.to_bytes(8, "big", signed=True),
                text(self.start_time),
                text(self.address),
                text(self.host),
                _COUNTS.pack(
                    self.tcp_port,
                    self.publisher_count,
                    self.subscriber_count,
                    self.connection_count,
                    self.requests_sent_count,
                    self.requests_received_count,
                    self.subscription_count,
                ),
            )
        )


def shortened(name: str) -> str:
    """Return as much of a name as fits into an overview."""
    return name.encode()[:NAME_BYTES_MAX].decode(errors="ignore")
