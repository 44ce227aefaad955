"""A loop in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from skerry.client.loop_thread import LoopThread
from skerry.errors import Disconnected, LocalProtocolError


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread("test loop")
    try:
        yield made
    finally:
        made.end()


async def name() -> str:
    return threading.current_thread().name


def test_work_is_done_there_and_its_result_comes_here(thread: LoopThread) -> None:
    assert thread.run(name()) == "test loop"
    assert thread.call(lambda: threading.current_thread().name) == "test loop"


def test_errors_come_here_too(thread: LoopThread) -> None:
    async def fail() -> None:
        raise ValueError("oops")

    with pytest.raises(ValueError, match="oops"):
        thread.run(fail())


def test_the_thread_cannot_wait_for_itself(thread: LoopThread) -> None:
    def wait() -> None:
        assert thread.call(lambda: 7) == 7, "what does not wait may be done"
        thread.run(name())

    with pytest.raises(LocalProtocolError, match="a callback cannot wait"):
        thread.call(wait)


def test_ended_thread_does_nothing_more() -> None:
    thread = LoopThread("short")
    thread.end()
    thread.end()
    assert not thread.is_running
    with pytest.raises(Disconnected, match="the space is closed"):
        thread.run(name())


def test_what_still_runs_is_cancelled_at_the_end() -> None:
    thread = LoopThread("busy")
    ended = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def begin() -> asyncio.Task[None]:
        task = asyncio.create_task(forever())
        await asyncio.sleep(0)
        return task

    thread.run(begin())
    thread.end()
    assert ended.is_set()


def test_abandoned_thread_does_a_last_thing() -> None:
    thread = LoopThread("left")
    done = threading.Event()

    async def last() -> None:
        done.set()

    thread.abandon(last)
    assert done.wait(30)
    thread.end()
    thread.abandon(last)
