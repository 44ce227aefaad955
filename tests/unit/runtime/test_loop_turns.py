"""Turns on a loop: by the socket, by a wake-up, by the timer."""

from __future__ import annotations

import asyncio
import socket
from unittest.mock import patch

from skerry.runtime.clock import monotonic_ns
from skerry.runtime.loop_turns import LoopTurns

MS = 1_000_000


def test_turn_is_called_when_woken_readable_and_due() -> None:
    async def main() -> None:
        here, there = socket.socketpair()
        calls: list[str] = []
        called = asyncio.Event()

        def note(name: str) -> None:
            calls.append(name)
            called.set()

        async def next_call() -> str:
            await called.wait()
            called.clear()
            return calls[-1]

        def readable() -> None:
            here.recv(10)
            note("readable")

        def turn() -> None:
            turns.begin_turn()
            note("turn")

        with here, there:
            here.setblocking(False)
            turns = LoopTurns(turn)
            turns.add_reader(here.fileno(), readable)
            there.send(b"x")
            assert await next_call() == "readable"
            turns.wake()
            turns.wake()
            assert await next_call() == "turn"
            turns.set_deadline(monotonic_ns())
            assert await next_call() == "turn"
            assert calls == ["readable", "turn", "turn"], "two wake-ups are one"
            turns.set_deadline(monotonic_ns())
            turns.wake()
            turns.close()
            there.send(b"x")
            await asyncio.sleep(0.01)
            assert len(calls) == 3

    asyncio.run(main())


def test_turn_cancels_a_wake_up() -> None:
    async def main() -> None:
        calls: list[bool] = []
        turns = LoopTurns(lambda: calls.append(True))
        turns.wake()
        turns.begin_turn()
        await asyncio.sleep(0)
        turns.close()
        assert not calls

    asyncio.run(main())


def test_deadline_is_the_last_one_that_was_set() -> None:
    async def main() -> None:
        calls: list[int] = []
        called = asyncio.Event()

        def turn() -> None:
            calls.append(monotonic_ns())
            called.set()

        turns = LoopTurns(turn)
        begin_ns = monotonic_ns()
        # The timer of the first is kept, and set again when it fires.
        turns.set_deadline(begin_ns + 10 * MS)
        turns.set_deadline(begin_ns + 60 * MS)
        await called.wait()
        assert calls[0] >= begin_ns + 60 * MS
        # An earlier one takes its place, and none at all stops it.
        called.clear()
        turns.set_deadline(monotonic_ns() + 3_600_000 * MS)
        turns.set_deadline(monotonic_ns() + MS)
        await called.wait()
        turns.set_deadline(monotonic_ns() + MS)
        turns.set_deadline(None)
        await asyncio.sleep(0.01)
        assert len(calls) == 2
        turns.close()

    asyncio.run(main())


def test_writer_is_called_until_it_is_removed() -> None:
    async def main() -> None:
        here, there = socket.socketpair()
        calls: list[bool] = []

        called = asyncio.Event()

        def writable() -> None:
            calls.append(True)
            called.set()
            turns.remove_writer(here.fileno())

        with here, there:
            turns = LoopTurns(lambda: None)
            turns.add_reader(here.fileno(), lambda: calls.append(False))
            turns.add_writer(here.fileno(), writable)
            await called.wait()
            turns.remove_sockets()
            there.send(b"x")
            await asyncio.sleep(0.01)
        assert calls == [True]

    asyncio.run(main())


def test_a_timer_has_whole_milliseconds_and_is_not_early() -> None:
    """With uvloop, a timer of less than half a millisecond fires at once, again and again."""

    async def main() -> list[float]:
        turns = LoopTurns(lambda: None)
        loop = asyncio.get_running_loop()
        with patch.object(loop, "call_later", wraps=loop.call_later) as call_later:
            turns._set_timer(1_000_000_001, 1_000_000_000)
            turns._set_timer(1_005_000_000, 1_000_000_000)
            turns._set_timer(1_005_000_001, 1_000_000_000)
            turns.close()
        return [call.args[0] for call in call_later.call_args_list]

    loop = asyncio.SelectorEventLoop()
    try:
        assert loop.run_until_complete(main()) == [0.001, 0.005, 0.006]
    finally:
        loop.close()
