"""Updates on their way from the application to the sender: the innermost loop of a publisher.

A hot module. Publishing may be done by any thread, and most of the time needs no lock.

Compiled code is not interrupted in here: while the sender holds a datagram back, an update is put
straight into it, and otherwise handed over at once. As plain Python it could be interrupted, so
there it is nothing but an append to a list. While a datagram is held, that list grows until it is
worth a look, or until the one who reads looks when the datagram is due. While none is held, each
update is handed over at once.

The order of steps matters: who empties the list first says that nothing is held. An update that is
appended too late for that look is then handed over by its own publisher.
"""

from __future__ import annotations

from typing import Final

from librt.strings import write_i32_be
from mypy_extensions import i32, i64, mypyc_attr

from skerry.limits import DISTRIBUTOR_BATCH_BYTES
from skerry.protocol.distributor.sending.packing import LENGTH_COUNT, LENGTHS, Packer

__all__ = ["BATCH_COUNT_MAX", "BATCH_COUNT_MIN", "NO_RUN", "PublishBuffer", "Run"]

Run = tuple[str | None, int, bytes]
"""A subject, a length, and the piece that stands before data of this length under it."""

NO_RUN: Final[Run] = (None, 0, b"")

BATCH_COUNT_MIN: Final = 2 * 8
BATCH_COUNT_MAX: Final = 2 * 2048
"""Pieces, of which an update has two."""

_IS_COMPILED: Final = not __file__.endswith((".py", ".pyc"))


@mypyc_attr(allow_interpreted_subclasses=True)
class PublishBuffer:
    """Updates that were published and not yet handed over."""

    def __init__(self, packer: Packer, checked: dict[str, bytes], small_bytes_max: int) -> None:
        self.packer: Packer = packer
        """The open datagram."""
        self.checked: dict[str, bytes] = checked
        """Subjects that need no check; empty while nothing may be published."""
        self.small_bytes_max: int = small_bytes_max
        """Head and data together; larger updates need several datagrams, and are handed over by
        themselves."""
        self.last_subject: str | None = None
        """The subject that was published under last, if it was checked. Most come again and
        again, and it is quicker to see that it is the same than to look it up."""
        self.last_head: bytes = b""
        self.run: Run = NO_RUN
        """The same in the plain build. One value, since another thread may come between."""
        self.pending: list[bytes] = []
        """Head with length, and data of each update, put there in one step. Always one object."""
        self.pending_count_max: int = 0
        """With so many pieces, they are handed over at once. Until then somebody will look at them
        in time; nobody will if it is 0."""
        self.batch_count_max: int = BATCH_COUNT_MIN
        """What that becomes while something is held."""

    def publish(self, subject: str, data: bytes) -> None:
        """Publish an update."""
        if _IS_COMPILED and subject is self.last_subject and type(data) is bytes:
            # What `put` of the packer does, without calling it.
            packer, last_head = self.packer, self.last_head
            body = packer.body
            size: i64 = len(last_head) + len(data)
            if packer.hold_until_ns > 0 and len(body) + size + 4 <= packer.room:
                body.write(last_head)
                write_i32_be(body, i32(len(data)))
                body.write(data)
                if packer.keeps_parts:
                    packer.parts.append(last_head)
                    packer.parts.append(data)
                packer.count += 1
                return
            if packer.hold_until_ns > 0 and packer.put_next(last_head, data):
                return
            if size <= self.small_bytes_max:
                self.publish_one(last_head, data)
                return
        head = self.checked.get(subject)
        length = len(data)
        if head is None or len(head) + length > self.small_bytes_max or type(data) is not bytes:
            self.publish_unusual(subject, data)
        elif _IS_COMPILED:
            self.last_subject, self.last_head = subject, head
            packer = self.packer
            if packer.hold_until_ns > 0 and packer.has_room(head, data):
                packer.put(head, data)
            else:
                self.publish_one(head, data)
        else:
            piece = head + (LENGTHS[length] if length < LENGTH_COUNT else length.to_bytes(4, "big"))
            self.run = subject, length, piece
            pending = self.pending
            # In one step: other threads must not come between.
            pending.extend((piece, data))
            if len(pending) >= self.pending_count_max:
                self.drain()

    def check_anew(self, checked: dict[str, bytes]) -> None:
        """Subjects have to be checked, but for these."""
        self.checked = checked
        self.last_subject = None
        self.run = NO_RUN

    def set_batch(self, update_count: int, byte_count: int) -> None:
        """So many updates made so many bytes: look after as many as make a full call."""
        if update_count > 0 and byte_count > 0:
            count = 2 * (DISTRIBUTOR_BATCH_BYTES * update_count // byte_count)
            self.batch_count_max = min(max(count, BATCH_COUNT_MIN), BATCH_COUNT_MAX)

    def publish_unusual(self, subject: str, data: bytes) -> None:
        """Publish an update that is large, or whose subject is new."""
        raise NotImplementedError

    def publish_one(self, head: bytes, data: bytes) -> None:
        """Hand over an update that the open datagram has no room for, or that need not wait."""
        raise NotImplementedError

    def drain(self) -> None:
        """Hand over what is pending; waits while the bandwidth is used up."""
        raise NotImplementedError
