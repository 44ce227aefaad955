"""A packet on the simulated network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from skerry.protocol.machine import Address

if TYPE_CHECKING:
    from skerry.testing.node import Node


UNICAST: Final = "unicast"
MULTICAST: Final = "multicast"
STREAM: Final = "stream"


class Packet:
    """A datagram, or a part of a stream, from one node to another.

    `checksum` is the Adler-32 of its data, not the CRC-32: that is the same for all datagrams which
    end with their own CRC-32, as those of RTPS do, so the trace would not show what they contain.
    """

    __slots__ = (
        "checksum",
        "data",
        "destination",
        "kind",
        "sent_ns",
        "source",
        "source_port",
        "to",
    )

    def __init__(
        self,
        source: Node[Any],
        destination: Node[Any],
        data: bytes,
        checksum: int,
        kind: str,
        sent_ns: int,
        to: Address | None = None,
        source_port: int = 0,
    ) -> None:
        """`to` is the address of the socket or group; None for the first socket. `source_port` is
        the port of the socket from which it was sent; 0 for the first one."""
        # Positional and not a dataclass for speed: one is made per datagram and receiver.
        self.source = source
        self.destination = destination
        self.data = data
        self.checksum = checksum
        self.kind = kind
        self.sent_ns = sent_ns
        self.to = destination.address if to is None else to
        self.source_port = source_port
