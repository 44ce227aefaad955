"""What a stream keeps of its messages: the open ones, and the samples that a receiver needs."""

from __future__ import annotations

from skerry.protocol.link.message_packing import MessagePacking
from skerry.protocol.link.packets import Sample, SamplePacket

__all__ = ["SampleBuffer"]


class SampleBuffer:
    """Numbers samples and their packets, and keeps each until all receivers have it."""

    def __init__(self, fragment_bytes: int) -> None:
        self.packing = MessagePacking(fragment_bytes)
        """The messages without a number."""
        self.samples: dict[int, Sample] = {}
        """The samples that a receiver still needs, in order."""
        self.packets: dict[int, SamplePacket] = {}
        """Their packets, by number."""
        self.end_seq = 1
        """The number of the next sample."""
        self.end_packet = 0
        """The number of the next packet."""
        self._fragment_bytes = fragment_bytes
        self._is_gapless = False
        """Whether no message was dropped since the last sample. Before the first, no receiver can
        be misled."""

    def close_sample(self, reader_count: int) -> Sample | None:
        """Make a sample of the open messages, for so many receivers; None if there are none."""
        if not self.packing:
            return None
        data, keys = self.packing.close()
        self._is_gapless = True
        sample = Sample(self.end_seq, data, self._fragment_bytes, self.end_packet, keys)
        sample.reader_count = reader_count
        self.samples[sample.seq] = sample
        for packet in sample.packets:
            self.packets[packet.number] = packet
        self.end_seq += 1
        self.end_packet += len(sample.packets)
        return sample

    def drop_message(self) -> bool:
        """Drop a message without receivers, and return True.

        A number is left out: a receiver that was removed, does not know it yet, and still receives
        from the group, must not take what follows for the next.
        """
        if self._is_gapless:
            self._is_gapless = False
            self.end_seq += 1
        return True

    def packet_count(self, base_seq: int) -> int:
        """Return the packets from a sample on; 0 if that sample is not kept."""
        first = self.samples.get(base_seq)
        return self.end_packet - first.packets[0].number if first is not None else 0

    def release(self, sample: Sample) -> None:
        """Note that one receiver less needs a sample."""
        sample.reader_count -= 1
        if sample.reader_count == 0:
            del self.samples[sample.seq]
            for packet in sample.packets:
                del self.packets[packet.number]

    def release_all(self, samples: list[Sample]) -> None:
        """Note that one receiver less needs each of these samples."""
        for sample in samples:
            self.release(sample)
