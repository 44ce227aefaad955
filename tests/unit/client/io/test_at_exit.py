"""The blocking spaces of a process: closed by many, left at the end, and not there after a fork."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from itertools import islice

import pytest

from skerry.client.api.sync import Space, connect
from skerry.client.io.at_exit import close_open_spaces
from skerry.client.io.loop_thread import FORKED
from skerry.errors import Disconnected
from tests.unit.client.conftest import RunningNode
from tests.unit.client.stage import Shout, Vessel

PROGRAM = """
import skerry, sys

types = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; }")

def main():
    space = skerry.connect(sys.argv[1], types=types, name="hasty")
    for number in range(100):
        space.publish(types.Vessel(mmsi=number))
    return space

"""


def test_concurrent_closes_all_return_after_the_close(node: str) -> None:
    def close(space: Space, start: threading.Barrier, found: queue.SimpleQueue[bool]) -> None:
        start.wait(30)
        space.close()
        found.put(space._thread.is_running)

    for _ in range(3):
        space, start = connect(node), threading.Barrier(4)
        found: queue.SimpleQueue[bool] = queue.SimpleQueue()
        threads = [threading.Thread(target=close, args=(space, start, found)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [found.get(timeout=30) for _ in threads] == [False] * 4


def test_waiting_caller_fails_when_another_thread_closes(node: str) -> None:
    def use(space: Space, begun: threading.Event, reported: queue.SimpleQueue[Exception]) -> None:
        try:
            while True:
                space.subscribe(Vessel, print).close()
                space.container(Vessel).close()
                begun.set()
        except Disconnected as error:
            reported.put(error)

    for _ in range(5):
        space, begun = connect(node), threading.Event()
        reported: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        thread = threading.Thread(target=use, args=(space, begun, reported))
        thread.start()
        assert begun.wait(30)
        space.close()
        assert "the space is closed" in str(reported.get(timeout=30))
        thread.join()


def test_open_space_is_closed_at_exit_with_a_warning(
    node: str, caplog: pytest.LogCaptureFixture
) -> None:
    connect(node, name="tidy").close()
    space = connect(node, name="hasty")
    for number in range(100):
        space.publish(Vessel(mmsi=number))
    with pytest.warns(ResourceWarning, match="a space was not closed") as warned:
        close_open_spaces()
    assert not space._thread.is_running
    with pytest.raises(Disconnected, match="the space is closed"):
        space.publish(Vessel(mmsi=1))
    space.close()
    close_open_spaces()
    assert len(warned) == 1
    assert [record.getMessage() for record in caplog.records] == [
        "the space hasty was not closed before the end of the program"
    ]
    with connect(node) as other, other.subscribe(Vessel) as events:
        assert {event.object.mmsi for event in islice(events, 100)} == set(range(100))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("space = main()", 0),
        ("main()", 0),
        ("space = main()\nsys.exit(3)", 3),
        ("space = main()\nraise ValueError('oops')", 1),
    ],
)
def test_program_that_does_not_close_loses_nothing_and_is_warned(
    node: str, ending: str, code: int
) -> None:
    with connect(node) as space:
        command = [sys.executable, "-P", "-c", PROGRAM + ending, node]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code
        assert "the space hasty was not closed before the end of the program" in done.stderr
        with space.subscribe("Vessel") as events:
            assert {event.object.mmsi for event in islice(events, 100)} == set(range(100))


@pytest.mark.slow
def test_program_that_closes_is_not_warned(node: str) -> None:
    ending = "import atexit\natexit.register(main().close)"
    command = [sys.executable, "-P", "-X", "dev", "-c", PROGRAM + ending, node]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_node_that_does_not_read_does_not_keep_a_program_from_ending(
    running_node: RunningNode,
) -> None:
    space = connect(running_node.place, send_bytes_max=30_000_000)
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        go.wait(60)

    running_node._loop.call_soon_threadsafe(hold)
    try:
        assert held.wait(30)
        for _ in range(20):
            space.publish("/large", bytes(1_000_000))
        with pytest.warns(ResourceWarning, match="a space was not closed"):
            close_open_spaces()
        assert not space._thread.is_running
    finally:
        go.set()


def test_dead_node_does_not_keep_a_program_from_ending(running_node: RunningNode) -> None:
    space = connect(running_node.place)
    gone = threading.Event()
    space.on_state(lambda _: gone.set())
    running_node.stop()
    assert gone.wait(30)
    space.publish(Vessel(mmsi=1))
    with pytest.warns(ResourceWarning, match="a space was not closed"):
        close_open_spaces()
    assert not space._thread.is_running


@pytest.mark.slow
def test_callback_that_does_not_return_does_not_keep_a_program_from_ending(node: str) -> None:
    space = connect(node)
    held, go = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        held.set()
        go.wait(60)

    try:
        space.subscribe(Shout, hold)
        space.publish(Shout(text="ahoy"))
        assert held.wait(30)
        with pytest.warns(ResourceWarning, match="a space was not closed"):
            close_open_spaces()
        assert space._thread.is_running
    finally:
        go.set()
    space._thread.join(30)
    assert not space._thread.is_running


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_process_waits_for_no_lock_of_the_other(node: str) -> None:
    with connect(node) as space, space.subscribe(Vessel) as subscription:
        space.publish(Vessel(mmsi=1))
        # As if other threads were publishing, and iterating, at that very moment.
        with space._core.buffer.waiting.lock, subscription._inbox.arrived:
            child = os.fork()
        if child == 0:
            signal.alarm(20)
            status = 1
            try:
                assert subscription.get() is None
                subscription.close()
                for use in (
                    lambda: space.publish(Vessel(mmsi=2)),
                    lambda: space.publish("/a", b"x"),
                    lambda: space.remove(Vessel(mmsi=1)),
                    space.flush,
                    lambda: space.container(Vessel),
                ):
                    with pytest.raises(Disconnected) as caught:
                        use()
                    assert str(caught.value) == FORKED
                assert space.wait_closed() == FORKED
                close_open_spaces()
                space.close()
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        space.flush()
        assert next(subscription).object.mmsi == 1
