"""The seal of both channels of a node; without keys, datagrams pass unchanged."""

from __future__ import annotations

from skerry.engine.system.config import SystemConfig
from skerry.ids import hash64
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.link import Link
from skerry.protocol.machine import Address
from skerry.protocol.rtps.entities import Channel
from skerry.protocol.rtps.sealed_datagrams import LINK_SEAL_BYTES, LinkSeal
from skerry.protocol.sealing.group_keys import KeyRing
from skerry.protocol.sealing.opener import SealStatistics
from skerry.tracing import DropReason

__all__ = ["ChannelSeal"]


class ChannelSeal:
    """Seals what a node sends, and opens what it receives. Times are wall time."""

    def __init__(self, config: SystemConfig) -> None:
        self.link_config: LinkConfig = config.link
        """The parameters of datagrams before they are sealed."""
        self._seal: LinkSeal | None = None
        if config.keys is not None:
            self._seal = LinkSeal(
                config.keys, system=hash64(config.system), freshness_ns=config.freshness_ns
            )
            self.link_config = config.link.sealed(LINK_SEAL_BYTES)

    def begin(self, node: int) -> None:
        """Send as this node from now on."""
        if self._seal is not None:
            self._seal.begin(node)

    def rekey(self, keys: KeyRing) -> None:
        """Seal with other keys from now on. For a system that was started with keys."""
        assert self._seal is not None
        self._seal.rekey(keys)

    def seal(self, channel: Channel, datagrams: list[bytes], wall_ns: int) -> list[bytes]:
        """Return datagrams as they are sent."""
        seal = self._seal
        if seal is None:
            return datagrams
        return [seal.seal(channel, datagram, wall_ns) for datagram in datagrams]

    def open(self, link: Link, data: bytes, source: Address, wall_ns: int) -> bytes:
        """Return a datagram as it was before it was sealed; empty if it is refused, which the
        link of its channel counts."""
        if self._seal is None:
            return data
        opened = self._seal.open(data, wall_ns)
        if isinstance(opened, bytes):
            return opened
        if opened is not DropReason.OWN:
            link.drop(opened, source)
        return b""

    def statistics(self, wall_ns: int) -> SealStatistics | None:
        """Return the counters; None without keys."""
        return None if self._seal is None else self._seal.statistics(wall_ns)
