"""Events that wait, and what happens when they are too many."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.client.core.event_queue import EventQueue, OnSlow
from skerry.client.core.events import Event
from skerry.limits import EVENT_QUEUE_COUNT_MAX
from tests.unit.client.stage import Shout, Stage, Vessel


def queue_of(stage: Stage, what: Any, count_max: int, on_slow: OnSlow) -> EventQueue[Any]:
    queue: EventQueue[Any] = EventQueue(count_max=count_max, on_slow=on_slow)
    core = stage.space()
    core.subscribe(what, queue.put, stage.now_ns)
    stage.run()
    return queue


def taken(queue: EventQueue[Any]) -> list[Event[Any]]:
    events = []
    while len(queue):
        event = queue.get()
        assert event is not None
        events.append(event)
    assert queue.get() is None
    return events


def test_full_queue_fails_with_a_hint() -> None:
    stage = Stage()
    queue = queue_of(stage, Shout, 3, "disconnect")
    for text in "abcde":
        stage.publish(stage.spaces[0], Shout(text=text))
    assert queue.failure is not None
    assert "3 events wait, the limit is 3" in str(queue.failure)
    assert queue.failure.hint is not None
    assert [event.object.text for event in taken(queue)] == ["a", "b", "c"]


@pytest.mark.parametrize("on_slow", ["disconnect", "conflate"])
def test_failure_is_reported_once(on_slow: OnSlow) -> None:
    stage = Stage()
    events = stage.hear(stage.space(), Vessel)
    stage.publish(stage.spaces[0], *(Vessel(mmsi=number) for number in range(5)))
    reported: list[str] = []
    queue: EventQueue[Any] = EventQueue(
        count_max=3, on_slow=on_slow, failed=lambda: reported.append("failed")
    )
    for event in events[:3]:
        queue.put(event)
    assert reported == []
    for event in events[3:]:
        queue.put(event)
    assert reported == ["failed"]


def test_default_limit_is_reached() -> None:
    stage = Stage()
    core = stage.space()
    events = stage.hear(core, Shout)
    stage.publish(core, Shout(text="a"))
    queue: EventQueue[Any] = EventQueue(count_max=EVENT_QUEUE_COUNT_MAX, on_slow="disconnect")
    for _ in range(EVENT_QUEUE_COUNT_MAX):
        queue.put(events[0])
    assert queue.failure is None
    queue.put(events[0])
    assert queue.failure is not None


def test_conflated_queue_keeps_the_last_state_of_each_object() -> None:
    stage = Stage()
    queue = queue_of(stage, Vessel, 3, "conflate")
    core = stage.spaces[0]
    stage.publish(core, Vessel(mmsi=1, lat=1.0), Vessel(mmsi=2, lat=1.0))
    assert len(taken(queue)) == 2
    stage.publish(core, Vessel(mmsi=1, lat=2.0), Vessel(mmsi=1, name="a"), Vessel(mmsi=3))
    stage.publish(core, Vessel(mmsi=1, lat=3.0))
    stage.remove(core, Vessel(mmsi=3), Vessel(mmsi=2))
    stage.publish(core, Vessel(mmsi=2, lat=9.0))
    first, second = taken(queue)
    assert (first.operation, first.object) == ("update", Vessel(mmsi=1, name="a", lat=3.0))
    assert first.update == Vessel(mmsi=1, name="a", lat=3.0)
    assert int(first.header.attributes) == 14
    assert (second.operation, second.object) == ("update", Vessel(mmsi=2, lat=9.0))
    stage.publish(core, Vessel(mmsi=1, lat=4.0))
    (last,) = taken(queue)
    assert last.update == Vessel(mmsi=1, lat=4.0), "empty again, so nothing is conflated"


def test_update_then_removal_is_a_removal() -> None:
    stage = Stage()
    queue = queue_of(stage, Vessel, 1, "conflate")
    core = stage.spaces[0]
    stage.publish(core, Vessel(mmsi=1, lat=1.0))
    taken(queue)
    stage.publish(core, Vessel(mmsi=1, lat=2.0))
    stage.remove(core, Vessel(mmsi=1))
    (event,) = taken(queue)
    assert (event.operation, event.object) == ("remove", Vessel(mmsi=1, lat=2.0))


def test_created_and_changed_is_created() -> None:
    stage = Stage()
    queue = queue_of(stage, Vessel, 1, "conflate")
    stage.publish(stage.spaces[0], Vessel(mmsi=1, lat=1.0), Vessel(mmsi=1, name="b"))
    (event,) = taken(queue)
    assert (event.operation, event.update) == ("create", Vessel(mmsi=1, name="b", lat=1.0))


@pytest.mark.parametrize("what", [Vessel, "/a/..."])
def test_more_objects_than_the_limit_end_the_subscription(what: Any) -> None:
    stage = Stage()
    queue = queue_of(stage, what, 2, "conflate")
    core = stage.spaces[0]
    for number in range(3):
        core.publish(Vessel(mmsi=number), 1.0)
        core.publish_bytes(f"/a/{number}", b"", 1.0)
    stage.run()
    assert queue.failure is not None
    assert "more than 2 objects" in str(queue.failure)


def test_messages_are_conflated_by_key_or_subject() -> None:
    stage = Stage()
    queue = queue_of(stage, "/a/*", 2, "conflate")
    core = stage.spaces[0]
    for number in range(10):
        core.publish_bytes(f"/a/{number % 2}", bytes([number]), 1.0)
    stage.run()
    assert [(event.subject, event.data) for event in taken(queue)] == [
        ("/a/0", b"\x08"),
        ("/a/1", b"\x09"),
    ]
