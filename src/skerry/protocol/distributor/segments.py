"""Updates too large for one datagram: cut into pieces, and put together again.

The pieces have numbers that follow one another. The first one has the subject and the length of the
whole, the others nothing but bytes; flags tell the first from those in between and from the last.
"""

from __future__ import annotations

from skerry.errors import DecodeError
from skerry.protocol.distributor.messages import END, MORE, START, UPDATE_HEADER_BYTES
from skerry.protocol.distributor.wire import Reader

__all__ = ["Reassembly", "cut", "first_piece"]


def cut(head: bytes, data: bytes, *, room: int) -> list[tuple[int, bytes]]:
    """Flags and body of each piece; `room` is what a datagram has for a body."""
    whole = head + len(data).to_bytes(4, "big")
    assert len(whole) < room < len(whole) + len(data)
    first_size = room - len(whole)
    pieces = [(START, whole + data[:first_size])]
    pieces += [(MORE, data[pos : pos + room]) for pos in range(first_size, len(data), room)]
    pieces[-1] = (END, pieces[-1][1])
    return pieces


def first_piece(datagram: bytes, *, text_length_bytes: int) -> tuple[bytes, int, bytes]:
    """Subject, length of the whole, and data of a first piece. DecodeError if it is none."""
    reader = Reader(datagram, UPDATE_HEADER_BYTES, text_length_bytes)
    if not reader.number(1):
        raise DecodeError(type_name="update", detail="the first piece has no subject")
    subject = reader.take(reader.number(text_length_bytes))
    if not reader.number(1):
        raise DecodeError(type_name="update", detail="the first piece has no data")
    total = reader.number(4)
    return subject, total, reader.take(reader.left())


class Reassembly:
    """The pieces of one large update so far."""

    def __init__(self, subject: str, total: int, first_seq: int) -> None:
        self.subject = subject
        """Empty if nobody wants it; then only the sizes are added up."""
        self.first_seq = first_seq
        self._total = total
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> bool:
        """Take the next piece. False if there is more now than there should be."""
        self._size += len(piece)
        # An empty one is no fault. Kept, any number of them would fill the memory.
        if self.subject and piece:
            self._pieces.append(piece)
        return self._size <= self._total

    def whole(self) -> bytes | None:
        """The data, or None if it is not as long as was told."""
        return b"".join(self._pieces) if self._size == self._total else None
