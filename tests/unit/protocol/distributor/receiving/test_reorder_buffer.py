"""Datagrams that wait, and the bound that all streams share."""

from __future__ import annotations

from skerry.protocol.distributor.messages import WHOLE
from skerry.protocol.distributor.receiving.gaps import ReorderBuffer, WaitingDatagrams
from skerry.protocol.distributor.receiving.stream_delivery import DatagramContent


def content(size: int) -> DatagramContent:
    return WHOLE, bytes(size), []


def test_streams_share_the_bytes_that_may_wait() -> None:
    room = ReorderBuffer(10)
    one, other = WaitingDatagrams(room), WaitingDatagrams(room)
    one.add(3, content(4))
    other.add(7, content(5))
    assert (room.size, one.size, other.size) == (9, 4, 5)
    assert not one.is_full(1)
    assert one.is_full(2)
    assert other.is_full(2)
    other.clear()
    assert (room.size, other.size, len(other)) == (4, 0, 0)
    assert not one.is_full(6)


def test_the_first_datagram_of_a_stream_may_always_wait() -> None:
    room = ReorderBuffer(10)
    one, other = WaitingDatagrams(room), WaitingDatagrams(room)
    one.add(3, content(10))
    assert not other.is_full(1)


def test_a_datagram_is_taken_out_once() -> None:
    waiting = WaitingDatagrams(ReorderBuffer(10))
    waiting.add(3, content(4))
    assert waiting.pop(2) is None
    assert waiting.pop(3) == content(4)
    assert waiting.pop(3) is None
    assert (len(waiting), waiting.size) == (0, 0)


def test_datagrams_before_the_start_are_discarded() -> None:
    waiting = WaitingDatagrams(ReorderBuffer(100))
    for seq in range(5):
        waiting.add(seq, content(seq))
    waiting.drop_before(3)
    assert sorted(waiting.contents) == [3, 4]
    assert waiting.size == 7
