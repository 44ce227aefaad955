"""Updates into datagrams: the innermost loop of a sender.

A hot module. One datagram is open at a time, as a list of pieces of bytes that are joined once when
it is full or has waited long enough. Whatever is not the usual case (a datagram that is full, an
update that does not fit into any, a publisher that has to wait) is left to the subclass, `Sender`.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

__all__ = ["LENGTHS", "LENGTH_COUNT", "Packer", "fit"]

LENGTH_COUNT: Final = 2048
"""Lengths whose bytes are kept ready; longer updates are few in a datagram."""

LENGTHS: Final[list[bytes]] = [length.to_bytes(4, "big") for length in range(LENGTH_COUNT)]
"""How a length stands on the wire."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Packer:
    """The open datagram of a sender."""

    def __init__(self, room: int) -> None:
        self.room: int = room
        """What a datagram has for updates; negative while nothing may be published."""
        self.heads: dict[str, bytes] = {}
        """What stands in front of the data of an update, by its subject."""
        # The first place is kept for the header.
        self.pieces: list[bytes] = [b""]
        self.size: int = 0
        """Bytes of the updates in the open datagram."""
        self.count: int = 0
        """Updates in the open datagram."""
        self.hold_until_ns: int = 0
        """The open datagram waits for more until then."""

    def publish(self, subject: str, data: bytes, now_ns: int) -> None:
        """Put an update into the open datagram, and send that off unless it may wait."""
        head = self.heads.get(subject)
        if head is None:
            head = self.make_head(subject)
        length = len(data)
        size = self.size + len(head) + 4 + length
        if size > self.room:
            if self.make_room(head, data, now_ns):
                return
            size = self.size + len(head) + 4 + length
        pieces = self.pieces
        pieces.append(head)
        pieces.append(LENGTHS[length] if length < LENGTH_COUNT else length.to_bytes(4, "big"))
        pieces.append(data)
        self.size = size
        self.count += 1
        if now_ns >= self.hold_until_ns:
            self.hold_or_flush(now_ns)

    def publish_many(self, updates: list[tuple[str, bytes]], first: int, now_ns: int) -> int:
        """Publish updates from place `first` on. How many were taken: all, unless one has to wait.

        They count as published at once, so none of them is sent before its datagram is full.
        """
        try:
            return self._put_many(updates, first, now_ns)
        finally:
            # Also when one is refused: those before it are published.
            if self.count and now_ns >= self.hold_until_ns:
                self.hold_or_flush(now_ns)

    def _put_many(self, updates: list[tuple[str, bytes]], first: int, now_ns: int) -> int:
        # The same as in `publish`, written out: in plain Python a call each would double the time.
        heads, pieces = self.heads, self.pieces
        size, count, room = self.size, self.count, self.room
        taken = first
        stop = len(updates)
        while taken < stop:
            subject, data = updates[taken]
            head = heads.get(subject)
            length = len(data)
            if head is None or size + len(head) + 4 + length > room:
                self.size, self.count = size, count
                head = self.make_head(subject)
                if room < 0 and not self.may_publish(now_ns):
                    return taken - first
                is_sent = self.make_room(head, data, now_ns)
                pieces, size, count, room = self.pieces, self.size, self.count, self.room
                if is_sent:
                    taken += 1
                    continue
            pieces.append(head)
            pieces.append(LENGTHS[length] if length < LENGTH_COUNT else length.to_bytes(4, "big"))
            pieces.append(data)
            size += len(head) + 4 + length
            count += 1
            taken += 1
        self.size, self.count = size, count
        return taken - first

    def publish_pieces(self, pieces: list[bytes], now_ns: int) -> int:
        """Publish updates that were cut before: head, length and data of each, one after another.

        How many pieces were taken: all, unless an update has to wait. The list may grow meanwhile.
        """
        try:
            return self._put_pieces(pieces, now_ns)
        finally:
            if self.count and now_ns >= self.hold_until_ns:
                self.hold_or_flush(now_ns)

    def _put_pieces(self, pieces: list[bytes], now_ns: int) -> int:
        first = 0
        stop = len(pieces)
        while first < stop:
            fitting, size = self.fit(pieces, first, stop, self.room - self.size)
            if fitting > first:
                self.pieces.extend(pieces[first:fitting])
                self.size += size
                self.count += (fitting - first) // 3
                first = fitting
                continue
            if self.room < 0 and not self.may_publish(now_ns):
                break
            if self.make_room(pieces[first], pieces[first + 2], now_ns):
                first += 3
        return first

    def fit(self, pieces: list[bytes], first: int, stop: int, room: int) -> tuple[int, int]:
        """See the function of this name."""
        return fit(pieces, first, stop, room)

    def take(self, header: bytes) -> bytes:
        """The open datagram behind this header; the next one is open then."""
        pieces = self.pieces
        pieces[0] = header
        self.pieces = [b""]
        self.size = 0
        self.count = 0
        self.hold_until_ns = 0
        return b"".join(pieces)

    def make_head(self, subject: str) -> bytes:
        """The head of a subject that was not published before, checked."""
        raise NotImplementedError

    def may_publish(self, now_ns: int) -> bool:
        """Whether a publisher need not wait; raises if there is none."""
        raise NotImplementedError

    def make_room(self, head: bytes, data: bytes, now_ns: int) -> bool:
        """Make the open datagram one that this update fits. True if it was sent by itself.

        WouldBlock when its publisher has to wait first.
        """
        raise NotImplementedError

    def hold_or_flush(self, now_ns: int) -> None:
        """Decide on the open datagram, which was not held until now or was for long enough."""
        raise NotImplementedError


def fit(pieces: list[bytes], first: int, stop: int, room: int) -> tuple[int, int]:
    """Up to where the updates from `first` on fit into so much room, and how much they take."""
    pos: i64 = first
    end: i64 = stop
    left: i64 = room
    taken: i64 = 0
    while pos < end:
        size: i64 = len(pieces[pos]) + 4 + len(pieces[pos + 2])
        if taken + size > left:
            break
        taken += size
        pos += 3
    return pos, taken
