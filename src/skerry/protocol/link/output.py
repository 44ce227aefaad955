"""The datagrams that a link sends: built from packets and answers, to one node or to a group."""

from __future__ import annotations

from collections.abc import Iterable

from skerry.protocol.link.packets import SamplePacket
from skerry.protocol.link.peers import Peer
from skerry.protocol.machine import Address
from skerry.protocol.rtps.datagram_writer import DatagramWriter
from skerry.protocol.rtps.submessages import (
    LARGE_BYTES,
    AckNack,
    Data,
    DataFragment,
    GapNotice,
    Heartbeat,
    NackFragments,
)

__all__ = ["Burst", "LinkOutput"]

Burst = tuple[Address, list[bytes]]
"""Datagrams to one destination, one after the other."""


class LinkOutput:
    """Collects datagrams until the driver takes them."""

    def __init__(self, writer: DatagramWriter, fragment_bytes: int, wall_offset_ns: int) -> None:
        """`wall_offset_ns` is added to monotonic time to get wall time."""
        self.wall_offset_ns = wall_offset_ns
        self._writer = writer
        self._fragment_bytes = fragment_bytes
        self._bursts: list[Burst] = []
        self._destination: Address | None = None
        """That of the last burst."""
        self._datagrams: list[bytes] = []

    def take(self) -> list[Burst]:
        """Return the datagrams since the last call, in order."""
        bursts, self._bursts = self._bursts, []
        self._destination = None
        return bursts

    def packet(
        self,
        stream: int,
        packet: SamplePacket,
        heartbeat: Heartbeat | None,
        group: Address | None,
        peers: Iterable[Peer],
        now_ns: int,
    ) -> None:
        """Send a packet: once if all `peers` are members of a group, otherwise to each of them."""
        if group is None:
            for peer in peers:
                self.packet_to(stream, packet, heartbeat, peer, now_ns)
            return
        self._packet(stream, packet, heartbeat, now_ns)
        data = self._writer.finish()
        self._append(group, data)
        for peer in peers:
            peer.packet_sent(len(data))

    def packet_to(
        self,
        stream: int,
        packet: SamplePacket,
        heartbeat: Heartbeat | None,
        peer: Peer,
        now_ns: int,
    ) -> None:
        """Send a packet to one node."""
        self._writer.destination(peer.prefix)
        self._packet(stream, packet, heartbeat, now_ns)
        self._send(peer)

    def gap_to(self, gap: GapNotice, heartbeat: Heartbeat, peer: Peer) -> None:
        """Tell one node which numbers are not for it."""
        self._writer.destination(peer.prefix)
        self._writer.gap(gap)
        self._writer.heartbeat(heartbeat)
        self._send(peer)

    def heartbeat_to(self, heartbeat: Heartbeat, peer: Peer) -> None:
        """Send a heartbeat to one node."""
        self._writer.destination(peer.prefix)
        self._writer.heartbeat(heartbeat)
        self._send(peer)

    def heartbeat_to_group(self, heartbeat: Heartbeat, group: Address) -> None:
        """Send a heartbeat to all members of a group."""
        self._writer.heartbeat(heartbeat)
        self._append(group, self._writer.finish())

    def answer_to(self, nack: NackFragments | None, ack: AckNack, peer: Peer) -> None:
        """Acknowledge a stream of one node."""
        self._writer.destination(peer.prefix)
        if nack is not None:
            self._writer.nack_fragments(nack)
        self._writer.acknack(ack)
        self._send(peer)

    def _packet(
        self, stream: int, packet: SamplePacket, heartbeat: Heartbeat | None, now_ns: int
    ) -> None:
        writer, sample = self._writer, packet.sample
        writer.timestamp(now_ns + self.wall_offset_ns)
        if packet.fragment:
            data, start, stop = sample.data, packet.start, packet.stop
            size = self._fragment_bytes
            # Copying a small fragment costs less than a view.
            part = data[start:stop] if size < LARGE_BYTES else memoryview(data)[start:stop]
            writer.fragment(
                DataFragment(stream, sample.seq, packet.fragment, size, len(data), part)
            )
        else:
            writer.data(Data(stream, sample.seq, sample.data))
        if heartbeat is not None:
            writer.heartbeat(heartbeat)

    def _send(self, peer: Peer) -> None:
        data = self._writer.finish()
        self._append(peer.address, data)
        peer.packet_sent(len(data))

    def _append(self, destination: Address, data: bytes) -> None:
        if self._destination is not destination:
            self._destination = destination
            self._datagrams = []
            self._bursts.append((destination, self._datagrams))
        self._datagrams.append(data)
