"""The receiving half of a link: the streams of the other nodes, in order, and acknowledged."""

from __future__ import annotations

from typing import Final

from skerry.errors import DecodeError
from skerry.protocol.link.best_effort import BestEffortInput
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import RecordsReceived, Stalled, StallReason
from skerry.protocol.link.incoming_stream import IncomingStream
from skerry.protocol.link.output import LinkOutput
from skerry.protocol.link.peers import Peer
from skerry.protocol.machine import MachineEvent
from skerry.protocol.node_types import NodeType
from skerry.protocol.rtps.entities import StreamClass, stream_of
from skerry.protocol.rtps.samples import RECORD_BYTES, SAMPLE_BYTES, read_records
from skerry.protocol.rtps.submessages import Data, DataFragment, GapNotice, Heartbeat, Submessage

__all__ = ["KEPT_STREAM_COUNT_MAX", "LinkInput"]

KEPT_STREAM_COUNT_MAX: Final = 256
"""Streams of excluded nodes that may be included again. Only light nodes are, soon or never."""


class LinkInput:
    """What the included nodes send to this one."""

    def __init__(self, own_type: NodeType, config: LinkConfig, events: list[MachineEvent]) -> None:
        """`events` are those of the link."""
        self.is_paused = False
        """Whether nothing is delivered and acknowledged."""
        self.received_count = 0
        """Messages that were received."""
        self._own_type = own_type
        self._config = config
        self._events = events
        self._incoming: dict[tuple[int, int], IncomingStream] = {}
        """Acknowledged streams by sender and writer."""
        self._kept: dict[tuple[int, int], IncomingStream] = {}
        """Streams of excluded nodes that may be included again, oldest first."""
        self._incoming_best: dict[tuple[int, int], BestEffortInput] = {}
        self._acks_due: list[IncomingStream] = []

    def exclude(self, peer: Peer) -> None:
        """Forget the streams of a node, but for what a light node may go on with."""
        for key in [key for key in self._incoming if key[0] == peer.node]:
            stream = self._incoming.pop(key)
            if peer.type.light or self._own_type.light:
                self._kept.pop(key, None)
                self._kept[key] = stream
        while len(self._kept) > KEPT_STREAM_COUNT_MAX:
            del self._kept[next(iter(self._kept))]
        for key in [key for key in self._incoming_best if key[0] == peer.node]:
            del self._incoming_best[key]
        self._acks_due = [stream for stream in self._acks_due if stream.peer is not peer]

    def resume(self) -> None:
        """Deliver what has arrived during a pause."""
        self.is_paused = False
        for stream in self._incoming.values():
            stream.resume()
            self._deliver(stream)
            self._note_ack(stream)

    def acknowledge(self, output: LinkOutput) -> None:
        """Send the acknowledgements that are due."""
        for stream in self._acks_due:
            nack, ack = stream.take_ack()
            output.answer_to(nack, ack, stream.peer)
        self._acks_due.clear()

    def waiting_bytes(self, node: int) -> int:
        """Return the bytes of acknowledged streams of a node that wait to be delivered."""
        streams = self._incoming.items()
        return sum(stream.waiting_bytes for (sender, _), stream in streams if sender == node)

    def process(self, peer: Peer, submessage: Submessage, now_ns: int) -> None:
        """Process a submessage of a stream of an included node."""
        found = stream_of(submessage.writer)
        if found is None or (found[0].is_shared and found[1] != self._own_type.tag):
            peer.corrupt_count += 1
            return
        stream_class, bits = found
        if not stream_class.is_reliable:
            self._best_effort(peer, submessage, is_shared=stream_class.is_shared)
            return
        stream = self._incoming.get((peer.node, submessage.writer))
        if stream is None:
            stream = self._open_incoming(peer, submessage.writer, stream_class, bits)
            if stream is None:
                return
        self._reliable(stream, submessage, now_ns)

    def _reliable(self, stream: IncomingStream, submessage: Submessage, now_ns: int) -> None:
        if isinstance(submessage, Data):
            if not self.is_paused and stream.next_received(submessage):
                self._deliver_sample(stream, submessage.payload)
                return
            stream.data_received(submessage, now_ns)
        elif isinstance(submessage, Heartbeat):
            stream.heartbeat_received(submessage)
        elif isinstance(submessage, DataFragment):
            stream.fragment_received(submessage, now_ns)
        elif isinstance(submessage, GapNotice):
            stream.gap_received(submessage, now_ns)
        if not self.is_paused:
            self._deliver(stream)
        if stream.is_lost:
            self.stalled(stream.peer, StallReason.STREAM_LOST)
        self._note_ack(stream)

    def _open_incoming(
        self, peer: Peer, writer: int, stream_class: StreamClass, bits: int
    ) -> IncomingStream | None:
        """Return the new stream; None if it is an old one, of an earlier inclusion."""
        if not stream_class.is_shared:
            for node, other in list(self._incoming):
                before = stream_of(other)
                if node == peer.node and before is not None and before[0] is stream_class:
                    if before[1] > bits:
                        return None
                    del self._incoming[node, other]
        kept = self._kept.pop((peer.node, writer), None)
        if kept is not None and not kept.is_lost:
            kept.continue_with(peer)
            self._incoming[peer.node, writer] = kept
            return kept
        stream = IncomingStream(
            writer,
            peer,
            window=self._own_type.window_packet_count,
            message_bytes_max=self._config.message_bytes_max + SAMPLE_BYTES + RECORD_BYTES,
            is_shared=stream_class.is_shared,
        )
        self._incoming[peer.node, writer] = stream
        return stream

    def _best_effort(self, peer: Peer, submessage: Submessage, *, is_shared: bool) -> None:
        if self.is_paused:
            return
        key = peer.node, submessage.writer
        stream = self._incoming_best.get(key)
        if stream is None:
            stream = BestEffortInput(
                peer, message_bytes_max=self._config.message_bytes_max, is_shared=is_shared
            )
            self._incoming_best[key] = stream
        sample = None
        if isinstance(submessage, Data):
            sample = stream.data_received(submessage)
        elif isinstance(submessage, DataFragment):
            sample = stream.fragment_received(submessage)
        if sample is not None:
            self._report(peer, sample, is_reliable=False, is_single=not is_shared)

    def _deliver(self, stream: IncomingStream) -> None:
        for sample in stream.take_samples():
            self._deliver_sample(stream, sample)

    def _deliver_sample(self, stream: IncomingStream, sample: bytes) -> None:
        if not self._report(stream.peer, sample, is_reliable=True, is_single=not stream.is_shared):
            self.stalled(stream.peer, StallReason.MALFORMED)

    def _report(self, peer: Peer, sample: bytes, *, is_reliable: bool, is_single: bool) -> bool:
        """Report the records of a sample; False if it is malformed."""
        try:
            records = read_records(sample)
        except DecodeError:
            peer.corrupt_count += 1
            return False
        self.received_count += len(records)
        self._events.append(
            RecordsReceived(
                node=peer.node, records=records, is_reliable=is_reliable, is_single=is_single
            )
        )
        return True

    def _note_ack(self, stream: IncomingStream) -> None:
        if stream.is_ack_due and stream.is_welcomed:
            stream.is_ack_due = False
            if stream not in self._acks_due:
                self._acks_due.append(stream)

    def stalled(self, peer: Peer, reason: StallReason) -> None:
        """Report once that no messages can be exchanged with a node any more."""
        if not peer.is_stalled:
            peer.is_stalled = True
            self._events.append(Stalled(node=peer.node, reason=reason))
