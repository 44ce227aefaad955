"""Streams without acknowledgement, at both ends. What is lost is not repaired, but counted."""

from __future__ import annotations

from collections.abc import Iterable

from skerry.protocol.link.assembly import Assembly
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.message_packing import MessagePacking
from skerry.protocol.link.output import LinkOutput
from skerry.protocol.link.packets import Sample
from skerry.protocol.link.peers import Peer
from skerry.protocol.machine import Address
from skerry.protocol.rtps.submessages import Data, DataFragment

__all__ = ["BestEffortInput", "BestEffortOutput"]


class BestEffortOutput:
    """The unacknowledged messages of one node to all included nodes of a type, or to one node."""

    def __init__(
        self, writer: int, config: LinkConfig, output: LinkOutput, *, group: Address | None
    ) -> None:
        self._writer = writer
        self._output = output
        self._group = group
        self._fragment_bytes = config.fragment_bytes
        self._packet_count_max = config.queue_packet_count
        self._packing = MessagePacking(config.fragment_bytes)
        self._next_seq = 1
        self._sent_count = 0
        """Packets that were sent since the driver took the datagrams."""
        self.peers: dict[int, Peer] = {}

    def send(self, data_type: int, flags: int, data: bytes, now_ns: int) -> bool:
        """Send a message; False if it is dropped, because too much was sent at once."""
        if not self.peers:
            return True
        if self._sent_count >= self._packet_count_max:
            return False
        if not self._packing.fits(len(data)):
            self._close_sample(now_ns)
        self._packing.add(data_type, flags, data, None)
        return True

    def flush(self, now_ns: int) -> None:
        """Send the open messages; the driver takes the datagrams next."""
        self._close_sample(now_ns)
        self._sent_count = 0

    def _close_sample(self, now_ns: int) -> None:
        if not self._packing:
            return
        data, _ = self._packing.close()
        sample = Sample(self._next_seq, data, self._fragment_bytes, 0, None)
        self._next_seq += 1
        self._sent_count += len(sample.packets)
        peers: Iterable[Peer] = self.peers.values()
        for packet in sample.packets:
            self._output.packet(self._writer, packet, None, self._group, peers, now_ns)


class BestEffortInput:
    """The unacknowledged samples of one stream of one node, at one receiver."""

    def __init__(self, peer: Peer, *, message_bytes_max: int, is_shared: bool) -> None:
        self.peer = peer
        self.is_shared = is_shared
        self._message_bytes_max = message_bytes_max
        self._next_seq = 0
        """The number behind the last one that was delivered; 0 before the first."""
        self._assembly: Assembly | None = None
        self._assembly_seq = 0

    def data_received(self, data: Data) -> bytes | None:
        """Process a whole sample; return it if it is newer than the last one."""
        return data.payload if self._is_newer(data.seq) else None

    def fragment_received(self, fragment: DataFragment) -> bytes | None:
        """Process a fragment; return the sample if it is whole and newer than the last one.

        Fragments arrive in order. A sample of which one is missing is given up.
        """
        seq, assembly = fragment.seq, self._assembly
        if assembly is None or seq != self._assembly_seq:
            if seq < self._next_seq or fragment.number != 1:
                return None
            if fragment.sample_bytes > self._message_bytes_max:
                return None
            assembly = self._assembly = Assembly(fragment)
            self._assembly_seq = seq
        if not assembly.add(fragment) or not assembly.is_whole:
            return None
        return assembly.sample() if self._is_newer(seq) else None

    def _is_newer(self, seq: int) -> bool:
        if seq < self._next_seq:
            self.peer.duplicate_count += 1
            return False
        if self._next_seq:
            self.peer.lost_best_effort_count += seq - self._next_seq
        self._next_seq = seq + 1
        self._assembly = None
        return True
