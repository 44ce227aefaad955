"""The distributor with threads: real sockets on the loopback interface."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from skerry.client.distributor.events import SubscriberCut
from skerry.client.distributor.sync import BlockingGroupConnection
from skerry.errors import ConfigError, LocalProtocolError
from skerry.protocol.distributor.events import (
    ConnectionClosed,
    RemovalReason,
    SenderFound,
    SenderRemoved,
)

Join = Callable[..., BlockingGroupConnection]


@pytest.mark.parametrize("delivery", ["thread", "inline"])
@pytest.mark.parametrize("holdback_ms", [0, 5])
def test_updates_arrive_in_order(
    join: Join, collected: Any, delivery: str, holdback_ms: int
) -> None:
    near, far = join(holdback_delay_ms=holdback_ms, application="feed"), join(delivery=delivery)
    far.subscriber(collected.on_update, collected.on_event).add("/prices/*", tag="x")
    publisher = near.publisher()
    for number in range(300):
        publisher.publish("/prices/a", b"%d" % number)
    assert collected.take(300) == [("/prices/a", b"%d" % number) for number in range(300)]
    assert collected.event(SenderFound).sender.application == "feed"


def test_batches_are_lists_of_updates(join: Join) -> None:
    near, far = join(holdback_delay_ms=5), join()
    got: list[tuple[str, bytes]] = []
    done = threading.Event()

    def on_batch(updates: list[tuple[str, bytes]]) -> None:
        got.extend(updates)
        if len(got) == 200:
            done.set()

    far.subscriber(on_batch=on_batch).add("/...")
    publisher = near.publisher()
    for number in range(200):
        publisher.publish(f"/{number % 3}", b"%d" % number)
    publisher.flush()
    assert done.wait(10)
    assert got == [(f"/{number % 3}", b"%d" % number) for number in range(200)]


def test_many_threads_publish_and_each_keeps_its_order(join: Join, collected: Any) -> None:
    near, far = join(holdback_delay_ms=5), join()
    far.subscriber(collected.on_update).add("/...")
    publisher = near.publisher()

    def publish(name: str) -> None:
        for number in range(200):
            publisher.publish(f"/{name}", b"%d" % number)

    threads = [threading.Thread(target=publish, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got = collected.take(600)
    for name in "abc":
        mine = [data for subject, data in got if subject == f"/{name}"]
        assert mine == [b"%d" % number for number in range(200)]


@pytest.mark.parametrize("delivery", ["thread", "inline"])
def test_callbacks_may_publish(join: Join, collected: Any, delivery: str) -> None:
    near, far = join(), join(delivery=delivery)
    answers = far.publisher()
    far.subscriber(lambda _s, data, _t, _n: answers.publish("/back", data)).add("/there")
    near.subscriber(collected.on_update).add("/back")
    near.publisher().publish("/there", b"1")
    assert collected.take(1) == [("/back", b"1")]


def test_lost_datagrams_are_requested_and_repaired(join: Join, collected: Any) -> None:
    # That the last one is lost is found out by a heartbeat.
    near, far = join(heartbeat_interval_ms=20), join(fake_receive_loss_permille=300)
    far.subscriber(collected.on_update, collected.on_event).add("/a")
    publisher = near.publisher()
    collected.event(SenderFound)
    for number in range(100):
        publisher.publish("/a", b"%d" % number)
    assert collected.take(100) == [("/a", b"%d" % number) for number in range(100)]
    assert far.statistics().counters.requests_sent_count > 0
    assert near.statistics().counters.resent_datagram_count > 0


def test_departure_is_announced_to_the_group(join: Join, collected: Any) -> None:
    near, far = join(request_timeout_ms=20), join(request_timeout_ms=20)
    far.subscriber(collected.on_update, collected.on_event).add("/a")
    publisher = near.publisher()
    publisher.publish("/a", b"1")
    assert collected.take(1) == [("/a", b"1")]
    near.close()
    assert collected.event(SenderRemoved).reason is RemovalReason.GOODBYE
    far.close()
    assert collected.event(ConnectionClosed).port == far.port
    far.close()


def test_with_closes_and_an_error_does_not_linger(join: Join) -> None:
    with join(request_timeout_ms=60_000) as connection:
        with connection.publisher() as publisher:
            publisher.publish("/a", b"1")
        with connection.subscriber(lambda *_: None) as subscriber:
            subscriber.add("/a")
        connection.close(linger=False)
    with pytest.raises(LocalProtocolError, match="closed"):
        connection.publisher()
    with (
        pytest.raises(KeyError),
        join(request_timeout_ms=60_000) as connection,
        connection.publisher(),
    ):
        raise KeyError


def test_a_callback_may_close_its_connection(join: Join) -> None:
    near, far = join(), join(delivery="inline")
    done = threading.Event()

    def on_update(*_: object) -> None:
        far.close()
        done.set()

    far.subscriber(on_update).add("/a")
    near.publisher().publish("/a", b"1")
    assert done.wait(10)


def test_slow_subscriber_is_disconnected_and_others_continue(join: Join, collected: Any) -> None:
    near, far = join(), join(delivery_queue_count_max=50, request_timeout_ms=200)
    gate = threading.Event()
    slow = far.subscriber(lambda *_: gate.wait(10), collected.on_event, on_slow="disconnect")
    slow.add("/a")
    far.subscriber(collected.on_update).add("/a")
    publisher = near.publisher()
    for number in range(200):
        publisher.publish("/a", b"%d" % number)
        assert collected.take(1) == [("/a", b"%d" % number)]
    gate.set()
    assert collected.event(SubscriberCut).update_count == 51
    assert far.statistics().counters.subscription_count == 1


def test_full_queue_pauses_reading_and_nothing_is_lost(join: Join) -> None:
    near, far = join(), join(delivery_queue_count_max=10, on_slow="block")
    gate, done, got = threading.Event(), threading.Event(), []

    def on_update(_subject: str, data: bytes, _tag: object, _waiting: int) -> None:
        gate.wait(10)
        got.append(data)
        if len(got) == 300:
            done.set()

    subscriber = far.subscriber(on_update)
    subscriber.add("/a")
    publisher = near.publisher()
    for number in range(300):
        publisher.publish("/a", b"%d" % number)
    gate.set()
    assert done.wait(10)
    assert got == [b"%d" % number for number in range(300)]


def test_senders_are_known(join: Join) -> None:
    near, far = join(application="feed"), join()
    found = threading.Event()
    far.subscriber(lambda *_: None, lambda _: found.set()).add("/a")
    near.publisher()
    assert found.wait(10)
    assert [sender.application for sender in far.senders()] == ["feed"]
    assert near.config.application == "feed"


def test_publisher_receives_sender_events(join: Join, collected: Any) -> None:
    connection = join(application="feed")
    connection.publisher(collected.on_event)
    assert collected.event(SenderFound).sender.application == "feed"


def test_failed_open_raises_an_error(join: Join) -> None:
    with pytest.raises(ConfigError):
        join(interface="nowhere0")
    with pytest.raises(ConfigError, match="no such parameter"):
        join(colour="red")


def test_polled_connection_works_only_inside_poll(join: Join) -> None:
    got: list[bytes] = []
    near, far = join(is_polled=True, request_timeout_ms=20), join(is_polled=True)
    threads = threading.active_count()
    far.subscriber(lambda _s, data, _t, _n: got.append(data), lambda _: None).add("/a")
    publisher = near.publisher(lambda _: None)
    publisher.publish("/a", b"1")
    assert not got
    while not got:
        far.poll(1.0)
    assert got == [b"1"]
    assert threading.active_count() == threads
    near.poll()
    near.close()
    far.close(linger=False)
    far.close()
    far.poll()


def test_a_callback_may_close_a_polled_connection(join: Join) -> None:
    near, far = join(), join(is_polled=True)
    done: list[bool] = []

    def on_update(*_: object) -> None:
        far.close()
        done.append(True)

    far.subscriber(on_update).add("/a")
    near.publisher().publish("/a", b"1")
    while not done:
        far.poll(1.0)


def test_a_connection_with_a_thread_is_not_polled(join: Join) -> None:
    with pytest.raises(LocalProtocolError, match="has a thread"):
        join().poll()


def test_fault_in_the_thread_is_logged_and_ends_the_connection(
    join: Join, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = join()

    def fail(_now_ns: int) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(connection._management, "advance", fail)
    connection._management.due_ns = 0
    connection._wake()
    assert connection._driving is not None
    connection._driving.join(10)
    assert "a multicast connection failed" in caplog.text
    connection.close()
