"""Slices of input: how much is processed before other streams."""

from __future__ import annotations

import asyncio

from skerry.limits import STREAM_CHUNK_BYTES_MAX
from skerry.runtime.streams.read_slices import TURN_NS_MAX, TURN_PIECE_BYTES, ReadSlices


class Work:
    """Receives pieces, and advances the clock for each."""

    def __init__(self, piece_ns: int = 0) -> None:
        self.taken: list[bytes] = []
        self.held: list[bool] = []
        self._piece_ns = piece_ns
        self._now_ns = 0
        self.turns = ReadSlices(self.take, hold=self.held.append, clock=lambda: self._now_ns)

    def take(self, data: bytes) -> None:
        self.taken.append(data)
        self._now_ns += self._piece_ns

    @property
    def size(self) -> int:
        return sum(map(len, self.taken))


def test_little_input_is_processed_at_once() -> None:
    async def scene() -> None:
        work = Work()
        work.turns.add(b"ab")
        work.turns.add(b"c")
        assert work.taken == [b"ab", b"c"]
        assert not work.turns.is_waiting
        await asyncio.sleep(0)
        assert work.held == []

    asyncio.run(scene())


def test_slice_is_limited_by_its_bytes() -> None:
    async def scene() -> None:
        work = Work()
        data = bytes(range(256)) * (STREAM_CHUNK_BYTES_MAX // 128)
        work.turns.add(data + b"x")
        assert work.size == STREAM_CHUNK_BYTES_MAX
        assert (work.turns.is_waiting, work.held) == (True, [True])
        await asyncio.sleep(0)
        assert work.size == 2 * STREAM_CHUNK_BYTES_MAX
        await asyncio.sleep(0)
        assert b"".join(work.taken) == data + b"x"
        assert max(map(len, work.taken)) == TURN_PIECE_BYTES
        assert (work.turns.is_waiting, work.held) == (False, [True, False])

    asyncio.run(scene())


def test_input_of_one_slice_needs_no_second() -> None:
    async def scene() -> None:
        work = Work()
        work.turns.add(bytes(STREAM_CHUNK_BYTES_MAX))
        assert not work.turns.is_waiting

    asyncio.run(scene())


def test_slice_is_limited_by_its_time() -> None:
    async def scene() -> None:
        work = Work(piece_ns=TURN_NS_MAX // 2)
        work.turns.add(bytes(5 * TURN_PIECE_BYTES))
        assert work.size == 2 * TURN_PIECE_BYTES
        await asyncio.sleep(0)
        assert work.size == 4 * TURN_PIECE_BYTES
        await asyncio.sleep(0)
        assert work.size == 5 * TURN_PIECE_BYTES
        assert work.held == [True, False]

    asyncio.run(scene())


def test_piece_that_takes_longer_than_a_slice_is_a_slice() -> None:
    async def scene() -> None:
        work = Work(piece_ns=2 * TURN_NS_MAX)
        work.turns.add(bytes(2 * TURN_PIECE_BYTES))
        assert work.size == TURN_PIECE_BYTES
        await asyncio.sleep(0)
        assert not work.turns.is_waiting

    asyncio.run(scene())


def test_input_that_arrives_while_other_input_waits_is_appended() -> None:
    async def scene() -> None:
        work = Work(piece_ns=TURN_NS_MAX)
        work.turns.add(b"a" * TURN_PIECE_BYTES + b"b")
        work.turns.add(b"c")
        assert work.size == TURN_PIECE_BYTES
        await asyncio.sleep(0)
        assert work.taken[1:] == [b"bc"]
        assert work.held == [True, False]

    asyncio.run(scene())


def test_dropped_input_is_not_delivered() -> None:
    async def scene() -> None:
        work = Work(piece_ns=TURN_NS_MAX)
        work.turns.add(bytes(2 * TURN_PIECE_BYTES))
        work.turns.drop()
        assert not work.turns.is_waiting
        await asyncio.sleep(0)
        assert work.size == TURN_PIECE_BYTES
        work.turns.add(b"x")
        assert work.taken[-1] == b"x"

    asyncio.run(scene())


def test_other_callbacks_run_between_two_slices() -> None:
    async def scene() -> None:
        work = Work(piece_ns=TURN_NS_MAX)
        work.turns.add(bytes(10 * TURN_PIECE_BYTES))
        seen: list[int] = []
        while work.turns.is_waiting:
            await asyncio.sleep(0)
            seen.append(work.size // TURN_PIECE_BYTES)
        assert seen == list(range(2, 11))

    asyncio.run(scene())


def test_blocked_receiver_gets_nothing_until_it_is_unblocked() -> None:
    async def scene() -> None:
        work = Work()
        turns = work.turns
        data = bytes(3 * TURN_PIECE_BYTES)

        def take(piece: bytes) -> None:
            work.take(piece)
            turns.block()

        turns._take = take
        turns.add(data)
        turns.add(b"more")
        for count in (1, 2, 3, 4):
            assert (len(work.taken), work.held) == (count, [True])
            await asyncio.sleep(0)
            assert len(work.taken) == count
            turns.unblock()
            await asyncio.sleep(0)
        assert b"".join(work.taken) == data + b"more"
        assert work.held == [True, False]

    asyncio.run(scene())
