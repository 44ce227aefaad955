"""The blocking space, on a real node."""

from __future__ import annotations

import gc
import os
import queue
import socket
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

import skerry
from skerry.client.api.sync import Space, connect
from skerry.client.core.events import Event
from skerry.client.core.states import StateChanged
from skerry.errors import (
    ConnectFailed,
    Disconnected,
    LocalProtocolError,
    RequestTimedOut,
    SlowConsumer,
    WouldBlock,
)
from tests.unit.client.conftest import RunningNode
from tests.unit.client.stage import TYPES, Only, Shout, Vessel

Events = queue.SimpleQueue[Event[Any]]


def test_published_object_reaches_another_program(node: str) -> None:
    events: Events = queue.SimpleQueue()
    with connect(node, name="a") as first, connect(node, name="b") as second:
        second.subscribe(Vessel, events.put)
        second.flush()
        first.publish(Vessel(mmsi=1, name="Maren", lat=1.0))
        first.publish(Vessel(mmsi=1, lat=2.0))
        first.publish(Vessel(mmsi=1), only=["name"])
        first.remove(Vessel(mmsi=1))
        seen = [events.get(timeout=30) for _ in range(4)]
    assert [event.operation for event in seen] == ["create", "update", "update", "remove"]
    assert seen[1].object == Vessel(mmsi=1, name="Maren", lat=2.0)
    assert seen[1].update == Vessel(mmsi=1, lat=2.0)
    assert seen[2].object == Vessel(mmsi=1, lat=2.0)
    assert not any(event.is_from_myself for event in seen)


def test_late_program_receives_current_objects(node: str) -> None:
    with connect(node) as first:
        first.publish(Vessel(mmsi=1, name="a"))
        first.publish(Vessel(mmsi=2, name="b"))
        first.flush()
        with connect(node, types=TYPES, preload=[Vessel]) as second:
            vessels = second.container(Vessel)
            assert {vessel.name for vessel in vessels.values()} == {"a", "b"}
            assert vessels.is_complete
            reported = [event.object.mmsi for event in islice(vessels.events, 2)]
            assert sorted(reported) == [1, 2]
            vessels.close()
        assert list(vessels.values()) == []


def test_bytes_are_published_under_a_subject(node: str) -> None:
    events: Events = queue.SimpleQueue()
    with connect(node) as space:
        space.subscribe("/prices/*", events.put)
        space.publish("/prices/ERIC-B", b"98.2")
        event = events.get(timeout=30)
        assert (event.subject, event.data) == ("/prices/ERIC-B", b"98.2")
        with pytest.raises(LocalProtocolError, match="no bytes to publish"):
            space.publish("/prices/ERIC-B")  # type: ignore[call-overload]


def test_iterating_from_the_callers_thread(node: str) -> None:
    with connect(node) as space, space.subscribe(Vessel) as subscription:
        space.publish(Vessel(mmsi=1))
        space.publish(Vessel(mmsi=2))
        first, second = islice(subscription, 2)
        assert (first.object.mmsi, second.object.mmsi) == (1, 2)
        assert subscription.get(timeout=0.01) is None
        with pytest.raises(LocalProtocolError, match="with a callback"):
            next(iter(space.subscribe(Vessel, print)))
    assert list(subscription) == []


def test_end_of_the_space_ends_iteration_in_other_threads(node: str) -> None:
    space = connect(node)
    subscription = space.subscribe(Shout)
    done: queue.SimpleQueue[int] = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: done.put(len(list(subscription))))
    thread.start()
    space.close()
    assert done.get(timeout=30) == 0
    thread.join()


def test_slow_iteration_raises_slow_consumer(node: str) -> None:
    with connect(node, queue_count_max=2) as space:
        subscription = space.subscribe(Shout)
        for text in "abc":
            space.publish(Shout(text=text))
        space.flush()
        assert [next(subscription).object.text for _ in "ab"] == ["a", "b"]
        with pytest.raises(SlowConsumer):
            next(subscription)


def test_abandoned_iteration_leaves_no_subscription(node: str) -> None:
    with connect(node) as space:
        space.publish(Vessel(mmsi=1))
        route_targets: list[int] = []
        for _ in range(3):
            for event in space.subscribe(Vessel):
                assert event.object.mmsi == 1
                break
            # Behind what the loop was asked to do when the subscription went.
            space.flush()
            route = space._core.intake.routes["Vessel"]
            route_targets.append(len(route.targets) + len(space._session.wakers))
        assert route_targets == [0, 0, 0]


def test_ended_slow_subscription_leaves_its_group(running_node: RunningNode) -> None:
    with connect(running_node.place, queue_count_max=1) as space:
        subscription = space.subscribe(Shout)
        for text in "abc":
            space.publish(Shout(text=text))
        space.flush()
        space.flush()
        assert space._core.subscriptions._groups.keys() == set()
        assert next(subscription).object.text == "a"
        with pytest.raises(SlowConsumer):
            next(subscription)


def test_unknown_type_has_no_container(node: str) -> None:
    with connect(node) as space:
        for what in ("Nope", "/Vessel/*"):
            with pytest.raises(LocalProtocolError, match="a container needs a type"):
                space.container(what)


def test_own_publish_is_received_and_marked_as_own(node: str) -> None:
    events: Events = queue.SimpleQueue()
    with connect(node) as space:
        space.subscribe(Shout, events.put)
        space.publish(Shout(text="ahoy"))
        event = events.get(timeout=30)
    assert event.is_from_myself
    assert event.object.text == "ahoy"
    assert not event.is_from_cache


def test_callback_may_publish_but_not_wait(node: str) -> None:
    failures: queue.SimpleQueue[Exception] = queue.SimpleQueue()
    received = threading.Event()

    with connect(node) as space:
        waiting = space.subscribe(Only)

        def answer(event: Event[Any]) -> None:
            if event.object.text == "again":
                received.set()
                return
            space.publish(Shout(text="again"))
            for wait in (space.flush, space.close, lambda: next(waiting)):
                try:
                    wait()
                except LocalProtocolError as error:
                    failures.put(error)

        space.subscribe(Shout, answer)
        space.publish(Shout(text="once"))
        assert received.wait(30)
    for _ in range(3):
        assert "cannot wait" in str(failures.get(timeout=30))


def test_callbacks_run_in_order_on_one_thread_of_the_space(node: str) -> None:
    threads: set[str] = set()
    texts: list[str] = []

    def note(event: Event[Any]) -> None:
        threads.add(threading.current_thread().name)
        texts.append(event.object.text)

    with connect(node, name="tracker") as space:
        space.subscribe(Shout, note)
        for number in range(100):
            space.publish(Shout(text=str(number)))
        space.flush()
        space.flush()
    assert threads == {"skerry tracker"}
    assert texts == [str(number) for number in range(100)]


def test_many_threads_may_publish(node: str) -> None:
    with connect(node) as space:
        vessels = space.container(Vessel)

        def publish(first: int) -> None:
            for number in range(first, first + 200):
                space.publish(Vessel(mmsi=number))

        threads = [threading.Thread(target=publish, args=(k * 200,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        space.flush()
        space.flush()
        assert len(vessels) == 800


def test_closed_subscription_receives_nothing(node: str) -> None:
    events: Events = queue.SimpleQueue()
    with connect(node) as space:
        subscription = space.subscribe(Shout, events.put)
        subscription.close()
        space.publish(Shout(text="ahoy"))
        space.flush()
    assert events.empty()


def test_connection_is_restored(running_node: RunningNode) -> None:
    states: queue.SimpleQueue[StateChanged] = queue.SimpleQueue()
    with connect(running_node.place) as space:
        space.on_state(states.put)
        vessels = space.container(Vessel)
        space.publish(Vessel(mmsi=1))
        space.flush()
        space.flush()
        assert list(vessels) == [1]
        running_node.stop()
        assert states.get(timeout=30).state == "disconnected"
        space.publish(Vessel(mmsi=2))
        running_node.start()
        assert states.get(timeout=30).state == "connected"
        space.flush()
        space.flush()
        assert list(vessels) == [2]


def test_publishing_above_the_limit_is_rejected_while_disconnected(
    running_node: RunningNode,
) -> None:
    gone = threading.Event()
    with connect(running_node.place, send_bytes_max=5000) as space:
        space.on_state(lambda _: gone.set())
        running_node.stop()
        assert gone.wait(30)
        with pytest.raises(WouldBlock, match="the limit is 5000"):
            for number in range(1000):
                space.publish(Vessel(mmsi=number))
        running_node.start()
        space.drain(timeout=30)
        space.flush()


def test_missing_node_raises_an_error_with_a_hint() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectFailed, match=r"no node answered at tcp://127\.0\.0\.1") as caught:
        connect(f"tcp://127.0.0.1:{port}")
    assert caught.value.hint is not None
    assert "skerry node run" in caught.value.hint


def test_types_of_other_programs_are_learned(node: str) -> None:
    with connect(node) as first, connect(node) as second:
        first.publish(Only(text="x"))
        first.flush()
        assert set(second.request_types()) == {"Only"}
        assert second.types["Only"](text="y").text == "y"
        assert second.container("Only")[()].text == "x"


def test_closed_space_raises_disconnected(node: str) -> None:
    space = connect(node)
    assert space.state == "connected"
    space.close()
    space.close()
    assert space.state == "closed"
    assert space.wait_closed() == "the space is closed"
    with pytest.raises(Disconnected, match="the space is closed"):
        space.publish(Shout(text="too late"))
    with pytest.raises(Disconnected, match="the space is closed"):
        space.flush()


def test_publish_while_another_thread_closes_raises_disconnected(node: str) -> None:
    space = connect(node)
    space.close()
    # As if the space had been closed between the look at it and the wake-up.
    with pytest.raises(Disconnected, match="the space is closed"):
        space._write_soon()


def test_space_that_was_not_closed_is_warned_about_and_ends(node: str) -> None:
    space = connect(node)
    thread = space._thread
    with pytest.warns(ResourceWarning, match="a space was not closed"):  # noqa: PT031
        del space
        gc.collect()
    thread._thread.join(30)
    assert not thread.is_running


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_space_does_not_work_in_a_forked_process(node: str) -> None:
    with connect(node) as space:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                space.publish(Shout(text="from a child"))
            except Disconnected as error:
                status = 0 if "forked" in str(error) else 2
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        space.flush()


def test_system_exit_in_a_callback_does_not_end_the_thread(
    node: str, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(node) as space:
        reported: list[str] = []

        def leave(_: object) -> None:
            raise SystemExit(3)

        space.on_state(leave)
        space.subscribe(Vessel, leave)
        space.subscribe(Vessel, lambda event: reported.append(event.object.name))
        space.publish(Vessel(mmsi=1, name="a"))
        space.publish(Vessel(mmsi=2, name="b"))
        space.flush()
        assert reported == ["a", "b"]
    assert [record.getMessage() for record in caplog.records] == ["a callback failed"] * 3


@pytest.fixture
def held(node: str) -> Iterator[Space]:
    """A space whose thread is held by a callback until the test is over."""
    is_held, go = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        is_held.set()
        go.wait(60)

    space = connect(node)
    space.subscribe(Vessel, hold)
    space.publish(Vessel(mmsi=1))
    assert is_held.wait(30)
    try:
        yield space
    finally:
        go.set()
        space.close()


@pytest.mark.parametrize(
    "wait",
    [
        lambda space: space.flush(timeout=0.01),
        lambda space: space.container(Vessel, timeout=0.01),
        lambda space: space.request(Vessel(mmsi=1), timeout=0.01),
        lambda space: space.request_types(timeout=0.01),
        lambda space: space.drain(timeout=0.01),
        lambda space: space.serve(Vessel, lambda asked: asked, timeout=0.01),
        lambda space: space.own(Vessel, timeout=0.01),
    ],
)
def test_timeout_counts_in_the_caller_while_a_callback_blocks(held: Space, wait: Any) -> None:
    with pytest.raises(RequestTimedOut, match="a callback blocks the space's thread"):
        wait(held)


def test_close_times_out_while_a_callback_blocks(node: str) -> None:
    is_held, go = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        is_held.set()
        go.wait(60)

    space = connect(node)
    with connect(node) as other:
        vessels = other.container(Vessel)
        try:
            space.subscribe(Vessel, hold)
            space.publish(Vessel(mmsi=1))
            assert is_held.wait(30)
            space.publish(Vessel(mmsi=2))
            for _ in range(2):
                with pytest.raises(RequestTimedOut, match="it closes when the callback returns"):
                    space.close(timeout=0.01)
            with pytest.raises(RequestTimedOut, match="within 0 s"):
                space.close(timeout=-1)
        finally:
            go.set()
        space.close(timeout=30)
        assert not space._thread.is_running
        other.flush()
        assert 2 in vessels, "what waited is sent when the callback returns"


def test_answers_have_the_class_that_the_caller_names(live_node: Any) -> None:
    text = "struct Ask [cached=false] { 1: int32 n; } struct Reply [cached=false] { 1: int32 n; }"
    types = skerry.define_types(text)
    with skerry.connect(live_node.place) as server, skerry.connect(live_node.place) as space:
        server.serve(types.Ask, lambda ask: types.Reply(n=ask.n))
        assert space.request(types.Ask(n=7), answer=types.Reply) == types.Reply(n=7)
        with pytest.raises(skerry.RequestError, match="returned a Reply, not a Ask"):
            space.request(types.Ask(n=1), answer=types.Ask)
