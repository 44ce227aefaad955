"""The blocking space, on a real node."""

from __future__ import annotations

import queue
import socket
import threading

import pytest

import skerry
from skerry.client.space import Event
from skerry.client.sync import connect
from skerry.errors import ConnectFailed, Disconnected, LocalProtocolError

TYPES = skerry.define_types("""
struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; }
struct Shout [cached=false] { 1: string text; }
""")
Vessel, Shout = TYPES.Vessel, TYPES.Shout


def test_what_one_program_publishes_another_sees(node: str) -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
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


def test_late_program_begins_with_what_is_there(node: str) -> None:
    with connect(node) as first:
        first.publish(Vessel(mmsi=1, name="a"))
        first.publish(Vessel(mmsi=2, name="b"))
        first.flush()
        with connect(node, types=TYPES, preload=[Vessel]) as second:
            vessels = second.container(Vessel)
            assert {vessel.name for vessel in vessels.values()} == {"a", "b"}
            assert vessels.is_complete


def test_own_publish_comes_back_and_is_known_as_own(node: str) -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with connect(node) as space:
        space.subscribe(Shout, events.put)
        space.publish(Shout(text="ahoy"))
        event = events.get(timeout=30)
    assert event.is_from_myself
    assert event.object.text == "ahoy"
    assert not event.is_from_cache


def test_callback_may_publish_but_not_wait(node: str) -> None:
    failures: queue.SimpleQueue[Exception] = queue.SimpleQueue()
    heard = threading.Event()

    with connect(node) as space:

        def answer(event: Event) -> None:
            if event.object.text == "again":
                heard.set()
                return
            space.publish(Shout(text="again"))
            try:
                space.flush()
            except LocalProtocolError as error:
                failures.put(error)

        space.subscribe(Shout, answer)
        space.publish(Shout(text="once"))
        assert heard.wait(30)
    assert "cannot wait" in str(failures.get(timeout=30))


def test_closed_subscription_hears_nothing(node: str) -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with connect(node) as space:
        subscription = space.subscribe(Shout, events.put)
        subscription.close()
        space.publish(Shout(text="ahoy"))
        space.flush()
    assert events.empty()


def test_what_cannot_be_published_is_refused_here(node: str) -> None:
    with connect(node) as space:
        with pytest.raises(LocalProtocolError, match="without its key mmsi"):
            space.publish(Vessel(name="a"))
        with pytest.raises(LocalProtocolError, match="Shout is not cached"):
            space.remove(Shout())
        space.flush()


def test_no_node_is_told_with_what_to_do() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectFailed, match=r"no node answered at tcp://127\.0\.0\.1") as caught:
        connect(f"tcp://127.0.0.1:{port}")
    assert caught.value.hint is not None
    assert "skerry node run" in caught.value.hint


def test_closed_space_says_so(node: str) -> None:
    space = connect(node)
    space.close()
    space.close()
    with pytest.raises(Disconnected, match="the space is closed"):
        space.publish(Shout(text="too late"))
