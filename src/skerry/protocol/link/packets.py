"""Samples, and the packets in which they are sent.

A sample has a sequence number. A short one is sent as one packet, a longer one as one packet for
each fragment. Packets of a stream are numbered as well: windows count packets, not samples.
"""

from __future__ import annotations

from skerry.protocol.rtps.samples import read_types

__all__ = ["Sample", "SamplePacket"]


class Sample:
    """One sequence number of a stream at its sender."""

    def __init__(
        self, seq: int, data: bytes, fragment_bytes: int, first_packet: int, keys: list[int] | None
    ) -> None:
        """`keys` are those of all records; None if a record has none."""
        self.seq = seq
        self.data = data
        self.keys = keys
        self.reader_count = 0
        """Receivers that need it. The stream forgets the sample when there are none left."""
        size = len(data)
        if size <= fragment_bytes:
            self.packets = [SamplePacket(self, first_packet, 0, 0, size)]
        else:
            self.packets = [
                SamplePacket(self, first_packet + index, index + 1, start, start + fragment_bytes)
                for index, start in enumerate(range(0, size, fragment_bytes))
            ]

    def record_keys(self) -> list[tuple[int, int]]:
        """Return data type and key of each record; empty if a record has no key."""
        if self.keys is None:
            return []
        return list(zip(read_types(self.data), self.keys, strict=True))


class SamplePacket:
    """One sample, or one fragment of it."""

    def __init__(self, sample: Sample, number: int, fragment: int, start: int, stop: int) -> None:
        """`number` is that in the stream, and `fragment` that in the sample; 0 if it is whole."""
        self.sample = sample
        self.number = number
        self.fragment = fragment
        self.start = start
        self.stop = stop
