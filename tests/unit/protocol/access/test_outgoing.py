"""Frames that wait: in order, counted, and taken once."""

from __future__ import annotations

import pytest

from skerry.protocol.access.outgoing import Outgoing


def test_queued_frames_are_taken_in_order_and_once() -> None:
    outgoing = Outgoing()
    assert (outgoing.size, outgoing.take()) == (0, b"")
    for frame in (b"one", b"", b"three"):
        outgoing.add(frame)
    assert (outgoing.size, outgoing.frame_count) == (8, 3)
    assert outgoing.take() == b"onethree"
    assert (outgoing.size, outgoing.frame_count) == (0, 0)
    assert outgoing.take() == b""


@pytest.mark.parametrize("size", [1000, 300_000])
def test_taken_frames_are_not_changed_by_later_ones(size: int) -> None:
    outgoing = Outgoing()
    outgoing.add(b"x" * size)
    taken = outgoing.take()
    outgoing.add(b"y" * 10)
    assert taken == b"x" * size
    assert outgoing.take() == b"y" * 10


def test_frames_that_were_added_together_are_not_copied() -> None:
    outgoing, other = Outgoing(), Outgoing()
    run = b"onetwo"
    for one in (outgoing, other):
        one.add_run(run, 2)
        assert (one.size, one.frame_count) == (6, 2)
    assert outgoing.take() is run
    other.add(b"three")
    other.add_run(b"four", 1)
    assert (other.size, other.frame_count) == (15, 4)
    assert other.take() == b"onetwothreefour"
    other.add(b"five")
    other.add_run(run, 2)
    assert other.take() == b"fiveonetwo"
    assert (other.size, other.frame_count, other.take()) == (0, 0, b"")
