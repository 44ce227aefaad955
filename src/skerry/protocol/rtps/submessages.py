"""The parts of a datagram as values.

They are plain classes and not dataclasses, because one or more are made of each datagram, and plain
classes are faster when compiled. Sequence numbers begin at 1 and never wrap.
Counts have 32 bits and wrap.
"""

from __future__ import annotations

from typing import Final

from skerry.protocol.rtps.number_sets import NumberSet

__all__ = [
    "ACKNACK",
    "CHECK",
    "DATA",
    "DATA_FRAG",
    "GAP",
    "HEARTBEAT",
    "INFO_DST",
    "INFO_TS",
    "LARGE_BYTES",
    "NACK_FRAG",
    "PAD",
    "SEALED",
    "AckNack",
    "Data",
    "DataFragment",
    "GapNotice",
    "Heartbeat",
    "NackFragments",
    "Submessage",
]

PAD: Final = 0x01
ACKNACK: Final = 0x06
HEARTBEAT: Final = 0x07
GAP: Final = 0x08
INFO_TS: Final = 0x09
INFO_DST: Final = 0x0E
NACK_FRAG: Final = 0x12
DATA: Final = 0x15
DATA_FRAG: Final = 0x16
CHECK: Final = 0xF0
"""The checksum of a datagram, as its last part. The id is in the range of vendors."""
SEALED: Final = 0xF1
"""All parts of a datagram, encrypted. The id is in the range of vendors as well."""
LARGE_BYTES: Final = 4096
"""A payload from this size on is not copied more often than necessary. For smaller ones that would
cost more than the copies."""


class Data:
    """A whole sample, or a message of discovery."""

    def __init__(self, writer: int, seq: int, payload: bytes, is_addressed: bool = False) -> None:
        """`is_addressed` is whether the datagram names its receiver."""
        self.writer = writer
        self.seq = seq
        self.payload = payload
        self.is_addressed = is_addressed


class DataFragment:
    """One fragment of a sample. Fragments are numbered from 1."""

    def __init__(
        self,
        writer: int,
        seq: int,
        number: int,
        fragment_bytes: int,
        sample_bytes: int,
        data: bytes | memoryview,
    ) -> None:
        self.writer = writer
        self.seq = seq
        self.number = number
        self.fragment_bytes = fragment_bytes
        """The size of all fragments but the last one."""
        self.sample_bytes = sample_bytes
        self.data = data
        """The bytes of the fragment: of a large one, a view of the sample or of the datagram."""


class Heartbeat:
    """What the sender of a stream still keeps: a keep-alive, or a request to acknowledge."""

    def __init__(
        self, writer: int, first_seq: int, last_seq: int, count: int, is_final: bool, is_live: bool
    ) -> None:
        self.writer = writer
        self.first_seq = first_seq
        """The lowest number that a receiver still needs; `last_seq + 1` if none does."""
        self.last_seq = last_seq
        self.count = count
        self.is_final = is_final
        """Whether no answer is required."""
        self.is_live = is_live
        """Whether it is a keep-alive."""


class AckNack:
    """What a receiver has of a stream: all below the base. Members of the set are missing, the
    other numbers of the set were received out of order."""

    def __init__(self, writer: int, numbers: NumberSet, count: int) -> None:
        self.writer = writer
        self.numbers = numbers
        self.count = count


class NackFragments:
    """What a receiver has of one sample, in the same form; the numbers are those of fragments."""

    def __init__(self, writer: int, seq: int, numbers: NumberSet, count: int) -> None:
        self.writer = writer
        self.seq = seq
        self.numbers = numbers
        self.count = count


class GapNotice:
    """Numbers that are not for the receiver: those from `start_seq` to the base of the set, and
    the members of the set."""

    def __init__(self, writer: int, start_seq: int, numbers: NumberSet) -> None:
        self.writer = writer
        self.start_seq = start_seq
        self.numbers = numbers


Submessage = Data | DataFragment | Heartbeat | AckNack | NackFragments | GapNotice
