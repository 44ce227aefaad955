"""Delivery of ordered datagrams: updates, pieces of large ones, and losses in their place."""

from __future__ import annotations

from typing import Any

from skerry.protocol.distributor.events import (
    Delivered,
    LossReason,
    SenderInfo,
    StartUnknown,
    UpdatesLost,
)
from skerry.protocol.distributor.messages import END, MORE, START, UPDATE, WHOLE
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.receiving.stream_delivery import StreamDelivery
from skerry.protocol.distributor.subjects import Subjects
from skerry.protocol.distributor.wire import JAVA_WIRE

SENDER = SenderInfo(address="10.0.0.1", sender_id=1, start=2, application_id=3, application="")


class Rig:
    """A delivery, and the events of it."""

    def __init__(self) -> None:
        subjects = Subjects()
        subjects.add("/...", None)
        subjects.resolve(b"/a")
        self.deliveries = Deliveries()
        self.delivery = StreamDelivery(
            SENDER, subjects, self.deliveries, text_length_bytes=4, update_bytes_max=100
        )

    def give(self, seq: int, body: bytes, *, flags: int = WHOLE, count: int = 1) -> None:
        content = self.delivery.content(datagram(seq, body, flags, count), flags)
        assert content is not None
        self.delivery.deliver(seq, content)

    def is_reassembling(self) -> bool:
        return self.delivery.reassembly is not None

    def events(self) -> list[Any]:
        return [
            list(event.updates) if isinstance(event, Delivered) else event
            for event in self.deliveries.take()
        ]


def datagram(seq: int, body: bytes, flags: int = WHOLE, count: int = 1) -> bytes:
    head = bytes((1, 0, UPDATE, flags)) + bytes(16)
    return head + seq.to_bytes(4, "big") + count.to_bytes(4, "big") + body


def update(data: bytes, *, total: int | None = None) -> bytes:
    length = len(data) if total is None else total
    return JAVA_WIRE.subject_head(b"/a") + length.to_bytes(4, "big") + data


def lost(first_seq: int, stop_seq: int, reason: LossReason, *, is_stopped: bool = False) -> Any:
    return UpdatesLost(
        sender=SENDER,
        first_seq=first_seq,
        stop_seq=stop_seq,
        reason=reason,
        is_stopped=is_stopped,
    )


def test_a_run_is_delivered_up_to_the_first_datagram_that_is_not_the_next() -> None:
    rig = Rig()
    data = datagram(1, update(b"1")) + datagram(2, update(b"2")) + datagram(4, update(b"4"))
    size = len(data) // 3
    assert rig.delivery.deliver_run(data, size, 1) == 2 * size
    assert rig.delivery.run_update_count == 2
    assert rig.events() == [[("/a", b"1"), ("/a", b"2")]]
    assert rig.delivery.deliver_run(data, size, 2) == 0
    assert rig.delivery.run_update_count == 0


def test_pieces_are_delivered_as_one_update() -> None:
    rig = Rig()
    rig.give(1, update(b"ab", total=5), flags=START)
    rig.give(2, b"cd", flags=MORE)
    assert rig.is_reassembling()
    assert rig.events() == []
    rig.give(3, b"e", flags=END)
    assert not rig.is_reassembling()
    assert rig.events() == [[("/a", b"abcde")]]


def test_pieces_that_do_not_add_up_are_reported_as_lost() -> None:
    for pieces in ([b"cdef"], [b"c"]):
        rig = Rig()
        rig.give(1, update(b"ab", total=5), flags=START)
        for seq, piece in enumerate(pieces, 2):
            rig.give(seq, piece, flags=END)
        assert rig.events() == [lost(1, 3, LossReason.MALFORMED)]
        assert rig.delivery.pieces_fault_count == 1
        assert rig.delivery.lost_count == 2


def test_a_first_piece_that_is_malformed_or_too_large_is_reported_as_lost() -> None:
    for body in (b"junk", update(b"ab", total=101)):
        rig = Rig()
        rig.give(1, body, flags=START)
        rig.give(2, b"more", flags=MORE)
        assert rig.events() == [lost(1, 2, LossReason.MALFORMED)]


def test_pieces_are_lost_before_the_update_that_interrupts_them() -> None:
    rig = Rig()
    rig.give(1, update(b"ab", total=5), flags=START)
    rig.give(2, update(b"x"))
    assert rig.events() == [lost(1, 2, LossReason.MALFORMED), [("/a", b"x")]]


def test_a_stopped_stream_keeps_the_pieces_that_it_has() -> None:
    rig = Rig()
    rig.give(1, update(b"ab", total=5), flags=START)
    rig.delivery.lose(2, 3, LossReason.RETRIES, is_stopped=True)
    assert rig.is_reassembling()
    rig.delivery.lose(2, 3, LossReason.RETRIES)
    assert not rig.is_reassembling()
    assert rig.delivery.lost_count == 2


def test_numbers_in_events_are_those_of_the_wire() -> None:
    rig = Rig()
    rig.delivery.report_unknown(2**32 - 1, 2**32 + 1)
    assert rig.events() == [StartUnknown(sender=SENDER, first_seq=2**32 - 1, stop_seq=1)]
