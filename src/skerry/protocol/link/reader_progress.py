"""What one receiver of a reliable stream has acknowledged, and what is in flight to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skerry.protocol.link.conflation import Conflation
from skerry.protocol.link.packets import Sample
from skerry.protocol.link.peers import Peer
from skerry.protocol.rtps.number_sets import NumberSet

__all__ = ["ReaderProgress"]

_SKIPPED_BYTES: Final = 64
"""What a sample that is left out still takes of the backlog: its number in two sets."""
_MEMORY: Final = 20
"""Within how many times the grace of its type the time in which a receiver held up the others is
forgotten. So it may hold them up for about a twentieth of the time."""


class ReaderProgress:
    """One receiver of a stream.

    A receiver is current or lagging. All current ones are sent the same packets at the same time. A
    lagging one is sent what it needs on its own, at the pace of its acknowledgements, and does not
    hold up the others.
    """

    def __init__(self, peer: Peer, first_seq: int, now_ns: int, *, is_welcomed: bool) -> None:
        self.peer = peer
        self.first_seq = first_seq
        """The first number that is for this receiver."""
        self.is_welcomed = is_welcomed
        """Whether the receiver knows that number."""
        self.base_seq = first_seq
        """All numbers below are acknowledged."""
        self.done: set[int] = set()
        """Numbers from the base on that it does not need any more."""
        self.flight: dict[int, int] = {}
        """When each packet that is not acknowledged was sent last, by the number of the packet."""
        self.counts: dict[int, int] = {}
        """How often it was sent, if more than once."""
        self.gaps: dict[int, tuple[int, int]] = {}
        """Ranges of numbers that were left out, by the number of the packet that stands for it."""
        self.ack_count: int | None = None
        """The count of its last acknowledgement."""
        self.fragments_seq = 0
        """The sample whose fragments it has reported since its last acknowledgement."""
        self.asked_packet = -1
        """The last packet for which an acknowledgement was requested explicitly."""
        self.asked_ns = now_ns
        """When an acknowledgement was requested explicitly last."""
        self.is_probed = False
        """Whether an idle stream awaits an acknowledgement, to learn whether there still is one."""
        self.resend_left = 0
        """Packets that may be sent again before the next tick."""
        self.unanswered_count = 0
        """Transmissions of its oldest packet since its last answer."""
        self.welcome_ns = now_ns
        """When the welcome was sent last."""
        self.welcome_count = 0
        self.progress_ns = now_ns
        """When an acknowledgement freed a packet last, or nothing was in flight."""

        self.is_lagging = False
        self.lag_ns = 0
        """Since when it is lagging."""
        self.blocked_ns = 0
        """How long it has held up the others lately: times long ago count less."""
        self.is_blocking = False
        """Whether it holds up the others now."""
        self.next_seq = 0
        """The next sample to send to it, while it is lagging."""
        self.next_fragment = 0
        self.skipped: set[int] = set()
        """Waiting samples that it does not need, since later ones replace them."""
        self.backlog_bytes = 0
        """Bytes of the samples that it needs, while it is lagging."""
        self._conflation = Conflation()

    # -- acknowledgement

    @property
    def is_waiting(self) -> bool:
        """Whether an acknowledgement is expected."""
        return bool(self.flight) or bool(self.done) or self.is_probed

    @property
    def needs_tick(self) -> bool:
        """Whether something is sent to it again, or noticed about it, after some time."""
        return bool(self.is_waiting or not self.is_welcomed or self.is_lagging or self.is_blocking)

    def needs(self, seq: int) -> bool:
        """Return whether it needs a sample."""
        return seq >= self.base_seq and seq not in self.done

    def take(self, sample: Sample) -> bool:
        """Note that it does not need a sample any more; return whether it had needed it."""
        seq = sample.seq
        if seq in self.done:
            return False
        self.done.add(seq)
        if self.is_lagging:
            self.backlog_bytes -= len(sample.data)
        for packet in sample.packets:
            self.landed(packet.number)
        return True

    def landed(self, packet: int) -> None:
        """Note that a packet is not in flight any more."""
        if self.flight.pop(packet, None) is not None:
            self.counts.pop(packet, None)

    def advance_base(self, seq: int) -> None:
        """Note that it needs no number below `seq`, each of which was taken before."""
        for number in range(self.base_seq, seq):
            self.done.discard(number)
            if number in self.skipped:
                self.skipped.remove(number)
                if self.is_lagging:
                    self.backlog_bytes -= _SKIPPED_BYTES
        self.base_seq = seq
        for packet, (_, stop_seq) in list(self.gaps.items()):
            if stop_seq <= seq:
                del self.gaps[packet]
                self.landed(packet)

    def answered(self, now_ns: int) -> None:
        """Note an acknowledgement, whatever it says."""
        self.is_welcomed = True
        self.is_probed = False
        self.unanswered_count = 0
        self.peer.acknowledged(now_ns)

    def dropped(self, numbers: NumberSet) -> int:
        """Return the number behind those that it had acknowledged out of order, and now reports as
        missing at its base, since it has dropped them; the base if there are none."""
        stop_seq = self.base_seq
        if numbers.base == stop_seq and (numbers.stop == stop_seq or stop_seq in numbers.members):
            while stop_seq in self.done:
                stop_seq += 1
        return stop_seq

    def is_new_count(self, count: int) -> bool:
        """Return whether an acknowledgement is newer than the last one; note its count if so."""
        last = self.ack_count
        if last is not None and not 0 < (count - last) & 0xFFFFFFFF < 1 << 31:
            return False
        self.ack_count = count
        return True

    # -- transmission

    def sent(self, packet: int, now_ns: int) -> None:
        """Note that a packet was sent."""
        flight = self.flight
        if packet in flight:
            self.counts[packet] = self.counts.get(packet, 1) + 1
        elif not flight:
            self.progress_ns = now_ns
        flight[packet] = now_ns

    def was_sent_once(self, packet: int) -> bool:
        """Return whether a packet is in flight and was not sent again."""
        return packet in self.flight and packet not in self.counts

    def is_to_ask(self, packet: int) -> bool:
        """Return whether no acknowledgement of a packet was requested, and it was sent once."""
        return packet > self.asked_packet and packet not in self.counts

    def is_full(self, seq: int, window: int) -> bool:
        """Return whether it has no room for sample `seq`."""
        return len(self.flight) >= window or seq >= self.base_seq + window

    # -- lag

    def skip_behind(self) -> None:
        """Continue behind what it has acknowledged, while it is lagging."""
        if self.is_lagging and self.next_seq < self.base_seq:
            self.next_seq, self.next_fragment = self.base_seq, 0

    def account(self, elapsed_ns: int, grace_ns: int) -> None:
        """Count the time in which it held up the others, or did not. `grace_ns` is for how long it
        may hold them up."""
        memory_ns = _MEMORY * grace_ns
        blocked_ns = self.blocked_ns + elapsed_ns if self.is_blocking else self.blocked_ns
        self.blocked_ns = blocked_ns - blocked_ns * min(elapsed_ns, memory_ns) // memory_ns

    def is_slowest(self, current: Sequence[ReaderProgress], grace_ns: int) -> bool:
        """Whether it has held up the others for too long. Equally fast ones hold each other up in
        turns, so only what exceeds the time of the least slow one counts."""
        if self.blocked_ns <= grace_ns:
            return False
        return self.blocked_ns - min(other.blocked_ns for other in current) > grace_ns

    def excuse(self, late_ns: int) -> None:
        """Do not count a time in which the sender itself did nothing."""
        self.progress_ns += late_ns
        self.lag_ns += late_ns
        self.blocked_ns = max(0, self.blocked_ns - late_ns)

    def begin_lag(
        self, seq: int, fragment: int, samples: dict[int, Sample], now_ns: int
    ) -> list[Sample]:
        """Serve it on its own from now on, beginning with fragment `fragment` of sample `seq`.

        `samples` are all samples that the stream keeps, in order. Returns those that the receiver
        does not need any more.
        """
        self.is_lagging = True
        self.lag_ns = now_ns
        self.is_blocking = False
        self.next_seq, self.next_fragment = seq, fragment
        # Numbers that were left out before may still wait for their acknowledgement.
        self.backlog_bytes = _SKIPPED_BYTES * len(self.skipped)
        self._conflation = Conflation()
        replaced: list[Sample] = []
        for sample in list(samples.values()):
            if sample.seq >= seq:
                replaced += self.append(sample, samples)
            elif self.needs(sample.seq):
                self.backlog_bytes += len(sample.data)
        return replaced

    def end_lag(self, samples: dict[int, Sample]) -> None:
        """Serve it together with the others again. What they still wait for, it needs as well."""
        self.is_lagging = False
        self.backlog_bytes = 0
        for seq in [seq for seq in self.skipped if seq >= self.next_seq]:
            self.skipped.remove(seq)
            self.done.remove(seq)
            samples[seq].reader_count += 1

    def append(self, sample: Sample, samples: dict[int, Sample]) -> list[Sample]:
        """Add a sample that waits for it; return the samples that it does not need any more."""
        self.backlog_bytes += len(sample.data)
        replaced: list[Sample] = []
        for seq in self._conflation.add(sample):
            # The first sample is never left out, since a gap that begins there is a welcome.
            is_waiting = seq > self.next_seq and seq > self.first_seq and seq not in self.done
            if is_waiting:
                before = samples[seq]
                self.take(before)
                self.skipped.add(seq)
                self.backlog_bytes += _SKIPPED_BYTES
                replaced.append(before)
        return replaced

    def passed(self, sample: Sample) -> None:
        """Continue with the next sample, while it is lagging."""
        self._conflation.sent(sample)
        self.next_seq = sample.seq + 1
        self.next_fragment = 0
