"""Packing of updates into datagrams: the innermost loop of a sender.

A hot module. One datagram is open at a time. Updates are written into it until it is full or has
waited long enough. The subclass `Sender` handles the rare cases: a full datagram, an update that
fits into none, and a publisher that has to wait.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64, mypyc_attr, u8

from skerry.protocol.distributor.messages import HEADER_BYTES, UPDATE_HEADER_BYTES

PART_BYTES_MIN: Final = 512
"""The size from which on the history keeps the data of an update itself. For a smaller one this
would cost more than keeping the datagram."""

_U32: Final = 0xFFFFFFFF


@mypyc_attr(allow_interpreted_subclasses=True)
class Packer:
    """The open datagram of a sender."""

    def __init__(self, room: int) -> None:
        self.room: i64 = room
        """The largest size of a datagram, with its header; negative while nothing may be
        published."""
        self.heads: dict[str, bytes] = {}
        """The head of an update, which precedes its data, by subject."""
        self.body: BytesWriter = BytesWriter()
        """The open datagram: its header, whose numbers are written when it is taken, and its
        updates."""
        self.body.write(bytes(UPDATE_HEADER_BYTES))
        self.header: bytes = bytes(HEADER_BYTES)
        """The header without its numbers."""
        self.count: i64 = 0
        """The number of updates in the open datagram."""
        self.parts: list[bytes] = []
        """Heads and data of updates that the history keeps; those of the open datagram are last."""
        self.keeps_parts: bool = False
        """Whether the history keeps the parts of the open datagram, because its first update is
        large."""
        self.hold_until_ns: i64 = 0
        """The time until which the open datagram waits for more updates; 0 if it does not."""
        self.ready_bytes: i64 = 0
        """Bytes of full datagrams that are held back."""
        self.roll_bytes_max: i64 = 0
        """While fewer bytes than this are held back, a full datagram is added to them without
        reading the clock; 0 if the clock has to be read for each."""
        self.next_seq: int = 1
        """The number of the open datagram. It wraps only where it is written."""

    @property
    def size(self) -> int:
        """Bytes of the open datagram, with its header."""
        return len(self.body)

    def set_header(self, header: bytes) -> None:
        """Set the header of the open and of all later datagrams."""
        self.header = header
        for place, value in enumerate(header):
            self.body[place] = u8(value)

    def put(self, head: bytes, data: bytes) -> None:
        """Put an update into the open datagram, which has room for it.

        No statement here, or where the datagram is taken, lets another thread run, so threads may
        call it without a lock.
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
        """Put an update into a new datagram, because the open one, which is held, has no room.

        Return False if that is not possible here. As in `put`, no statement lets another thread
        run: only lists, numbers and bytes are created.
        """
        size: i64 = UPDATE_HEADER_BYTES + len(head) + 4 + len(data)
        if size > self.room or self.ready_bytes + len(self.body) >= self.roll_bytes_max:
            return False
        until_ns = self.hold_until_ns
        self.roll()
        # All of them are held no longer than the first one alone would be.
        self.hold_until_ns = until_ns
        self.put(head, data)
        return True

    def publish(self, subject: str, data: bytes, now_ns: int) -> None:
        """Put an update into the open datagram, and send the datagram unless it may wait."""
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
        """Publish updates from index `first` on. Return how many: all, unless one has to wait.

        They count as published at once, so none of them is sent before its datagram is full.
        """
        try:
            return self._put_many(updates, first, now_ns)
        finally:
            # Also if one raises: those before it are published.
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
        """Publish updates as pairs in one list: head with length, then data.

        Return how many pieces were taken: all, unless an update has to wait. The list may grow
        meanwhile.
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
        # These probably fill a datagram, which is then not copied twice.
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
        """Return whether an update fits into the open datagram."""
        return len(self.body) + len(head) + 4 + len(data) <= self.room

    def take(self) -> bytes:
        """Return the open datagram with its numbers, and open the next one."""
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
        """Check a subject that was not published before, and return its head."""
        raise NotImplementedError

    def may_publish(self, now_ns: int) -> bool:
        """Return whether a publisher need not wait. LocalProtocolError if there is none."""
        raise NotImplementedError

    def make_room(self, size: int, now_ns: int) -> bool:
        """Send the open datagram if it has no room for `size` bytes. Return False if none can have.

        WouldBlock if the publisher has to wait first.
        """
        raise NotImplementedError

    def publish_large(self, head: bytes, data: bytes, now_ns: int) -> None:
        """Publish an update that does not fit into any datagram."""
        raise NotImplementedError

    def send(self, datagram: bytes, count: int, now_ns: int) -> None:
        """Send a datagram with `count` updates, under the number `next_seq`."""
        raise NotImplementedError

    def roll(self) -> None:
        """Send the open datagram, with about the time of the previous one."""
        raise NotImplementedError

    def hold_or_flush(self, now_ns: int) -> None:
        """Hold or send the open datagram, which was not held before or was held long enough."""
        raise NotImplementedError


def fit(pieces: list[bytes], first: int, stop: int, room: int) -> int:
    """Return the index up to which the updates from `first` on fit into `room` bytes."""
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
    """Return the end of a header: the number of the datagram and the count of its updates."""
    return (seq & _U32).to_bytes(4, "big") + count.to_bytes(4, "big")
