"""Updates that wait to be handed over: when they are, and when they are not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from skerry.client.distributor.outgoing import (
    BATCH_COUNT_MAX,
    BATCH_COUNT_MIN,
    PublishBuffer,
)
from skerry.client.distributor.plain_outgoing import Publish, plain_publish
from skerry.limits import DISTRIBUTOR_BATCH_BYTES
from skerry.protocol.distributor.sending.packing import Packer

IS_COMPILED = not hasattr(PublishBuffer.publish, "__code__")
HELD_BYTES = 4000


class Taker(PublishBuffer):
    """Takes what is handed over."""

    def __init__(self) -> None:
        super().__init__(Packer(HELD_BYTES), {"/a": b"A", "/b": b"B"}, 5001)
        self.taken: list[bytes] = []
        self.unusual: list[tuple[Any, Any]] = []
        self.drain_count = 0

    def hold(self) -> None:
        """From now on something is held, and somebody will look in time."""
        self.pending_count_max = self.batch_count_max
        self.packer.hold_until_ns = 1

    @property
    def waiting(self) -> bytes:
        """What was not handed over: which way it waits depends on the build."""
        return self.packer.body.getvalue()[28:] + b"".join(self.pending)

    def publish_unusual(self, subject: str, data: bytes) -> None:
        self.unusual.append((subject, data))

    def publish_one(self, head: bytes, data: bytes) -> None:
        self.taken += (head + len(data).to_bytes(4, "big"), data)

    def drain(self) -> None:
        self.drain_count += 1
        count = len(self.pending)
        self.taken += self.pending[:count]
        del self.pending[:count]


def test_update_is_handed_over_at_once_where_nothing_is_held() -> None:
    taker = Taker()
    taker.publish("/a", b"xyz")
    assert taker.taken == [b"A\0\0\0\3", b"xyz"]


def test_update_waits_while_something_is_held_and_goes_with_many() -> None:
    taker = Taker()
    taker.hold()
    for _ in range(BATCH_COUNT_MIN // 2 - 1):
        taker.publish("/b", b"x")
    assert not taker.taken
    assert taker.waiting == b"B\0\0\0\1x" * (BATCH_COUNT_MIN // 2 - 1)
    if IS_COMPILED:
        # It goes when the datagram has no room for it.
        taker.publish("/b", bytes(HELD_BYTES - 28 - len(taker.waiting) - 5))
        assert len(taker.waiting) == HELD_BYTES - 28
        assert not taker.taken
    taker.publish("/b", b"y")
    assert taker.taken[-1] == b"y"
    assert len(taker.taken) == (2 if IS_COMPILED else BATCH_COUNT_MIN)


def test_subjects_are_checked_again_when_somebody_says_so() -> None:
    taker = Taker()
    taker.hold()
    subject = "/a"
    for _ in range(3):
        taker.publish(subject, b"x")
    taker.check_anew({})
    taker.publish(subject, b"y")
    taker.publish("", b"z")
    assert taker.unusual == [("/a", b"y"), ("", b"z")]
    assert taker.waiting == b"A\0\0\0\1x" * 3


def test_long_updates_have_their_length() -> None:
    taker = Taker()
    for size in (0, 2047, 2048, 5000):
        taker.publish("/a", bytes(size))
    assert [piece[1:] for piece in taker.taken[::2]] == [
        size.to_bytes(4, "big") for size in (0, 2047, 2048, 5000)
    ]


def test_new_subjects_and_large_updates_are_unusual() -> None:
    taker = Taker()
    taker.publish("/c", b"x")
    taker.publish("/a", bytes(5001))
    assert [(subject, len(data)) for subject, data in taker.unusual] == [("/c", 1), ("/a", 5001)]
    assert not taker.drain_count


def test_what_is_not_bytes_never_waits() -> None:
    taker = Taker()
    nothing: Any = 7
    with pytest.raises(TypeError):
        taker.publish("/a", nothing)
    assert not taker.pending


@pytest.mark.parametrize(
    ("size", "count"),
    [
        (60, 2 * DISTRIBUTOR_BATCH_BYTES // 60),
        (1, BATCH_COUNT_MAX),
        (DISTRIBUTOR_BATCH_BYTES, BATCH_COUNT_MIN),
    ],
)
def test_a_batch_fills_one_call_of_the_kernel(size: int, count: int) -> None:
    taker = Taker()
    taker.set_batch(1, size)
    assert taker.batch_count_max == count
    taker.set_batch(0, 0)
    assert taker.batch_count_max == count


@pytest.mark.slow
@pytest.mark.parametrize("choose", [lambda taker: taker.publish, plain_publish])
def test_many_threads_publish_without_mixing_their_pieces(
    choose: Callable[[Taker], Publish],
) -> None:
    taker = Taker()
    publish_update = choose(taker)
    taker.hold()
    taker.packer.room = 10_000_000
    taker.pending_count_max = BATCH_COUNT_MAX * 1000
    barrier = threading.Barrier(4)

    def publish(subject: str, letter: bytes) -> None:
        barrier.wait()
        for number in range(20_000):
            publish_update(subject, letter * (number // 5 % 7))

    threads = [
        threading.Thread(target=publish, args=pair)
        for pair in (("/a", b"a"), ("/b", b"b"), ("/a", b"a"), ("/b", b"b"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    waiting, pos, count = taker.waiting, 0, 0
    while pos < len(waiting):
        start = pos + 5
        pos = start + int.from_bytes(waiting[start - 4 : start], "big")
        assert waiting[start:pos] == waiting[start - 5 : start - 4].lower() * (pos - start)
        count += 1
    assert count == 80_000


def test_the_rest_is_for_who_carries() -> None:
    bare = PublishBuffer(Packer(-1), {}, 0)
    with pytest.raises(NotImplementedError):
        bare.publish("/a", b"")
    with pytest.raises(NotImplementedError):
        bare.publish_one(b"", b"")
    with pytest.raises(NotImplementedError):
        bare.drain()
