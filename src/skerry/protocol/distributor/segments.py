"""Updates too large for one datagram: cut into pieces, and reassembled.

The pieces have consecutive numbers. The first one has the subject and the length of the whole, the
others only bytes. Flags mark the first, the middle and the last pieces.
"""

from __future__ import annotations

from skerry.errors import DecodeError
from skerry.protocol.distributor.messages import END, MORE, START, UPDATE_HEADER_BYTES
from skerry.protocol.distributor.subjects import Subjects
from skerry.protocol.distributor.wire import Reader


def cut(head: bytes, data: bytes, *, room: int) -> list[tuple[int, bytes]]:
    """Return flags and body of each piece; `room` is the size of a body in a datagram."""
    whole = head + len(data).to_bytes(4, "big")
    assert len(whole) < room < len(whole) + len(data)
    first_size = room - len(whole)
    pieces = [(START, whole + data[:first_size])]
    pieces += [(MORE, data[pos : pos + room]) for pos in range(first_size, len(data), room)]
    pieces[-1] = (END, pieces[-1][1])
    return pieces


def first_piece(datagram: bytes, *, text_length_bytes: int) -> tuple[bytes, int, bytes]:
    """Return subject, length of the whole, and data of a first piece; DecodeError if malformed."""
    reader = Reader(datagram, UPDATE_HEADER_BYTES, text_length_bytes)
    if not reader.number(1):
        raise DecodeError(type_name="update", detail="the first piece has no subject")
    subject = reader.take(reader.number(text_length_bytes))
    if not reader.number(1):
        raise DecodeError(type_name="update", detail="the first piece has no data")
    total = reader.number(4)
    return subject, total, reader.take(reader.left())


class Reassembly:
    def __init__(self, subject: str, total: int, first_seq: int) -> None:
        self.subject = subject
        """Empty if there is no subscriber; then only the sizes are added up."""
        self.first_seq = first_seq
        self.is_sound = True
        """Whether the pieces so far can be part of an update."""
        self._total = total
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> bool:
        """Add the next piece. Return False if the pieces exceed the announced length."""
        self._size += len(piece)
        # An empty piece is not a fault. If they were kept, any number of them would fill memory.
        if self.subject and piece:
            self._pieces.append(piece)
        self.is_sound = self._size <= self._total
        return self.is_sound

    def whole(self) -> bytes | None:
        """Return the data; None if its length is not the announced one."""
        return b"".join(self._pieces) if self._size == self._total else None


def begin_reassembly(
    datagram: bytes, seq: int, subjects: Subjects, *, text_length_bytes: int, bytes_max: int
) -> Reassembly:
    """Return a reassembly with its first piece; check whether it `is_sound`."""
    try:
        raw, total, data = first_piece(datagram, text_length_bytes=text_length_bytes)
    except DecodeError:
        malformed = Reassembly("", 0, seq)
        malformed.is_sound = False
        return malformed
    subject = subjects.memo.get(raw)
    if subject is None:
        subject = subjects.resolve(raw)
    reassembly = Reassembly(subject, total, seq)
    reassembly.is_sound = total <= bytes_max and reassembly.add(data)
    return reassembly
