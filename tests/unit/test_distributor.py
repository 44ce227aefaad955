"""The public face of the distributor, as its page shows it."""

from __future__ import annotations

import queue
import socket

from skerry import aio, distributor
from skerry.client.distributor import aio as twin
from skerry.client.distributor.sync import open_connection


def test_the_face_is_that_of_the_client() -> None:
    assert distributor.open is open_connection
    assert aio.distributor is twin


def test_the_documented_calls_work() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    calls: queue.Queue[tuple[object, ...]] = queue.Queue()
    events: queue.Queue[distributor.Event] = queue.Queue()
    config = distributor.Config(ttl=0, request_timeout_ms=10)
    with distributor.open(
        f"239.255.77.9:{port}", config=config, interface="127.0.0.1", application="feed"
    ) as connection:
        publisher = connection.publisher(on_event=events.put)
        subscriber = connection.subscriber(lambda *given: calls.put(given), events.put)
        handle = subscriber.add("/prices/*", tag="x")
        publisher.publish("/prices/ERIC-B", b"...")
        assert calls.get(timeout=10) == ("/prices/ERIC-B", b"...", "x", 0)
        subscriber.remove(handle)
        assert connection.statistics().sent.updates.total == 1
        assert isinstance(events.get(timeout=10), distributor.SenderFound)
