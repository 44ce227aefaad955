"""Delivery of the datagrams of one stream, which the receiver has put in order.

A hot module. Datagrams are unpacked into updates, the pieces of large updates are reassembled, and
an event takes the place of datagrams that are lost.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be

from skerry.protocol.distributor.events import LossReason, SenderInfo, StartUnknown, UpdatesLost
from skerry.protocol.distributor.messages import (
    END,
    HEADER_BYTES,
    RELAYED,
    START,
    UPDATE_HEADER_BYTES,
    WHOLE,
)
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.receiving.unpacking import scan, unpack
from skerry.protocol.distributor.receiving.updates import Packed
from skerry.protocol.distributor.segments import Reassembly, begin_reassembly
from skerry.protocol.distributor.subjects import Subjects

_U32: Final = 0xFFFFFFFF

DatagramContent = tuple[int, bytes, list[tuple[str, bytes]]]
"""The flags of a datagram, the datagram, and its updates unless it is a piece of a large one."""


class StreamDelivery:
    def __init__(
        self,
        sender: SenderInfo,
        subjects: Subjects,
        deliveries: Deliveries,
        *,
        text_length_bytes: int,
        update_bytes_max: int,
    ) -> None:
        self.sender = sender
        self._deliveries = deliveries
        self._subjects = subjects
        self._text_length_bytes = text_length_bytes
        self._update_bytes_max = update_bytes_max
        self.reassembly: Reassembly | None = None
        """The large update of which some pieces were received; None if there is none."""
        self.lost_count = 0
        """Datagrams that were reported as lost."""
        self.run_update_count = 0
        """Updates in the datagrams of the last `deliver_run`."""
        self.pieces_fault_count = 0
        """Large updates whose pieces did not add up."""

    def deliver_run(self, data: bytes, size: int, seq: int) -> int:
        """Deliver datagrams that arrived together, each of `size` bytes except for the last.

        The first one has to be number `seq`. Stop at one that is not the next of this sender, or
        not of the usual form, and return its offset.
        """
        self.run_update_count = 0
        flags = data[3]
        if self.reassembly is not None or flags & WHOLE != WHOLE:
            return 0
        header = data[:HEADER_BYTES]
        pending = self._deliveries.open(self.sender, flags & RELAYED != 0)
        batch, numbers = pending.batch, pending.numbers
        before_count = batch.count
        first, end = 0, len(data)
        while first < end:
            stop = min(first + size, end)
            if stop - first < UPDATE_HEADER_BYTES or data[first : first + HEADER_BYTES] != header:
                break
            wire_seq: int = read_i32_be(data, first + HEADER_BYTES)
            part = self._packed(data, first, stop) if (wire_seq ^ seq) & _U32 == 0 else None
            if part is None:
                break
            if numbers is not None:
                numbers.append((batch.count, seq))
            batch.pack(part)
            seq += 1
            first = stop
        if first:
            self._deliveries.close(pending)
            self.run_update_count = batch.count - before_count
        return first

    def content(self, datagram: bytes, flags: int) -> DatagramContent | None:
        """Return the content of a datagram; None if it does not consist of updates."""
        updates: list[tuple[str, bytes]] = []
        if flags & WHOLE != WHOLE:
            return (flags, datagram, updates) if len(datagram) >= UPDATE_HEADER_BYTES else None
        subjects = self._subjects
        if not unpack(datagram, self._text_length_bytes, subjects.memo, subjects, updates):
            return None
        return flags, datagram, updates

    def deliver(self, seq: int, content: DatagramContent) -> None:
        flags, datagram, updates = content
        if flags & START and self.reassembly is not None:
            # The event about its pieces has to precede these updates.
            self.spoil(seq)
        if flags & WHOLE == WHOLE:
            self._hand_over(seq, flags, updates)
        elif flags & START:
            self.reassembly = begin_reassembly(
                datagram,
                seq,
                self._subjects,
                text_length_bytes=self._text_length_bytes,
                bytes_max=self._update_bytes_max,
            )
            if not self.reassembly.is_sound:
                self.spoil(seq + 1)
        elif self.reassembly is None:
            # The first piece was lost or spoiled, which was reported.
            pass
        elif not self.reassembly.add(datagram[UPDATE_HEADER_BYTES:]):
            self.spoil(seq + 1)
        elif flags & END:
            self._finish_large(self.reassembly, seq, flags)

    def lose(
        self, first_seq: int, stop_seq: int, reason: LossReason, *, is_stopped: bool = False
    ) -> None:
        """Report datagrams as lost. A stopped stream may still receive them."""
        if not is_stopped:
            self.reassembly = None
        self.lost_count += stop_seq - first_seq
        self._deliveries.add(
            UpdatesLost(
                sender=self.sender,
                first_seq=first_seq & _U32,
                stop_seq=stop_seq & _U32,
                reason=reason,
                is_stopped=is_stopped,
            )
        )

    def spoil(self, stop_seq: int, reason: LossReason = LossReason.MALFORMED) -> None:
        """Report the pieces received so far as lost: they do not make up an update."""
        reassembly = self.reassembly
        assert reassembly is not None
        self.pieces_fault_count += 1
        self.lose(reassembly.first_seq, stop_seq, reason)

    def report_unknown(self, first_seq: int, stop_seq: int) -> None:
        """Report that datagrams in this range may be missing before the start of the stream."""
        self._deliveries.add(
            StartUnknown(sender=self.sender, first_seq=first_seq & _U32, stop_seq=stop_seq & _U32)
        )

    def _packed(self, data: bytes, first: int, stop: int) -> Packed | None:
        """Return the updates of the datagram between `first` and `stop` of some bytes.

        None if the datagram is not of the usual form; `content` then returns the kind.
        """
        width = self._text_length_bytes
        subjects: list[str] = []
        if not scan(data, first, stop, width, self._subjects.memo, subjects):
            return None
        count: int = read_i32_be(data, first + UPDATE_HEADER_BYTES - 4)
        return Packed(data, first + UPDATE_HEADER_BYTES, width, subjects, count)

    def _finish_large(self, reassembly: Reassembly, seq: int, flags: int) -> None:
        data = reassembly.whole()
        if data is None:
            self.spoil(seq + 1)
            return
        self.reassembly = None
        if reassembly.subject:
            self._hand_over(seq, flags, [(reassembly.subject, data)])

    def _hand_over(self, seq: int, flags: int, updates: list[tuple[str, bytes]]) -> None:
        pending = self._deliveries.open(self.sender, bool(flags & RELAYED))
        if pending.numbers is not None:
            pending.numbers.append((pending.batch.count, seq))
        pending.batch.extend(updates)
        self._deliveries.close(pending)
