"""The receiving half of a link: the streams of the other nodes, in order, and acknowledged."""

from __future__ import annotations

from typing import Final, TypeVar

from skerry.errors import DecodeError
from skerry.protocol.link.best_effort import BestEffortInput
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import MessagesMissed, RecordsReceived, Stalled, StallReason
from skerry.protocol.link.incoming_stream import IncomingStream
from skerry.protocol.link.output import LinkOutput
from skerry.protocol.link.peers import Peer
from skerry.protocol.link.stream_places import StreamPlaces
from skerry.protocol.machine import MachineEvent
from skerry.protocol.node_types import NodeType
from skerry.protocol.rtps.entities import INDEX_COUNT, StreamClass, stream_of
from skerry.protocol.rtps.samples import RECORD_BYTES, SAMPLE_BYTES, Record, read_records
from skerry.protocol.rtps.submessages import Data, DataFragment, GapNotice, Heartbeat, Submessage

__all__ = ["KEPT_STREAM_COUNT_MAX", "LinkInput"]

KEPT_STREAM_COUNT_MAX: Final = 256
"""Streams of excluded nodes that may be included again. Only light nodes are, soon or never."""

StreamT = TypeVar("StreamT")


class LinkInput:
    """What the included nodes send to this one."""

    def __init__(
        self,
        own_type: NodeType,
        config: LinkConfig,
        events: list[MachineEvent],
        *,
        is_direct: bool = False,
    ) -> None:
        """`events` are those of the link. With `is_direct`, streams that were forgotten can
        continue."""
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
        self._places = StreamPlaces() if is_direct else None
        self._records: list[Record] = []
        """Those of the last event, to which further ones of the same stream are added."""
        self._reported: MachineEvent | None = None
        """The last event with records of an acknowledged stream."""
        self._reported_stream: IncomingStream | None = None

    def exclude(self, peer: Peer) -> None:
        """Forget the streams of a node, but for what a light node may go on with."""
        for key in [key for key in self._incoming if key[0] == peer.node]:
            stream = self._incoming.pop(key)
            if self._places is not None:
                self._places.note(stream)
            elif peer.type.light or self._own_type.light:
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
        known = self._incoming.get((peer.node, submessage.writer))
        if known is not None:
            self._reliable(known, submessage, now_ns)
            return
        found = stream_of(submessage.writer)
        is_direct = self._places is not None
        if found is None or (found[0].is_shared and (is_direct or found[1] != self._own_type.tag)):
            peer.corrupt_count += 1
            return
        stream_class, _ = found
        if not stream_class.is_reliable:
            self._best_effort(peer, submessage, is_shared=stream_class.is_shared)
            return
        stream = self._open_incoming(peer, submessage.writer, stream_class)
        if stream is not None:
            self._reliable(stream, submessage, now_ns)

    def _reliable(self, stream: IncomingStream, submessage: Submessage, now_ns: int) -> None:
        if isinstance(submessage, Data):
            if not self.is_paused and stream.next_received(submessage):
                self._deliver_sample(stream, submessage.payload)
                return
            stream.data_received(submessage, now_ns)
        elif isinstance(submessage, Heartbeat):
            if self._places is not None:
                next_seq, _ = stream.place
                if not stream.catch_up(submessage):
                    self._missed(stream.peer, next_seq, submessage.first_seq)
            stream.heartbeat_received(submessage)
        elif isinstance(submessage, DataFragment):
            stream.fragment_received(submessage, now_ns)
        elif isinstance(submessage, GapNotice):
            next_seq, _ = stream.place
            stream.gap_received(submessage, now_ns)
            if self._places is not None and stream.place[0] > next_seq:
                self._missed(stream.peer, next_seq, stream.place[0])
        if not self.is_paused:
            self._deliver(stream)
        if stream.is_lost:
            self.stalled(stream.peer, StallReason.STREAM_LOST)
        self._note_ack(stream)

    def _open_incoming(
        self, peer: Peer, writer: int, stream_class: StreamClass
    ) -> IncomingStream | None:
        """Return the new stream; None if it is an old one, of an earlier inclusion."""
        if not stream_class.is_shared:
            replaced = _replace(self._incoming, peer, writer)
            if replaced is None:
                return None
            for before in replaced:
                if self._places is not None and before.waiting_bytes:
                    self._missed(peer, before.place[0], before.stop_seq)
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
        if self._places is not None:
            self._places.restore(stream)
        self._incoming[peer.node, writer] = stream
        return stream

    def _best_effort(self, peer: Peer, submessage: Submessage, *, is_shared: bool) -> None:
        if self.is_paused:
            return
        key = peer.node, submessage.writer
        stream = self._incoming_best.get(key)
        if stream is None:
            if not is_shared and _replace(self._incoming_best, peer, submessage.writer) is None:
                return
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
            records = self._read(peer, sample)
            if records is not None:
                self._report(peer, records, is_reliable=False, is_single=not is_shared)

    def _deliver(self, stream: IncomingStream) -> None:
        for sample in stream.take_samples():
            self._deliver_sample(stream, sample)

    def _deliver_sample(self, stream: IncomingStream, sample: bytes) -> None:
        records = self._read(stream.peer, sample)
        if records is None:
            self.stalled(stream.peer, StallReason.MALFORMED)
            return
        events = self._events
        # The records of consecutive samples are reported together.
        if stream is not self._reported_stream or not events or events[-1] is not self._reported:
            self._records = records
            self._report(stream.peer, records, is_reliable=True, is_single=not stream.is_shared)
            self._reported, self._reported_stream = events[-1], stream
        else:
            self._records += records

    def _read(self, peer: Peer, sample: bytes) -> list[Record] | None:
        """Return the records of a sample; None if it is malformed."""
        try:
            records = read_records(sample)
        except DecodeError:
            peer.corrupt_count += 1
            return None
        self.received_count += len(records)
        return records

    def _report(
        self, peer: Peer, records: list[Record], *, is_reliable: bool, is_single: bool
    ) -> None:
        self._events.append(
            RecordsReceived(
                node=peer.node, records=records, is_reliable=is_reliable, is_single=is_single
            )
        )

    def _note_ack(self, stream: IncomingStream) -> None:
        if stream.is_ack_due and stream.is_welcomed:
            stream.is_ack_due = False
            if stream not in self._acks_due:
                self._acks_due.append(stream)

    def _missed(self, peer: Peer, first_seq: int, stop_seq: int) -> None:
        event = MessagesMissed(node=peer.node, first_seq=first_seq, stop_seq=stop_seq)
        self._events.append(event)

    def stalled(self, peer: Peer, reason: StallReason) -> None:
        """Report once that no messages can be exchanged with a node any more."""
        if not peer.is_stalled:
            peer.is_stalled = True
            self._events.append(Stalled(node=peer.node, reason=reason))


def _replace(
    streams: dict[tuple[int, int], StreamT], peer: Peer, writer: int
) -> list[StreamT] | None:
    """Remove the earlier stream of a peer to this node alone, since `writer` begins a new one.
    None if `writer` is the earlier one."""
    replaced: list[StreamT] = []
    for node, other in list(streams):
        before, now = stream_of(other), stream_of(writer)
        if node != peer.node or before is None or now is None or before[0] is not now[0]:
            continue
        if (now[1] - before[1]) % INDEX_COUNT >= INDEX_COUNT // 2:
            return None
        replaced.append(streams.pop((node, other)))
    return replaced
