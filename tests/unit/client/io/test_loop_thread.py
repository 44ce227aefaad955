"""A loop in a thread."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import threading
from collections.abc import Iterator

import pytest

from skerry.client.io.loop_thread import FORKED, LoopThread, join_abandoned
from skerry.errors import Disconnected, LocalProtocolError, RequestTimedOut


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread("test loop")
    try:
        yield made
    finally:
        made.end()


async def name() -> str:
    return threading.current_thread().name


def test_work_runs_on_the_thread_and_returns_its_result(thread: LoopThread) -> None:
    assert thread.run(name()) == "test loop"
    assert thread.call(lambda: threading.current_thread().name) == "test loop"


def test_errors_of_work_are_raised_in_the_caller(thread: LoopThread) -> None:
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


def test_timeout_applies_while_the_thread_is_blocked(thread: LoopThread) -> None:
    held, go = threading.Event(), threading.Event()
    done: list[str] = []

    def hold() -> None:
        held.set()
        go.wait(60)

    async def work() -> None:
        await asyncio.sleep(0)
        done.append("work")

    thread._loop.call_soon_threadsafe(hold)
    try:
        assert held.wait(30)
        with pytest.raises(RequestTimedOut, match="waiting for the answer: a callback"):
            thread.run(work(), timeout=0, what="the answer")
    finally:
        go.set()
    assert thread.run(name(), timeout=30) == "test loop"
    assert done == [], "what is not waited for is cancelled"


def test_error_of_the_work_is_preferred(thread: LoopThread) -> None:
    async def fail() -> None:
        raise TimeoutError("its own words")

    with pytest.raises(TimeoutError, match="its own words"):
        thread.run(fail(), timeout=30)
    assert thread.run(name(), timeout=float("nan")) == "test loop"
    assert thread.run(name(), timeout=1e300) == "test loop"


def test_ended_thread_does_nothing_more() -> None:
    thread = LoopThread("short")
    thread.end()
    thread.end()
    assert not thread.is_running
    with pytest.raises(Disconnected, match="the space is closed"):
        thread.run(name())


def test_running_work_is_cancelled_at_the_end() -> None:
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


def test_abandoned_thread_runs_a_last_coroutine() -> None:
    thread = LoopThread("left")
    done = threading.Event()

    async def last() -> None:
        done.set()

    thread.abandon(last)
    assert done.wait(30)
    thread.end()
    thread.abandon(last)


async def forever() -> None:
    await asyncio.Event().wait()


def hold_up(thread: LoopThread) -> threading.Event:
    """Keep the loop from turning until the event is set."""
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        go.wait(30)

    thread._loop.call_soon_threadsafe(hold)
    assert held.wait(30)
    return go


def test_waiting_caller_is_notified_of_the_end() -> None:
    thread = LoopThread("short")
    begun = threading.Event()
    reported: queue.SimpleQueue[Exception] = queue.SimpleQueue()

    async def wait() -> None:
        begun.set()
        await forever()

    def run() -> None:
        try:
            thread.run(wait())
        except Disconnected as error:
            reported.put(error)

    waiting = threading.Thread(target=run)
    waiting.start()
    assert begun.wait(30)
    thread.end()
    assert "the space is closed" in str(reported.get(timeout=30))
    waiting.join()


def test_no_work_is_accepted_after_the_end() -> None:
    thread = LoopThread("short")
    go = hold_up(thread)
    early = thread._submit(forever())
    ending = [threading.Thread(target=thread.end) for _ in range(3)]
    try:
        for end in ending:
            end.start()
        while thread.is_open:
            assert thread.is_running
        with pytest.raises(Disconnected, match="the space is closed"):
            thread.run(name())
    finally:
        go.set()
    for end in ending:
        end.join()
    assert early.cancelled()
    assert not thread.is_running


def test_submitted_work_of_a_broken_loop_fails() -> None:
    thread = LoopThread("broken")
    future = thread._submit(forever())

    def break_down() -> None:
        # As a loop does that was stopped from elsewhere: nothing more is begun.
        thread._loop.stop()

    thread._loop.call_soon_threadsafe(break_down)
    thread.join(30)
    assert future.cancelled()
    thread.end()


def test_abandoned_thread_accepts_no_work_and_is_joined_with_a_limit() -> None:
    thread = LoopThread("left")
    go = hold_up(thread)

    async def last() -> None:
        pass

    with thread._lock:
        # As the collector does in the midst of handing something over.
        thread.abandon(last)
    assert not thread.is_open
    with pytest.raises(Disconnected, match="the space is closed"):
        thread.run(name())
    join_abandoned(0.01)
    assert thread.is_running
    go.set()
    join_abandoned(30)
    assert not thread.is_running


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_process_has_no_thread_and_does_not_wait_for_its_lock(
    thread: LoopThread,
) -> None:
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with thread._lock:
            held.set()
            go.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        status = 1
        try:
            thread.run(name())
        except Disconnected as error:
            thread.end()
            status = 0 if str(error) == FORKED and not thread.is_running else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    go.set()
    holder.join()
    assert os.waitstatus_to_exitcode(status) == 0
    assert thread.run(name()) == "test loop"
