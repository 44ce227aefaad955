"""A packet on the simulated network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from skerry.testing.node import Node

__all__ = ["MULTICAST", "STREAM", "UNICAST", "Packet"]

UNICAST: Final = "unicast"
MULTICAST: Final = "multicast"
STREAM: Final = "stream"


class Packet:
    """A datagram, or a part of a stream, from one node to another."""

    __slots__ = ("crc", "data", "destination", "kind", "sent_ns", "source")

    def __init__(
        self,
        source: Node[Any],
        destination: Node[Any],
        data: bytes,
        crc: int,
        kind: str,
        sent_ns: int,
    ) -> None:
        # Positional and not a dataclass for speed: one is made per datagram and receiver.
        self.source = source
        self.destination = destination
        self.data = data
        self.crc = crc
        self.kind = kind
        self.sent_ns = sent_ns
