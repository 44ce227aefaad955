"""The machine of one channel of one node: streams to and from the other nodes.

Nodes become known, are included and excluded by the caller. Each node type has one stream for all
its nodes, and each node one of its own. Both exist acknowledged and not acknowledged.
"""

from __future__ import annotations

from collections import Counter

from skerry.errors import LimitExceeded
from skerry.protocol.deadlines import earliest
from skerry.protocol.link.best_effort import BestEffortOutput
from skerry.protocol.link.config import FRAGMENT_COUNT_MAX, LinkConfig
from skerry.protocol.link.events import (
    LinkStatistics,
    NotFull,
    PeerStatistics,
)
from skerry.protocol.link.input import LinkInput
from skerry.protocol.link.outgoing_stream import OutgoingStream
from skerry.protocol.link.output import Burst, LinkOutput
from skerry.protocol.link.packets import Sample
from skerry.protocol.link.peers import Peer
from skerry.protocol.link.reader_progress import ReaderProgress
from skerry.protocol.machine import Address, MachineEvent, Transmit
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.rtps.datagram_reader import Datagram, DatagramReader
from skerry.protocol.rtps.datagram_writer import DatagramWriter
from skerry.protocol.rtps.entities import (
    DISCOVERY_WRITER,
    INDEX_COUNT,
    Channel,
    StreamClass,
    guid_prefix,
    stream_of,
    writer_id,
)
from skerry.protocol.rtps.samples import RECORD_BYTES, SAMPLE_BYTES, read_records
from skerry.protocol.rtps.submessages import (
    AckNack,
    NackFragments,
    Submessage,
)
from skerry.tracing import NO_TRACE, DatagramDropped, DropReason, Tracer

__all__ = ["Link"]


class Link:
    """Messages between this node and the others on one channel."""

    def __init__(
        self,
        *,
        channel: Channel,
        node: int,
        node_types: NodeTypes,
        own_type: NodeType,
        now_ns: int,
        config: LinkConfig | None = None,
        wall_offset_ns: int = 0,
        tracer: Tracer = NO_TRACE,
        is_direct: bool = False,
    ) -> None:
        """`wall_offset_ns` is added to monotonic time to get wall time.

        With `is_direct`, the other nodes are no members of a system (see `direct_link`): messages
        are sent to one node at a time, without keep-alives.
        """
        self.config = config or LinkConfig()
        self.peers: dict[int, Peer] = {}
        """The other nodes that are known, included or not."""
        self._channel = channel
        self._types = node_types
        self._own_type = own_type
        self._message_bytes_max = min(
            self.config.message_bytes_max,
            FRAGMENT_COUNT_MAX * self.config.fragment_bytes - SAMPLE_BYTES - RECORD_BYTES,
        )
        self._tracer = tracer
        prefix = guid_prefix(node, channel)
        has_checksum = self.config.checksum
        self._reader = DatagramReader(prefix, has_checksum=has_checksum)
        self._output = LinkOutput(
            DatagramWriter(prefix, has_checksum=has_checksum),
            self.config.fragment_bytes,
            wall_offset_ns,
        )
        self._shared: dict[str, OutgoingStream] = {}
        """Acknowledged streams to all nodes of a type, by its name."""
        self._shared_best: dict[str, BestEffortOutput] = {}
        for one in () if is_direct else node_types:
            self._shared[one.name] = self._outgoing(StreamClass.RELIABLE_SHARED, one, one.tag)
            writer = writer_id(StreamClass.BEST_EFFORT_SHARED, one.tag)
            self._shared_best[one.name] = BestEffortOutput(
                writer, self.config, self._output, group=one.group(channel)
            )
        self._single: dict[int, OutgoingStream] = {}
        """Acknowledged streams to one node, by its index."""
        self._single_best: dict[int, BestEffortOutput] = {}
        self._next_index = 1
        self._by_index: dict[int, Peer] = {}
        self._active: list[OutgoingStream] = []
        """Streams that may have something to send in this turn."""
        self._active_best: dict[int, BestEffortOutput] = {}
        self._now_ns = now_ns
        self._keep_alive_ns = now_ns
        self._events: list[MachineEvent] = []
        self._input = LinkInput(own_type, self.config, self._events, is_direct=is_direct)
        self._drops: Counter[DropReason] = Counter()
        self._sent_count = 0
        self._refused_count = 0
        self._dropped_count = 0

    # -- nodes

    def meet(self, node: int, node_type: NodeType, address: Address) -> None:
        """Note that a node exists. Keep-alives are sent to it from now on."""
        assert node not in self.peers
        index = self._free_index()
        peer = Peer(node, node_type, address, self._channel, index)
        self.peers[node] = peer
        self._by_index[index] = peer

    def include(self, node: int, now_ns: int) -> None:
        """Exchange messages with a known node from now on."""
        peer = self.peers[node]
        assert not peer.is_included
        peer.is_included = True
        self._now_ns = now_ns
        stream = self._shared.get(peer.type.name)
        if stream is not None:
            stream.add_reader(peer, now_ns)
            self._activate(stream)
            self._shared_best[peer.type.name].peers[node] = peer

    def exclude(self, node: int, now_ns: int) -> None:
        """Forget a node and all that waits for it. Its messages are dropped from now on."""
        peer = self.peers.pop(node, None)
        if peer is None:
            return
        self._now_ns = now_ns
        shared = self._shared.get(peer.type.name)
        if shared is not None:
            shared.remove_reader(node)
            self._activate(shared)
            self._shared_best[peer.type.name].peers.pop(node, None)
        self._end_single(peer)
        self._input.exclude(peer)

    def renew(self, node: int) -> int:
        """Give up what was sent to one node alone, and begin a new stream with the next message.
        Returns how many messages it has not acknowledged."""
        peer = self.peers[node]
        lost = self._end_single(peer)
        peer.index = self._free_index()
        self._by_index[peer.index] = peer
        peer.is_stalled = False
        return sum(len(read_records(sample.data)) for sample in lost)

    def is_settled(self, node: int) -> bool:
        """Return whether one node has acknowledged all that was sent to it alone."""
        stream = self._single.get(self.peers[node].index)
        return stream is None or not stream.queued_packet_count

    # -- sending

    def send_all(
        self,
        node_type: NodeType,
        data_type: int,
        data: bytes | bytearray | memoryview,
        now_ns: int,
        *,
        is_reliable: bool = True,
        key: int | None = None,
    ) -> bool:
        """Send a message to all included nodes of a type; False if there is no room for it.

        After a False, `NotFull` is reported once there is room. A message with a key may be left
        out for a receiver that lags behind, if a later one has the same key. A message that is not
        reliable is dropped if there is no room. Raises LimitExceeded if it is too large.
        """
        if not isinstance(data, bytes):
            data = bytes(data)  # The caller may change it.
        if len(data) > self._message_bytes_max:
            self._refuse_large(len(data))
        self._now_ns = now_ns
        if not is_reliable:
            best = self._shared_best[node_type.name]
            self._active_best[id(best)] = best
            self._count_best(best.send(data_type, 0, data, now_ns))
            return True
        return self._send(self._shared[node_type.name], data_type, data, key)

    def send_to(
        self,
        node: int,
        data_type: int,
        data: bytes | bytearray | memoryview,
        now_ns: int,
        *,
        is_reliable: bool = True,
    ) -> bool:
        """Send a message to one node, as `send_all`. It is dropped if the node is not included."""
        if not isinstance(data, bytes):
            data = bytes(data)  # The caller may change it.
        if len(data) > self._message_bytes_max:
            self._refuse_large(len(data))
        peer = self.peers.get(node)
        if peer is None or not peer.is_included:
            return True
        self._now_ns = now_ns
        if not is_reliable:
            best = self._single_best.get(peer.index)
            if best is None:
                writer = writer_id(StreamClass.BEST_EFFORT_SINGLE, peer.index)
                best = BestEffortOutput(writer, self.config, self._output, group=None)
                best.peers[node] = peer
                self._single_best[peer.index] = best
            self._active_best[id(best)] = best
            self._count_best(best.send(data_type, 0, data, now_ns))
            return True
        stream = self._single.get(peer.index)
        if stream is None:
            stream = self._outgoing(StreamClass.RELIABLE_SINGLE, peer.type, peer.index)
            stream.add_reader(peer, now_ns)
            self._single[peer.index] = stream
        return self._send(stream, data_type, data, None)

    def pause(self) -> None:
        """Deliver and acknowledge nothing until `resume`. Unacknowledged messages are dropped."""
        self._input.is_paused = True

    def resume(self, now_ns: int) -> None:
        """Deliver again."""
        self._now_ns = now_ns
        self._input.resume()

    # -- input

    def receive(
        self, data: bytes, source: Address, now_ns: int, *, is_multicast: bool = False
    ) -> Datagram | None:
        """Process a datagram. Returns it if it is for this node and of a node that is not known,
        or if it has a message of discovery; the caller processes those."""
        self._now_ns = now_ns
        found = self._reader.read(data)
        if isinstance(found, DropReason):
            if found is not DropReason.OWN:
                self._drop(found, source)
            return None
        peer = self.peers.get(found.node)
        if peer is None:
            return found
        if peer.is_quiet(now_ns):
            # It could not answer what was sent meanwhile.
            for reader in self._readers(peer):
                reader.unanswered_count = 0
        peer.packet_received(len(data), now_ns, is_multicast=is_multicast)
        is_returned = False
        for submessage in found.submessages:
            if submessage.writer == DISCOVERY_WRITER:
                is_returned = True
            elif peer.is_included:
                self._process(peer, submessage)
        return found if is_returned else None

    def drop(self, reason: DropReason, source: Address) -> None:
        """Count a datagram that the caller did not accept."""
        self._drop(reason, source)

    # -- time and output

    def advance(self, now_ns: int) -> None:
        """Send keep-alives, and again what was not acknowledged in time."""
        self._now_ns = now_ns
        for stream in self._streams():
            stream.advance(now_ns)
            self._collect(stream)
        if now_ns >= self._keep_alive_ns:
            self._keep_alive_ns = now_ns + self._own_type.heartbeat_ns
            self._keep_alive(now_ns)

    def deadline_ns(self) -> int | None:
        """When to call `advance`."""
        due_ns: int | None = self._keep_alive_ns if self.peers and self._shared else None
        for stream in self._streams():
            due_ns = earliest(due_ns, stream.due_ns)
        return due_ns

    def take_bursts(self) -> list[Burst]:
        """Finish the turn: send what the windows allow, acknowledge, and return all datagrams."""
        now_ns = self._now_ns
        if self._active:
            for stream in self._active:
                stream.is_active = False
                stream.pump(now_ns)
                self._collect(stream)
            self._active.clear()
        if self._active_best:
            for best in self._active_best.values():
                best.flush(now_ns)
            self._active_best.clear()
        self._input.acknowledge(self._output)
        return self._output.take()

    def take_transmits(self) -> list[Transmit]:
        """Return the same as transmits."""
        return [
            Transmit(destination=address, data=data)
            for address, datagrams in self.take_bursts()
            for data in datagrams
        ]

    def take_events(self) -> list[MachineEvent]:
        """Return the events since the last call, oldest first."""
        events = self._events.copy()
        self._events.clear()
        return events

    def set_wall_offset(self, wall_offset_ns: int, _now_ns: int) -> None:
        """Set the offset of wall time, after the wall clock was changed."""
        self._output.wall_offset_ns = wall_offset_ns

    def peer_statistics(self, node: int) -> PeerStatistics:
        """The counters of one node."""
        peer = self.peers[node]
        backlog_bytes = lag_ns = unanswered = 0
        for reader in self._readers(peer):
            backlog_bytes += reader.backlog_bytes
            lag_ns = max(lag_ns, self._now_ns - reader.lag_ns if reader.is_lagging else 0)
            unanswered = max(unanswered, reader.unanswered_count)
        return peer.statistics(backlog_bytes=backlog_bytes, lag_ns=lag_ns, unanswered=unanswered)

    def waiting_bytes(self, node: int) -> int:
        """The bytes of acknowledged streams of a node that wait to be delivered."""
        return self._input.waiting_bytes(node)

    def statistics(self) -> LinkStatistics:
        """The counters of the channel."""
        return LinkStatistics(
            peers=tuple(self.peer_statistics(node) for node in self.peers),
            sent_message_count=self._sent_count,
            refused_message_count=self._refused_count,
            dropped_message_count=self._dropped_count,
            received_message_count=self._input.received_count,
            queued_packet_count=sum(stream.queued_packet_count for stream in self._streams()),
            drops={one.value: self._drops[one] for one in DropReason if self._drops[one]},
        )

    # -- inside: sending

    def _free_index(self) -> int:
        """Return the next index that is not in use. Index 0 is never used."""
        assert len(self._by_index) < INDEX_COUNT // 2
        index = self._next_index
        while index == 0 or index in self._by_index:
            index = (index + 1) % INDEX_COUNT
        self._next_index = (index + 1) % INDEX_COUNT
        return index

    def _end_single(self, peer: Peer) -> list[Sample]:
        """Forget the streams to one node; return what it has not acknowledged."""
        del self._by_index[peer.index]
        self._single_best.pop(peer.index, None)
        stream = self._single.pop(peer.index, None)
        if stream is None:
            return []
        left = stream.remove_reader(peer.node)
        if stream.is_room_due:
            stream.is_room_due = False
            self._events.append(NotFull(node_type=peer.type.name, node=peer.node))
        return left

    def _outgoing(self, stream: StreamClass, node_type: NodeType, bits: int) -> OutgoingStream:
        is_shared = stream.is_shared
        return OutgoingStream(
            writer_id(stream, bits),
            node_type,
            self.config,
            self._output,
            group=node_type.group(self._channel) if is_shared else None,
            is_shared=is_shared,
        )

    def _streams(self) -> list[OutgoingStream]:
        return [*self._shared.values(), *self._single.values()]

    def _send(self, stream: OutgoingStream, data_type: int, data: bytes, key: int | None) -> bool:
        if not stream.is_active:
            self._activate(stream)
        if stream.send(data_type, 0, data, key):
            self._sent_count += 1
            return True
        self._refused_count += 1
        return False

    def _activate(self, stream: OutgoingStream) -> None:
        """Send at the end of this turn what the windows allow."""
        if not stream.is_active:
            stream.is_active = True
            self._active.append(stream)

    def _count_best(self, is_sent: bool) -> None:
        if is_sent:
            self._sent_count += 1
        else:
            self._dropped_count += 1

    def _refuse_large(self, size: int) -> None:
        raise LimitExceeded(
            what="size of a message between nodes", value=size, limit=self._message_bytes_max
        )

    def _keep_alive(self, now_ns: int) -> None:
        for name, stream in self._shared.items():
            peers = [peer for peer in self.peers.values() if peer.type.name == name]
            if not peers:
                continue
            group = stream.type.group(self._channel)
            heartbeat = stream.keep_alive(now_ns)
            if group is not None:
                self._output.heartbeat_to_group(heartbeat, group)
            else:
                for peer in peers:
                    self._output.heartbeat_to(heartbeat, peer)

    def _collect(self, stream: OutgoingStream) -> None:
        """Report what a stream has noticed."""
        for peer, reason in stream.stalls:
            self._input.stalled(peer, reason)
        stream.stalls.clear()
        if stream.is_room_due:
            stream.is_room_due = False
            node = 0
            if stream.writer >> 24 == StreamClass.RELIABLE_SINGLE:
                node = next(iter(stream.readers))
            self._events.append(NotFull(node_type=stream.type.name, node=node))

    # -- inside: receiving

    def _readers(self, peer: Peer) -> list[ReaderProgress]:
        """The progress of a peer in the acknowledged streams to it."""
        streams = (self._shared.get(peer.type.name), self._single.get(peer.index))
        return [one.readers[peer.node] for one in streams if one and peer.node in one.readers]

    def _process(self, peer: Peer, submessage: Submessage) -> None:
        if isinstance(submessage, (AckNack, NackFragments)):
            self._answered(peer, submessage)
        else:
            self._input.process(peer, submessage, self._now_ns)

    def _answered(self, peer: Peer, answer: AckNack | NackFragments) -> None:
        found = stream_of(answer.writer)
        stream = None
        if found is not None:
            if found[0] is StreamClass.RELIABLE_SHARED:
                node_type = self._types.by_tag(found[1])
                stream = None if node_type is None else self._shared.get(node_type.name)
            elif found[0] is StreamClass.RELIABLE_SINGLE and found[1] == peer.index:
                stream = self._single.get(found[1])
        if stream is None:
            peer.corrupt_count += 1
            return
        if isinstance(answer, AckNack):
            is_right = stream.acknowledged(peer.node, answer, self._now_ns)
        else:
            is_right = stream.fragments_acknowledged(peer.node, answer, self._now_ns)
        if not is_right:
            peer.corrupt_count += 1
        self._activate(stream)

    def _drop(self, reason: DropReason, source: Address) -> None:
        self._drops[reason] += 1
        if self._tracer is not NO_TRACE:
            self._tracer.emit(
                DatagramDropped(now_ns=self._now_ns, source=str(source), reason=reason)
            )
