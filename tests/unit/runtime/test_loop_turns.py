"""Turns on a loop: by the socket, by a wake-up, by the timer."""

from __future__ import annotations

import asyncio
import socket

from skerry.runtime.loop_turns import LoopTurns


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
            turns = LoopTurns(here.fileno(), turn)
            turns.start(readable)
            there.send(b"x")
            assert await next_call() == "readable"
            turns.wake()
            turns.wake()
            assert await next_call() == "turn"
            turns.set_timer(0.0)
            assert await next_call() == "turn"
            assert calls == ["readable", "turn", "turn"], "two wake-ups are one"
            turns.set_timer(0.0)
            turns.wake()
            turns.close()
            there.send(b"x")
            await asyncio.sleep(0.01)
            assert len(calls) == 3

    asyncio.run(main())


def test_turn_cancels_a_wake_up() -> None:
    async def main() -> None:
        here, there = socket.socketpair()
        calls: list[bool] = []
        with here, there:
            turns = LoopTurns(here.fileno(), lambda: calls.append(True))
            turns.wake()
            turns.begin_turn()
            await asyncio.sleep(0)
            turns.close()
        assert not calls

    asyncio.run(main())
