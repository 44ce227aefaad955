"""Where datagrams are made secret: just before they are sent, and just after they are received."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Seal"]


class Seal(Protocol):
    """Turns plain datagrams into sealed ones and back. All else of a connection sees plain ones."""

    @property
    def overhead_bytes(self) -> int:
        """By how much a sealed datagram is longer; data datagrams are cut shorter by this."""

    def seal(self, datagram: bytes) -> bytes:
        """The datagram as it is sent. The same one may come again, to be sent again."""

    def open(self, datagram: bytes) -> bytes | None:
        """The plain datagram, or None for what is not sealed as it should be, or is repeated."""
