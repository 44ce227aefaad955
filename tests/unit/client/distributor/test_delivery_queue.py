"""Queues of publishers and subscribers: order, bounds and what happens there, and callbacks."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skerry.client.distributor.delivery_queue import DeliveryQueue
from skerry.client.distributor.dispatch import Routes
from skerry.client.distributor.events import SubscriberCut, UpdatesDropped
from skerry.protocol.distributor.events import ConnectionClosed
from skerry.protocol.distributor.receiving.updates import Updates

EVENT = ConnectionClosed(group="239.1.1.1", port=1)
Make = Callable[..., DeliveryQueue]


def updates(*numbers: int) -> Updates:
    return Updates([("/a", b"%d" % number) for number in numbers])


@pytest.fixture
def calls() -> queue.Queue[Any]:
    return queue.Queue()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Callbacks wait until it is set."""
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.fixture
def make(calls: queue.Queue[Any], gate: threading.Event) -> Iterator[Make]:
    made: list[DeliveryQueue] = []

    def outlet(**options: Any) -> DeliveryQueue:
        routes = Routes()
        routes.is_single = True

        def on_update(subject: str, data: bytes, tag: object, waiting: int) -> None:
            gate.wait(10)
            calls.put((data, waiting))

        options = {"on_update": on_update, "on_event": calls.put, "count_max": 3, **options}
        if options.get("on_batch"):
            del options["on_update"]
        made.append(DeliveryQueue(name="test", routes=routes, **options))
        return made[-1]

    yield outlet
    gate.set()
    for one in made:
        one.close()


def taken(calls: queue.Queue[Any], count: int) -> list[Any]:
    return [calls.get(timeout=10) for _ in range(count)]


def test_updates_and_events_keep_their_order(
    make: Make, calls: queue.Queue[Any], gate: threading.Event
) -> None:
    outlet = make()
    gate.set()
    outlet.put_updates(updates(1, 2))
    outlet.put_event(EVENT)
    outlet.put_updates(updates(3))
    items = [item[0] if isinstance(item, tuple) else item for item in taken(calls, 4)]
    assert items == [b"1", b"2", EVENT, b"3"]
    assert outlet.count == 0
    assert outlet.is_empty


def test_callback_receives_the_number_of_waiting_updates(
    make: Make, calls: queue.Queue[Any], gate: threading.Event
) -> None:
    outlet = make(delivery="inline")
    gate.set()
    outlet.put_updates(updates(1, 2))
    outlet.put_updates(updates(3))
    assert calls.empty()
    outlet.run()
    assert taken(calls, 3) == [(b"1", 2), (b"2", 1), (b"3", 0)]


def test_batches_are_delivered_as_lists(make: Make, calls: queue.Queue[Any]) -> None:
    outlet = make(on_batch=calls.put, delivery="inline")
    outlet.put_updates(updates(1, 2))
    outlet.run()
    assert taken(calls, 1) == [updates(1, 2)]


def test_oldest_updates_are_dropped_and_reported(
    make: Make, calls: queue.Queue[Any], gate: threading.Event
) -> None:
    outlet = make(on_slow="drop-oldest")
    outlet.put_updates(updates(1))
    while not outlet.is_empty:  # until the thread has it, and waits at the gate
        pass
    outlet.put_updates(updates(2, 3))
    outlet.put_event(EVENT)
    outlet.put_updates(updates(4, 5))
    outlet.put_updates(updates(6))
    assert outlet.count == 3
    assert outlet.dropped_count == 2
    gate.set()
    items = [item[0] if isinstance(item, tuple) else item for item in taken(calls, 6)]
    assert items == [b"1", UpdatesDropped(update_count=2), EVENT, b"4", b"5", b"6"]


def test_a_list_longer_than_the_queue_loses_its_beginning(
    make: Make, calls: queue.Queue[Any], gate: threading.Event
) -> None:
    outlet = make()
    gate.set()
    outlet.put_updates(updates(*range(10)))
    items = taken(calls, 4)
    assert items[0] == UpdatesDropped(update_count=7)
    assert [data for data, _ in items[1:]] == [b"7", b"8", b"9"]
    assert outlet.count_peak == 10


def test_at_the_bound_nothing_is_dropped(
    make: Make, calls: queue.Queue[Any], gate: threading.Event
) -> None:
    outlet = make()
    outlet.put_updates(updates(1, 2, 3))
    gate.set()
    assert [data for data, _ in taken(calls, 3)] == [b"1", b"2", b"3"]
    assert outlet.dropped_count == 0


def test_full_queue_pauses_reading_until_it_is_half_empty(
    make: Make, calls: queue.Queue[Any], gate: threading.Event
) -> None:
    resumed = threading.Event()
    outlet = make(on_slow="block", resume=resumed.set)
    for number in range(3):
        outlet.put_updates(updates(number))
    outlet.put_updates(updates(3, 4))
    assert outlet.is_full
    assert not resumed.is_set()
    gate.set()
    assert len(taken(calls, 5)) == 5
    assert resumed.wait(10)
    assert outlet.dropped_count == 0
    assert not outlet.is_full


def test_slow_subscriber_can_be_disconnected(
    make: Make, calls: queue.Queue[Any], gate: threading.Event
) -> None:
    outlet = make(on_slow="disconnect")
    outlet.put_updates(updates(1, 2, 3, 4))
    assert outlet.is_cut
    outlet.put_updates(updates(5))
    outlet.put_event(EVENT)
    gate.set()
    assert taken(calls, 1) == [SubscriberCut(update_count=4)]
    assert outlet.is_empty


def test_dropped_updates_are_logged_without_an_event_callback(
    make: Make, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    gate.set()
    outlet = make(on_event=None)
    with caplog.at_level(logging.WARNING):
        outlet.put_updates(updates(1, 2, 3, 4))
        outlet.finish()
        outlet.join()
    assert "a subscriber does not keep up" in caplog.text


def test_error_of_a_callback_is_logged_and_delivery_continues(
    make: Make, calls: queue.Queue[Any], caplog: pytest.LogCaptureFixture
) -> None:
    def on_update(subject: str, data: bytes, tag: object, waiting: int) -> None:
        calls.put(data)
        if data == b"1":
            raise ValueError(data)

    outlet = make(on_update=on_update, delivery="inline")
    outlet.put_updates(updates(1, 2))
    outlet.run()
    assert taken(calls, 2) == [b"1", b"2"]
    assert outlet.error_count == 1
    assert "a callback failed" in caplog.text


def test_batches_and_events_that_raise_do_no_harm(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise ValueError

    outlet = make(on_batch=fail, on_event=fail, delivery="inline")
    outlet.put_updates(updates(1))
    outlet.put_event(EVENT)
    outlet.run()
    assert outlet.error_count == 2


def test_nothing_is_delivered_after_the_end(make: Make, calls: queue.Queue[Any]) -> None:
    outlet = make(delivery="inline")
    outlet.put_updates(updates(1))
    outlet.close()
    outlet.put_updates(updates(2))
    outlet.put_event(EVENT)
    outlet.run()
    assert calls.empty()
    assert outlet.count == 0


def test_finishing_delivers_what_waits(
    make: Make, calls: queue.Queue[Any], gate: threading.Event
) -> None:
    outlet = make()
    outlet.put_updates(updates(1, 2))
    outlet.finish()
    outlet.put_updates(updates(3))
    gate.set()
    outlet.join()
    assert [data for data, _ in taken(calls, 2)] == [b"1", b"2"]
    assert calls.empty()


def test_callback_may_close_its_own_queue(calls: queue.Queue[Any]) -> None:
    outlet: DeliveryQueue

    def on_event(event: object) -> None:
        outlet.close()
        calls.put(event)

    outlet = DeliveryQueue(name="test", on_event=on_event)
    outlet.put_event(EVENT)
    assert taken(calls, 1) == [EVENT]
    outlet.join()


def test_the_thread_reads_after_long_deliveries_only(
    make: Make, calls: queue.Queue[Any], gate: threading.Event
) -> None:
    read = threading.Event()
    outlet = make(read=read.set, count_max=1000)
    gate.set()
    outlet.put_updates(updates(1))
    taken(calls, 1)
    assert not read.is_set()
    outlet.put_updates(updates(*range(64)))
    assert read.wait(10)
