"""The interface of seals, which encrypt sent and decrypt received datagrams."""

from __future__ import annotations

from typing import Protocol


class Seal(Protocol):
    """Seals and opens datagrams. The other parts of a connection use unsealed ones."""

    @property
    def overhead_bytes(self) -> int:
        """The bytes that a seal adds; data datagrams are shorter by this."""

    def seal(self, datagram: bytes) -> bytes:
        """Return the sealed datagram. The same datagram may be sealed again for retransmission."""

    def open(self, datagram: bytes) -> bytes | None:
        """Return the unsealed datagram; None if the seal is invalid or the datagram is repeated."""
