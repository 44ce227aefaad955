"""The parts that connections, publishers and subscribers of both kinds share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from skerry.client.distributor.sync import BlockingGroupConnection
from skerry.errors import LocalProtocolError

Join = Callable[..., BlockingGroupConnection]


def test_a_subscriber_has_one_kind_of_callback(join: Join) -> None:
    connection = join()
    with pytest.raises(LocalProtocolError, match="either"):
        connection.subscriber()
    with pytest.raises(LocalProtocolError, match="either"):
        connection.subscriber(lambda *_: None, on_batch=lambda _: None)


def test_removed_subscription_receives_nothing(join: Join, collected: Any) -> None:
    connection = join()
    subscriber = connection.subscriber(collected.on_update)
    publisher = connection.publisher()
    first, second = subscriber.add("/a", tag=1), subscriber.add("/*", tag=2)
    publisher.publish("/a", b"1")
    assert [collected.updates.get(timeout=10)[2] for _ in range(2)] == [1, 2]
    subscriber.remove(first)
    publisher.publish("/a", b"2")
    assert collected.updates.get(timeout=10)[1:3] == (b"2", 2)
    with pytest.raises(LocalProtocolError):
        subscriber.remove(first)
    subscriber.remove(second)
    assert subscriber.queue_length == 0


def test_patterns_are_checked(join: Join) -> None:
    subscriber = join().subscriber(lambda *_: None)
    with pytest.raises(LocalProtocolError):
        subscriber.add("prices")
    with pytest.raises(LocalProtocolError):
        subscriber.add("/.../a")


def test_publisher_that_is_closed_twice_is_closed(join: Join) -> None:
    connection = join()
    publisher = connection.publisher()
    connection.publisher()
    publisher.close()
    publisher.close()
    assert publisher.is_closed
    # Even if there are others.
    with pytest.raises(LocalProtocolError, match="the publisher is closed"):
        publisher.publish("/a", b"")


def test_publishers_and_subscribers_may_be_closed_after_their_connection(join: Join) -> None:
    connection = join()
    publisher, other = connection.publisher(), connection.publisher()
    subscriber = connection.subscriber(lambda *_: None)
    handle = subscriber.add("/a")
    publisher.publish("/a", b"1")
    connection.close(linger=False)
    subscriber.remove(handle)
    with pytest.raises(LocalProtocolError, match="closed"):
        subscriber.add("/b")
    subscriber.close()
    publisher.flush()
    publisher.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        other.publish("/a", b"2")
    other.close()
    assert connection.statistics().counters.sent_update_count == 1


def test_disconnected_subscriber_cannot_subscribe(join: Join, collected: Any) -> None:
    connection = join(delivery_queue_count_max=1)
    gate = threading.Event()
    slow = connection.subscriber(lambda *_: gate.wait(10), collected.on_event, on_slow="disconnect")
    slow.add("/a")
    publisher = connection.publisher()
    while connection.statistics().counters.subscription_count:
        publisher.publish("/a", b"1")
    with pytest.raises(LocalProtocolError, match="closed"):
        slow.add("/b")
    gate.set()
