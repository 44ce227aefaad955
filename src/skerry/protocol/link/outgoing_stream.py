"""A reliable stream at its sender: numbers, window, queue and retransmission.

New packets are sent as long as one fits the window of each current receiver. A receiver that alone
holds up the others is served on its own: see `reader_progress`. What has been sent is kept until
all receivers have acknowledged it. When too much is kept, further messages are refused.
"""

from __future__ import annotations

from typing import Final

from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import StallReason
from skerry.protocol.link.output import LinkOutput
from skerry.protocol.link.packets import Sample, SamplePacket
from skerry.protocol.link.peers import Peer
from skerry.protocol.link.reader_progress import ReaderProgress
from skerry.protocol.link.sample_buffer import SampleBuffer
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType
from skerry.protocol.rtps.number_sets import NumberSet
from skerry.protocol.rtps.submessages import AckNack, GapNotice, Heartbeat, NackFragments

__all__ = ["PROBE_NS", "OutgoingStream"]

PROBE_NS: Final = 5_500_000_000
"""A stream that is idle for so long is acknowledged again, so that a node which has excluded this
one is noticed: with the next keep-alive, so that it is excluded within ten seconds."""
_MS: Final = 1_000_000
_GAP_COUNT_MAX: Final = 100_000
"""Numbers in one gap. More are left out by the next one."""


class OutgoingStream:
    """The reliable messages of one node to all included nodes of a type, or to one node."""

    def __init__(
        self,
        writer: int,
        node_type: NodeType,
        config: LinkConfig,
        output: LinkOutput,
        *,
        group: Address | None,
        is_shared: bool,
    ) -> None:
        """`group` is the multicast group of the receivers; None if they are reached by unicast."""
        self.writer = writer
        self.type = node_type
        self.readers: dict[int, ReaderProgress] = {}
        """The receivers, by node."""
        self.stalls: list[tuple[Peer, StallReason]] = []
        """Receivers that have to be excluded; the link takes them."""
        self.is_room_due = False
        """Whether a message was refused, and there is room again; the link takes it."""
        self.used_ns = 0
        """When a sample was sent last."""
        self.is_active = False
        """Whether the link looks for something to send at the end of this turn."""
        self._output = output
        self._group = group
        self._is_shared = is_shared
        self._window = node_type.window(config.datagram_bytes)
        self._threshold = node_type.ack_threshold(self._window) if is_shared else 1
        self._timeouts_ns = [timeout * _MS for timeout in node_type.retry_timeouts_ms]
        self._tick_ns = min(self._timeouts_ns) // 2
        self._lag_grace_ns = node_type.lag_grace_ms * _MS
        self._queue_max = config.queue_packet_count
        self._fragment_bytes = config.fragment_bytes
        self._buffer = SampleBuffer(config.fragment_bytes)
        self._next_seq, self._next_fragment = 1, 0
        """The next sample to send to the current receivers, and the next fragment of it."""
        self._sent_seq = 0
        """The last sample that was sent to any receiver."""
        self._unasked_count = 0
        """Packets since an acknowledgement was requested last."""
        self._heartbeat_count = 0
        self._queued_count = 0
        """The queued packets at most: what was counted last, and what was added since."""
        self._was_refused = False
        self._accounted_ns = 0
        self.due_ns: int | None = None
        """When `advance` has to be called."""

    # -- for the host

    def send(self, data_type: int, flags: int, data: bytes, key: int | None) -> bool:
        """Queue a message; False if there is no room for it."""
        if not self.readers:
            return self._buffer.drop_message()
        # The count is taken again only when it says that the queue is full.
        if self._queued_count >= self._queue_max and self.queued_packet_count >= self._queue_max:
            self._was_refused = True
            return False
        if not self._buffer.packing.fits(len(data)):
            self._close_sample()
        self._buffer.packing.add(data_type, flags, data, key)
        if len(data) >= self._fragment_bytes:
            self._close_sample()  # so that it counts at once
        return True

    @property
    def queued_packet_count(self) -> int:
        """Packets that wait for the acknowledgement of the slowest current receiver."""
        counts = [self._buffer.packet_count(reader.base_seq) for reader in self._current()]
        self._queued_count = max(counts, default=len(self._buffer.packets))
        return self._queued_count

    # -- receivers

    def add_reader(self, peer: Peer, now_ns: int) -> None:
        """Begin to send to a node. What was sent before is not for it."""
        self._close_sample()
        reader = ReaderProgress(peer, self._buffer.end_seq, now_ns, is_welcomed=not self._is_shared)
        if not self.readers:
            self._next_seq, self._next_fragment = self._buffer.end_seq, 0
            self._accounted_ns = now_ns
        reader.resend_left = self._window
        self.readers[peer.node] = reader
        if self._is_shared:
            self._welcome(reader, now_ns)
        self._arm(now_ns)

    def remove_reader(self, node: int) -> list[Sample]:
        """Stop sending to a node; return what it has not acknowledged."""
        self._close_sample()
        reader = self.readers.pop(node, None)
        if reader is None:
            return []
        left = [one for one in self._buffer.samples.values() if reader.needs(one.seq)]
        self._buffer.release_all(left)
        self._note_room()
        return left

    # -- time

    def pump(self, now_ns: int) -> None:
        """Send what the windows of the receivers allow."""
        if not self.readers:
            return
        self._account(now_ns)
        self._send_to_current(now_ns)
        for reader in self.readers.values():
            if reader.is_lagging:
                self._send_to_laggard(reader, now_ns)
        self._note_blocking()
        self._arm(now_ns)

    def advance(self, now_ns: int) -> None:
        """Send again what was not acknowledged in time, and look for receivers that lag behind."""
        if self.due_ns is None or now_ns < self.due_ns:
            return
        late_ns = now_ns - self.due_ns
        self.due_ns = None
        self._account(now_ns)
        if late_ns > self._lag_grace_ns:
            # This node itself did nothing for a while, so no receiver is to blame for that time.
            for reader in self.readers.values():
                reader.excuse(late_ns)
        for reader in list(self.readers.values()):
            self._retransmit(reader, now_ns)
            self._check_lag(reader, now_ns)
        self.pump(now_ns)

    def keep_alive(self, now_ns: int) -> Heartbeat:
        """Return the heartbeat of this interval. If the stream is idle, the receivers answer it."""
        is_probe = now_ns - self.used_ns >= PROBE_NS
        if is_probe:
            self.used_ns = now_ns
            for reader in self.readers.values():
                reader.is_probed = True
                reader.asked_ns = now_ns
            self._arm(now_ns)
        return self._heartbeat(is_final=not is_probe, is_live=True)

    # -- acknowledgements

    def acknowledged(self, node: int, ack: AckNack, now_ns: int) -> bool:
        """Process an acknowledgement; False if it cannot be one of this stream."""
        reader, numbers = self.readers.get(node), ack.numbers
        if reader is None or not reader.is_new_count(ack.count):
            return True
        if max(numbers.base, numbers.stop) > max(self._sent_seq + 1, reader.first_seq):
            return False
        if numbers.base < reader.first_seq:
            return True  # It does not know its welcome yet.
        reader.answered(now_ns)
        if numbers.base > reader.base_seq:
            reader.progress_ns = now_ns
            for seq in range(reader.base_seq, numbers.base):
                self._take(reader, seq)
            reader.advance_base(numbers.base)
            reader.skip_behind()
        if numbers.stop > numbers.base:
            self._take_selective(reader, numbers, now_ns)
        if not self._is_shared and (stop_seq := reader.dropped(numbers)) > numbers.base:
            self._gap(reader, numbers.base, stop_seq)
        reader.fragments_seq = 0
        self._note_room()
        return True

    def fragments_acknowledged(self, node: int, nack: NackFragments, now_ns: int) -> bool:
        """Process the fragments that a receiver has of a sample; False if that is impossible."""
        reader = self.readers.get(node)
        sample = self._buffer.samples.get(nack.seq)
        if reader is None or sample is None or nack.seq in reader.done:
            return True
        numbers, packets = nack.numbers, sample.packets
        if numbers.base < 1 or numbers.stop > len(packets) + 1:
            return False
        reader.unanswered_count = 0
        reader.fragments_seq = nack.seq
        before_count = len(reader.flight)
        for index in range(numbers.base - 1):
            reader.landed(packets[index].number)
        missing = set(numbers.members)
        for fragment in range(numbers.base, numbers.stop):
            packet = packets[fragment - 1]
            if fragment not in missing:
                reader.landed(packet.number)
            elif reader.was_sent_once(packet.number):
                self._resend(reader, packet, now_ns)
        if len(reader.flight) < before_count:
            reader.progress_ns = now_ns
        return True

    def _current(self) -> list[ReaderProgress]:
        return [reader for reader in self.readers.values() if not reader.is_lagging]

    # -- inside: samples

    def _close_sample(self) -> None:
        """Give the open messages a number."""
        sample = self._buffer.close_sample(len(self.readers))
        if sample is None:
            return
        self._queued_count += len(sample.packets)
        for reader in self.readers.values():
            if reader.is_lagging:
                self._buffer.release_all(reader.append(sample, self._buffer.samples))

    def _take(self, reader: ReaderProgress, seq: int) -> None:
        """Note that a receiver has a sample."""
        sample = self._buffer.samples.get(seq)
        if sample is not None and reader.take(sample):
            self._buffer.release(sample)

    def _take_selective(self, reader: ReaderProgress, numbers: NumberSet, now_ns: int) -> None:
        """Process the numbers that were received out of order, and those that are missing."""
        missing = set(numbers.members)
        for seq in range(max(numbers.base, reader.base_seq), numbers.stop):
            if seq not in missing:
                self._take(reader, seq)
                continue
            sample = self._buffer.samples.get(seq)
            # The receiver reports the fragments of a sample that it has begun to receive.
            if sample is None or seq in reader.done or seq == reader.fragments_seq:
                continue
            if reader.was_sent_once(sample.packets[0].number):
                self._resend(reader, sample.packets[0], now_ns)

    # -- inside: sending

    def _send_to_current(self, now_ns: int) -> None:
        """Send new packets to all current receivers, as long as each has room for them."""
        current = self._current()
        if not current:
            return
        # A receiver keeps nothing behind its window, also if most of it has arrived.
        seq_max = min(reader.base_seq for reader in current) + self._window
        room = self._window - max(len(reader.flight) for reader in current)
        packets: list[SamplePacket] = []
        while room > 0 and self._next_seq < seq_max:
            if self._next_seq == self._buffer.end_seq:
                if not self._buffer.packing:
                    break
                self._close_sample()
            sample = self._buffer.samples.get(self._next_seq)
            if sample is not None:
                packets.append(sample.packets[self._next_fragment])
                room -= 1
                self._next_fragment += 1
            # A sample is missing if the receivers that needed it are gone.
            if sample is None or self._next_fragment == len(sample.packets):
                self._next_seq, self._next_fragment = self._next_seq + 1, 0
        if packets:
            self._transmit(packets, current, now_ns)

    def _transmit(
        self, packets: list[SamplePacket], current: list[ReaderProgress], now_ns: int
    ) -> None:
        """Send packets to all current receivers.

        If an acknowledgement is due, it is requested with the last one: a packet with a request is
        larger, and a system call sends many packets only if they have one size.
        """
        self._sent_seq = max(self._sent_seq, packets[-1].sample.seq)
        self.used_ns = now_ns
        self._unasked_count += len(packets)
        last = None
        if self._unasked_count >= self._threshold:
            self._unasked_count = 0
            last = packets[-1]
        for packet in packets:
            number, seq = packet.number, packet.sample.seq
            heartbeat = self._heartbeat(is_final=False) if packet is last else None
            peers: list[Peer] = []
            for reader in current:
                # A receiver that was added a moment ago does not need what was queued before.
                if reader.needs(seq):
                    reader.sent(number, now_ns)
                    peers.append(reader.peer)
                    if heartbeat is not None:
                        reader.peer.acknowledgement_requested(now_ns)
            self._output.packet(self.writer, packet, heartbeat, self._group, peers, now_ns)

    def _send_to_laggard(self, reader: ReaderProgress, now_ns: int) -> None:
        """Send one receiver what it needs next, as far as its window allows."""
        while not self._is_level(reader):
            seq = reader.next_seq
            if seq in reader.skipped:
                if reader.is_full(seq, self._window):
                    return
                self._send_gap(reader, now_ns)
                continue
            if seq == self._buffer.end_seq:
                self._close_sample()
                continue
            sample = self._buffer.samples.get(seq)
            if sample is None or seq in reader.done:
                reader.next_seq, reader.next_fragment = seq + 1, 0
                continue
            if reader.is_full(seq, self._window):
                return
            packet = sample.packets[reader.next_fragment]
            reader.next_fragment += 1
            self._send_to_one(reader, packet, now_ns)
            if reader.next_fragment == len(sample.packets):
                reader.passed(sample)
        if len(reader.flight) <= self._window // 4:
            reader.end_lag(self._buffer.samples)

    def _is_level(self, reader: ReaderProgress) -> bool:
        """Return whether a lagging receiver has been sent all that the others were."""
        place = reader.next_seq, reader.next_fragment
        if self._current():
            return place >= (self._next_seq, self._next_fragment)
        if reader.next_seq < self._buffer.end_seq or self._buffer.packing:
            return False
        self._next_seq, self._next_fragment = place
        return True

    def _send_gap(self, reader: ReaderProgress, now_ns: int) -> None:
        """Tell a lagging receiver which of the next numbers are left out."""
        start_seq = stop_seq = reader.next_seq
        while stop_seq in reader.skipped and stop_seq - start_seq < _GAP_COUNT_MAX:
            stop_seq += 1
        # The number of a packet that was never sent to this receiver stands for the gap.
        number = -start_seq
        reader.gaps[number] = (start_seq, stop_seq)
        reader.next_seq, reader.next_fragment = stop_seq, 0
        self._sent_seq = max(self._sent_seq, stop_seq - 1)
        self._gap_to(reader, number, now_ns)

    def _gap_to(self, reader: ReaderProgress, number: int, now_ns: int) -> None:
        reader.sent(number, now_ns)
        reader.peer.acknowledgement_requested(now_ns)
        self._gap(reader, *reader.gaps[number])

    def _gap(self, reader: ReaderProgress, start_seq: int, stop_seq: int) -> None:
        gap = GapNotice(self.writer, start_seq, NumberSet(stop_seq, stop_seq))
        self._output.gap_to(gap, self._heartbeat(is_final=False), reader.peer)

    def _send_to_one(self, reader: ReaderProgress, packet: SamplePacket, now_ns: int) -> None:
        """Send a packet to one receiver, and request an acknowledgement."""
        reader.sent(packet.number, now_ns)
        reader.peer.acknowledgement_requested(now_ns)
        self._sent_seq = max(self._sent_seq, packet.sample.seq)
        heartbeat = self._heartbeat(is_final=False)
        self._output.packet_to(self.writer, packet, heartbeat, reader.peer, now_ns)

    def _resend(self, reader: ReaderProgress, packet: SamplePacket, now_ns: int) -> None:
        """Send a packet again, unless too much was sent again since the last tick."""
        if reader.resend_left > 0:
            reader.resend_left -= 1
            reader.peer.retransmission_count += 1
            self._send_to_one(reader, packet, now_ns)

    def _welcome(self, reader: ReaderProgress, now_ns: int) -> None:
        """Tell a receiver with which number the stream begins for it."""
        reader.welcome_ns = now_ns
        reader.welcome_count += 1
        first_seq = reader.first_seq
        heartbeat = self._numbered_heartbeat(first_seq, max(self._sent_seq, first_seq - 1))
        gap = GapNotice(self.writer, 1, NumberSet(first_seq, first_seq))
        self._output.gap_to(gap, heartbeat, reader.peer)

    def _heartbeat(self, *, is_final: bool, is_live: bool = False) -> Heartbeat:
        first_seq = min((reader.base_seq for reader in self.readers.values()), default=0)
        last_seq = self._sent_seq
        if not first_seq or first_seq > last_seq:
            first_seq = last_seq + 1
        return self._numbered_heartbeat(first_seq, last_seq, is_final=is_final, is_live=is_live)

    def _numbered_heartbeat(
        self, first_seq: int, last_seq: int, *, is_final: bool = False, is_live: bool = False
    ) -> Heartbeat:
        self._heartbeat_count += 1
        return Heartbeat(self.writer, first_seq, last_seq, self._heartbeat_count, is_final, is_live)

    # -- inside: time

    def _retransmit(self, reader: ReaderProgress, now_ns: int) -> None:
        """Send again what one receiver has not acknowledged in time."""
        reader.resend_left = self._window
        if not reader.is_welcomed:
            if now_ns - reader.welcome_ns >= self.type.retry_timeout_ns(reader.welcome_count):
                reader.unanswered_count += 1
                self._welcome(reader, now_ns)
            return
        is_first, is_asked = True, False
        is_asking, ask_ns = self._threshold > 1, self._timeouts_ns[0] // 2
        for number, sent_ns in list(reader.flight.items()):
            count = reader.counts.get(number, 1)
            age_ns = now_ns - sent_ns
            if age_ns >= self.type.retry_timeout_ns(count):
                reader.unanswered_count += is_first
                if number in reader.gaps:
                    self._gap_to(reader, number, now_ns)
                else:
                    self._resend(reader, self._buffer.packets[number], now_ns)
                is_asked = True
            elif is_asking and age_ns >= ask_ns and reader.is_to_ask(number):
                reader.asked_packet = number
                if not is_asked:
                    is_asked = True
                    self._ask(reader, now_ns)
            is_first = False
        is_late = now_ns - reader.asked_ns >= self._timeouts_ns[-1]
        if reader.is_waiting and not reader.flight and is_late:
            # All has arrived, and waits for the host of the receiver or for a lost acknowledgement.
            reader.unanswered_count += 1
            self._ask(reader, now_ns)

    def _ask(self, reader: ReaderProgress, now_ns: int) -> None:
        """Request an acknowledgement."""
        reader.asked_ns = now_ns
        reader.peer.acknowledgement_requested(now_ns)
        self._output.heartbeat_to(self._heartbeat(is_final=False), reader.peer)

    def _arm(self, now_ns: int) -> None:
        if self.due_ns is None and any(reader.needs_tick for reader in self.readers.values()):
            self.due_ns = now_ns + self._tick_ns

    # -- inside: receivers that lag behind

    def _account(self, now_ns: int) -> None:
        elapsed_ns, self._accounted_ns = now_ns - self._accounted_ns, now_ns
        if self._is_shared:
            for reader in self.readers.values():
                reader.account(elapsed_ns, self._lag_grace_ns)

    def _note_blocking(self) -> None:
        """Note which current receivers hold up the others, or the host."""
        current = self._current()
        is_waiting = self._next_seq < self._buffer.end_seq or bool(self._buffer.packing)
        # A receiver holds up the queue by what was sent to it, not by what waits for others.
        kept_max = self._buffer.packet_count(self._next_seq) + self._queue_max // 2
        for reader in current:
            reader.is_blocking = (is_waiting and reader.is_full(self._next_seq, self._window)) or (
                self._was_refused and self._buffer.packet_count(reader.base_seq) > kept_max
            )
        if all(reader.is_blocking for reader in current):
            # Nobody is held up by another one: the receivers set the pace together.
            for reader in current:
                reader.is_blocking = False

    def _check_lag(self, reader: ReaderProgress, now_ns: int) -> None:
        """Let a receiver lag that holds up the others, and report one that lags for too long."""
        if reader.is_lagging:
            lag_ns = now_ns - reader.lag_ns
            laggard_count = sum(other.is_lagging for other in self.readers.values())
            if reader.backlog_bytes > self.type.backlog_bytes_max // laggard_count:
                self.stalls.append((reader.peer, StallReason.BACKLOG))
            elif lag_ns > self.type.lag_limit_ns:
                self.stalls.append((reader.peer, StallReason.LAG))
        elif reader.is_slowest(self._current(), self._lag_grace_ns):
            replaced = reader.begin_lag(
                self._next_seq, self._next_fragment, self._buffer.samples, now_ns
            )
            self._buffer.release_all(replaced)
            self._note_room()
        elif reader.flight and now_ns - reader.progress_ns > self.type.lag_limit_ns:
            self.stalls.append((reader.peer, StallReason.LAG))

    def _note_room(self) -> None:
        if self._was_refused and self.queued_packet_count <= self._queue_max // 2:
            self._was_refused = False
            self.is_room_due = True
