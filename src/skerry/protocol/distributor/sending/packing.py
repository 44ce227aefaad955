"""Updates into datagrams: the innermost loop of a sender.

A hot module. One datagram is open at a time, into which updates are written until it is full or has
waited long enough. Whatever is not the usual case (a datagram that is full, an update that does not
fit into any, a publisher that has to wait) is left to the subclass, `Sender`.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64, mypyc_attr, u8

from skerry.protocol.distributor.messages import HEADER_BYTES, UPDATE_HEADER_BYTES

__all__ = ["LENGTHS", "LENGTH_COUNT", "PART_BYTES_MIN", "Packer", "fit", "numbers"]

LENGTH_COUNT: Final = 2048
"""Lengths whose bytes are kept ready; longer updates are few in a datagram."""

PART_BYTES_MIN: Final = 512
"""Bytes of data from which on the history keeps an update as it was published. For a smaller one
this would cost more than keeping its bytes in a datagram."""

LENGTHS: Final[list[bytes]] = [length.to_bytes(4, "big") for length in range(LENGTH_COUNT)]
"""How a length stands on the wire."""

_U32: Final = 0xFFFFFFFF


@mypyc_attr(allow_interpreted_subclasses=True)
class Packer:
    """The open datagram of a sender."""

    def __init__(self, room: int) -> None:
        self.room: i64 = room
        """What a datagram may have, its header included; negative while nothing may be
        published."""
        self.heads: dict[str, bytes] = {}
        """What stands in front of the data of an update, by its subject."""
        self.body: BytesWriter = BytesWriter()
        """The open datagram: its header, whose numbers are put in when it is taken, and the
        updates in it."""
        self.body.write(bytes(UPDATE_HEADER_BYTES))
        self.header: bytes = bytes(HEADER_BYTES)
        """The header without its numbers."""
        self.count: i64 = 0
        """How many updates are in the open datagram."""
        self.parts: list[bytes] = []
        """Heads and data of updates, if they are kept; the open datagram's are at the end."""
        self.keeps_parts: bool = False
        """Whether the open datagram is kept by its parts, as its first update is large."""
        self.hold_until_ns: i64 = 0
        """The open datagram waits for more until then."""
        self.ready_bytes: i64 = 0
        """Bytes of data that are held back."""
        self.roll_bytes_max: i64 = 0
        """While fewer bytes than this are held back, a full datagram is added to them without
        reading the clock; 0 if the clock has to be read for each."""
        self.next_seq: int = 1
        """The number of the datagram that is taken next. It does not wrap in here; it does where
        it is written."""

    @property
    def size(self) -> int:
        """Bytes of the open datagram, its header included."""
        return len(self.body)

    def set_header(self, header: bytes) -> None:
        """From now on this is the header, also of the open datagram."""
        self.header = header
        for place, value in enumerate(header):
            self.body[place] = u8(value)

    def put(self, head: bytes, data: bytes) -> None:
        """Put an update into the open datagram, which has room for it.

        Nothing in here lets another thread run, so two of them may do it without a lock; what
        takes the datagram away does not either.
        """
        body = self.body
        body.write(head)
        write_i32_be(body, i32(len(data)))
        body.write(data)
        if self.count == 0:
            self.keeps_parts = len(data) >= PART_BYTES_MIN
        if self.keeps_parts:
            self.parts.append(head)
            self.parts.append(data)
        self.count += 1

    def put_next(self, head: bytes, data: bytes) -> bool:
        """Put an update into a new datagram, since the open one, which is held back, has no room.

        False if that is not possible here. As in `put`, only lists, numbers and bytes are created,
        none of which lets another thread run.
        """
        size: i64 = UPDATE_HEADER_BYTES + len(head) + 4 + len(data)
        if size > self.room or self.ready_bytes + len(self.body) >= self.roll_bytes_max:
            return False
        until_ns = self.hold_until_ns
        self.roll()
        # All of them are held back no longer than the first one alone would be.
        self.hold_until_ns = until_ns
        self.put(head, data)
        return True

    def publish(self, subject: str, data: bytes, now_ns: int) -> None:
        """Put an update into the open datagram, and send that off unless it may wait."""
        head = self.heads.get(subject)
        if head is None:
            head = self.make_head(subject)
        self.publish_cut(head, data, now_ns)

    def publish_cut(self, head: bytes, data: bytes, now_ns: int) -> None:
        """The same for an update whose head is known."""
        if not self.has_room(head, data) and not self.make_room(len(head) + 4 + len(data), now_ns):
            self.publish_large(head, data, now_ns)
            return
        self.put(head, data)
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
        taken = first
        while taken < len(updates):
            subject, data = updates[taken]
            head = self.heads.get(subject)
            if head is None or not self.has_room(head, data):
                head = self.make_head(subject)
                if self.room < 0 and not self.may_publish(now_ns):
                    break
                if not self.make_room(len(head) + 4 + len(data), now_ns):
                    self.publish_large(head, data, now_ns)
                    taken += 1
                    continue
            self.put(head, data)
            taken += 1
        return taken - first

    def publish_pieces(self, pieces: list[bytes], now_ns: int) -> int:
        """Publish updates that were cut before: head with length, and data, one after another.

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
            fitting = fit(pieces, first, stop, self.room - len(self.body))
            if fitting > first:
                self._put_fitting(pieces, first, fitting, now_ns)
                first = fitting
                continue
            if self.room < 0 and not self.may_publish(now_ns):
                break
            head, data = pieces[first], pieces[first + 1]
            if not self.make_room(len(head) + len(data), now_ns):
                self.publish_large(head[:-4], data, now_ns)
                first += 2
        return first

    def _put_fitting(self, pieces: list[bytes], first: int, stop: int, now_ns: int) -> None:
        count = (stop - first) // 2
        if self.count or stop == len(pieces):
            if self.keeps_parts:
                self._keep(pieces, first, stop)
            self.body.write(b"".join(pieces[first:stop]))
            self.count += count
            return
        # Probably full by itself; then it is not copied twice.
        header = self.header + numbers(self.next_seq, count)
        datagram = b"".join([header, *pieces[first:stop]])
        if len(datagram) + len(pieces[stop]) + len(pieces[stop + 1]) > self.room:
            self.send(datagram, count, now_ns)
        else:
            self.body.write(datagram[UPDATE_HEADER_BYTES:])
            self.count = count

    def _keep(self, pieces: list[bytes], first: int, stop: int) -> None:
        while first < stop:
            # A cached head is followed by the length of its data.
            self.parts.append(pieces[first][:-4])
            self.parts.append(pieces[first + 1])
            first += 2

    def has_room(self, head: bytes, data: bytes) -> bool:
        """Whether an update fits into what is left of the open datagram."""
        return len(self.body) + len(head) + 4 + len(data) <= self.room

    def take(self) -> bytes:
        """The open datagram with its numbers; the next one is open then."""
        body = self.body
        seq: i64 = self.next_seq & _U32
        count: i64 = self.count
        body[20] = u8(seq >> 24)
        body[21] = u8((seq >> 16) & 0xFF)
        body[22] = u8((seq >> 8) & 0xFF)
        body[23] = u8(seq & 0xFF)
        body[24] = u8(count >> 24)
        body[25] = u8((count >> 16) & 0xFF)
        body[26] = u8((count >> 8) & 0xFF)
        body[27] = u8(count & 0xFF)
        datagram = body.getvalue()
        body.truncate(UPDATE_HEADER_BYTES)
        self.count = 0
        self.hold_until_ns = 0
        return datagram

    def make_head(self, subject: str) -> bytes:
        """The head of a subject that was not published before, checked."""
        raise NotImplementedError

    def may_publish(self, now_ns: int) -> bool:
        """Whether a publisher need not wait; raises if there is none."""
        raise NotImplementedError

    def make_room(self, size: int, now_ns: int) -> bool:
        """Make the open datagram one that has so much room. False if none can have.

        WouldBlock when the publisher has to wait first.
        """
        raise NotImplementedError

    def publish_large(self, head: bytes, data: bytes, now_ns: int) -> None:
        """Publish an update that no datagram has room for."""
        raise NotImplementedError

    def send(self, datagram: bytes, count: int, now_ns: int) -> None:
        """Send a datagram with so many updates, the number of which is `next_seq`."""
        raise NotImplementedError

    def roll(self) -> None:
        """Send the open datagram, with about the time of the one before."""
        raise NotImplementedError

    def hold_or_flush(self, now_ns: int) -> None:
        """Decide on the open datagram, which was not held until now or was for long enough."""
        raise NotImplementedError


def fit(pieces: list[bytes], first: int, stop: int, room: int) -> int:
    """Up to where the updates from `first` on fit into so much room."""
    pos: i64 = first
    end: i64 = stop
    left: i64 = room
    taken: i64 = 0
    while pos < end:
        size: i64 = len(pieces[pos]) + len(pieces[pos + 1])
        if taken + size > left:
            break
        taken += size
        pos += 2
    return pos


def numbers(seq: int, count: int) -> bytes:
    """What stands at the end of a header: the number of the datagram, and that of its updates."""
    return (seq & _U32).to_bytes(4, "big") + count.to_bytes(4, "big")
