"""A reliable stream at its receiver: order, and acknowledgement.

Samples are delivered in order and without gaps. What is behind a gap waits in a window. The
receiver acknowledges when the sender asks, and at once if it sees that something is missing or
repeated.
"""

from __future__ import annotations

from typing import Final

from skerry.protocol.link.assembly import Assembly
from skerry.protocol.link.peers import Peer
from skerry.protocol.rtps.number_sets import NUMBER_SET_BITS_MAX, NumberSet
from skerry.protocol.rtps.submessages import (
    AckNack,
    Data,
    DataFragment,
    GapNotice,
    Heartbeat,
    NackFragments,
)

__all__ = ["BEYOND_ACK_NS", "IncomingStream"]

BEYOND_ACK_NS: Final = 10_000_000
"""Packets beyond the window are answered no more often than this. A receiver that lags behind
receives many of them, since they are multicast."""


class IncomingStream:
    """The samples of one stream of one node, at one receiver."""

    def __init__(
        self, writer: int, peer: Peer, *, window: int, message_bytes_max: int, is_shared: bool
    ) -> None:
        self.writer = writer
        self.peer = peer
        self.is_shared = is_shared
        self.is_lost = False
        """Whether the sender no longer keeps what is needed, so the stream cannot continue."""
        self.is_ack_due = False
        self._is_continued = False
        """Whether the sender may have excluded this receiver meanwhile, and begin again."""
        self._window = window
        self._message_bytes_max = message_bytes_max
        self._next_seq = 0 if is_shared else 1
        """The next number to deliver; 0 before the welcome of a shared stream."""
        self._welcome_seq = 0
        self._stop_seq = self._next_seq
        """The number behind the highest that was received."""
        self._samples: dict[int, bytes] = {}
        """Whole samples that wait; one without bytes is a number that is left out."""
        self._assemblies: dict[int, Assembly] = {}
        self._ack_count = 0
        self._heartbeat_count: int | None = None
        self._beyond_ns = -BEYOND_ACK_NS

    @property
    def is_welcomed(self) -> bool:
        """Whether it is known where the stream begins."""
        return self._next_seq > 0

    @property
    def stop_seq(self) -> int:
        """The number behind the highest that was received."""
        return self._stop_seq

    @property
    def place(self) -> tuple[int, int]:
        """The next number to deliver, and the count of the last acknowledgement: what another
        object needs to continue the stream."""
        return self._next_seq, self._ack_count

    @place.setter
    def place(self, place: tuple[int, int]) -> None:
        self._next_seq, self._ack_count = place
        self._stop_seq = self._next_seq

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait for what is missing before them, or for the host."""
        waiting = sum(map(len, self._samples.values()))
        return waiting + sum(assembly.received_bytes for assembly in self._assemblies.values())

    def continue_with(self, peer: Peer) -> None:
        """Go on after this node has excluded the sender and included it again.

        If the sender has not noticed, it goes on as well, and repeats what it believes to be lost.
        """
        self.peer = peer
        self.is_ack_due = False
        self._is_continued = True

    # -- input

    def data_received(self, data: Data, now_ns: int) -> None:
        """Process a whole sample."""
        if self._is_wanted(data.seq, now_ns):
            self._add(data.seq, data.payload)

    def next_received(self, data: Data) -> bool:
        """Take a whole sample that is the next one, if nothing waits; False if it is not."""
        if data.seq != self._next_seq or self._samples or self._assemblies:
            return False
        self._next_seq += 1
        if self._next_seq > self._stop_seq:
            self._stop_seq = self._next_seq
        return True

    def fragment_received(self, fragment: DataFragment, now_ns: int) -> None:
        """Process a fragment."""
        seq = fragment.seq
        if not self._is_wanted(seq, now_ns):
            return
        if seq != self._next_seq:
            self.is_ack_due = True
            if self._ahead_count() >= self._window:
                return  # No honest sender has so many packets in flight.
        assembly = self._assemblies.get(seq)
        if assembly is None:
            if fragment.sample_bytes > self._message_bytes_max:
                self.is_lost = True
                return
            assembly = self._assemblies[seq] = Assembly(fragment)
        if fragment.number > assembly.stop:
            self.is_ack_due = True
        is_new = assembly.add(fragment)
        if is_new is None:
            self.peer.corrupt_count += 1
        elif not is_new:
            self.peer.duplicate_count += 1
            self.is_ack_due = True
        elif assembly.is_whole:
            del self._assemblies[seq]
            self._add(seq, assembly.sample())
        else:
            self._stop_seq = max(self._stop_seq, seq + 1)

    def gap_received(self, gap: GapNotice, now_ns: int) -> None:
        """Process numbers that are not for this receiver."""
        base = gap.numbers.base
        if self.is_shared and gap.start_seq == 1 and not gap.numbers.members:
            self._welcomed(base)
            return
        if not self._next_seq:
            return
        if gap.start_seq <= self._next_seq < base:
            for seq in range(self._next_seq, min(base, self._stop_seq)):
                self._samples.pop(seq, None)
                self._assemblies.pop(seq, None)
            self._next_seq = base
            self._stop_seq = max(self._stop_seq, base)
        elif gap.start_seq > self._next_seq:
            for seq in range(gap.start_seq, min(base, self._next_seq + self._window)):
                self._leave_out(seq)
        for seq in gap.numbers.members:
            if self._is_wanted(seq, now_ns):
                self._leave_out(seq)
        self.is_ack_due = True

    def catch_up(self, heartbeat: Heartbeat) -> bool:
        """Continue with the first number that the sender still keeps.

        False if numbers are missed by that. None are if nothing was delivered yet: this node has
        received all before, and forgotten the stream since.
        """
        next_seq, first_seq = self._next_seq, heartbeat.first_seq
        if first_seq <= next_seq:
            return True
        for waiting in (self._samples, self._assemblies):
            for seq in [seq for seq in waiting if seq < first_seq]:
                del waiting[seq]
        is_new = next_seq == max(self._welcome_seq, 1)
        self._next_seq = first_seq
        if is_new:
            self._welcome_seq = first_seq
        # What was beyond the window until now is reported as missing.
        stop_seq = min(heartbeat.last_seq + 1, first_seq + self._window)
        self._stop_seq = max(self._stop_seq, stop_seq)
        return is_new

    def heartbeat_received(self, heartbeat: Heartbeat) -> None:
        """Process a heartbeat: a request to acknowledge, or a keep-alive."""
        last = self._heartbeat_count
        if last is not None and not 0 < (heartbeat.count - last) & 0xFFFFFFFF < 1 << 31:
            return
        self._heartbeat_count = heartbeat.count
        if not self._next_seq:
            return
        if heartbeat.first_seq > self._next_seq and not self._is_continued:
            self.is_lost = True
        if not heartbeat.is_final or heartbeat.last_seq >= self._next_seq:
            self.is_ack_due = True

    # -- output

    def resume(self) -> None:
        """Acknowledge what was received while the host took nothing."""
        self.is_ack_due = bool(self._samples)

    def take_samples(self) -> list[bytes]:
        """Return the samples that are next in order."""
        taken: list[bytes] = []
        samples = self._samples
        while (sample := samples.pop(self._next_seq, None)) is not None:
            self._next_seq += 1
            if sample:
                taken.append(sample)
        return taken

    def take_ack(self) -> tuple[NackFragments | None, AckNack]:
        """Return what the sender has to know about this stream."""
        self.is_ack_due = False
        self._ack_count += 1
        base = self._next_seq
        nack = None
        first = self._assemblies.get(base)
        if first is not None:
            is_to_end = self._stop_seq > base + 1
            nack = NackFragments(
                self.writer, base, first.missing(is_to_end=is_to_end), self._ack_count
            )
        stop = min(max(self._stop_seq, base), base + NUMBER_SET_BITS_MAX)
        if first is not None and stop == base + 1:
            stop = base
        missing = [seq for seq in range(base, stop) if seq not in self._samples]
        return nack, AckNack(self.writer, NumberSet(base, stop, missing), self._ack_count)

    # -- inside

    def _is_wanted(self, seq: int, now_ns: int) -> bool:
        """Return whether a number is in the window and new; otherwise note what to answer."""
        next_seq = self._next_seq
        if not next_seq or seq < self._welcome_seq:
            return False  # There was no welcome yet, or it is not for this receiver.
        if seq < next_seq or seq in self._samples:
            self.peer.duplicate_count += 1
            self.is_ack_due = True
            return False
        if seq >= next_seq + self._window:
            if now_ns - self._beyond_ns >= BEYOND_ACK_NS:
                self._beyond_ns = now_ns
                self.is_ack_due = True
            return False
        return True

    def _ahead_count(self) -> int:
        """Return how many fragments wait of samples behind the next one."""
        assemblies = self._assemblies.items()
        return sum(len(assembly) for seq, assembly in assemblies if seq != self._next_seq)

    def _add(self, seq: int, sample: bytes) -> None:
        self._samples[seq] = sample
        self._stop_seq = max(self._stop_seq, seq + 1)
        if seq != self._next_seq:
            self.is_ack_due = True

    def _leave_out(self, seq: int) -> None:
        if seq not in self._samples:
            self._assemblies.pop(seq, None)
            self._samples[seq] = b""
            self._stop_seq = max(self._stop_seq, seq + 1)

    def _welcomed(self, first_seq: int) -> None:
        """Begin the stream, or answer a repeated welcome."""
        is_new = self._is_continued and first_seq >= self._next_seq
        if not self._next_seq or (is_new and first_seq > self._welcome_seq):
            self._is_continued = False
            self._samples.clear()
            self._assemblies.clear()
            self._next_seq = self._welcome_seq = self._stop_seq = first_seq
        elif first_seq != self._welcome_seq:
            self.is_lost = True
        self.is_ack_due = True
