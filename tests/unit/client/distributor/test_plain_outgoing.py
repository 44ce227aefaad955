"""The short way of publishing does what the long one does."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from skerry.client.distributor.outgoing import NO_RUN, PublishBuffer
from skerry.client.distributor.plain_outgoing import plain_publish, publish_for_this_build
from skerry.protocol.distributor.sending.packing import Packer

HEADS = {"/a": b"A", "/b": b"B"}


class Taker(PublishBuffer):
    """Takes what is handed over, each by itself."""

    def __init__(self) -> None:
        super().__init__(Packer(4000), HEADS, 100)
        self.taken: list[object] = []

    def publish_unusual(self, subject: str, data: bytes) -> None:
        self.taken.append((subject, data))

    def publish_one(self, head: bytes, data: bytes) -> None:
        self.taken.append(head + len(data).to_bytes(4, "big") + data)

    def drain(self) -> None:
        self.taken.append(b"".join(self.pending))
        self.pending.clear()


@given(
    st.lists(
        st.tuples(st.sampled_from(["/a", "/b", "/c"]), st.sampled_from([b"", b"1", b"22" * 60]))
    )
)
def test_both_ways_publish_the_same(updates: list[tuple[str, bytes]]) -> None:
    long, short = Taker(), Taker()
    publish = plain_publish(short)
    for subject, data in updates:
        long.publish(subject, data)
        publish(subject, data)
    assert short.taken == long.taken


def test_one_like_the_one_before_waits_until_there_are_enough() -> None:
    taker = Taker()
    publish = plain_publish(taker)
    taker.run = "/a", 1, b"A\0\0\0\1"
    taker.pending_count_max = 6
    subject = taker.run[0]
    assert subject is not None
    publish(subject, b"1")
    publish(subject, b"2")
    assert not taker.taken
    publish(subject, b"3")
    assert taker.taken == [b"A\0\0\0\0011A\0\0\0\0012A\0\0\0\0013"]


def test_after_a_new_check_nothing_is_taken_for_known() -> None:
    taker = Taker()
    publish = plain_publish(taker)
    subject = "/a"
    publish(subject, b"1")
    taker.check_anew({})
    assert taker.run == NO_RUN
    publish(subject, b"2")
    assert taker.taken[-1] == ("/a", b"2")


def test_what_is_not_bytes_is_refused_as_ever() -> None:
    taker = Taker()
    publish = plain_publish(taker)
    subject = "/a"
    publish(subject, b"1")
    count = len(taker.taken)
    for wrong in (bytearray(b"1"), 7):
        given: Any = wrong
        # Compiled code, and what has no length, refuse by themselves.
        with contextlib.suppress(TypeError):
            publish(subject, given)
    assert taker.taken[count:] in ([], [("/a", bytearray(b"1"))])
    assert not taker.pending


def test_the_quicker_one_is_used() -> None:
    taker = Taker()
    is_compiled = not hasattr(PublishBuffer.publish, "__code__")
    assert (publish_for_this_build(taker) == taker.publish) == is_compiled
