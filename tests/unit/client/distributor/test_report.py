"""Statistics of a connection."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from skerry.client.distributor.report import INTERVAL_NS, Reporter
from skerry.client.distributor.sync import BlockingGroupConnection


def test_statistics_count_the_traffic(
    join: Callable[..., BlockingGroupConnection], collected: Any
) -> None:
    connection = join(application="feed")
    subscriber = connection.subscriber(collected.on_update)
    subscriber.add("/a")
    publisher = connection.publisher()
    for _ in range(10):
        publisher.publish("/a", b"12345")
    collected.take(10)
    statistics = connection.statistics()
    assert statistics.application == "feed"
    assert statistics.group == connection.group
    assert statistics.interface == "lo"
    assert statistics.sent.updates.total == 10
    assert statistics.received.updates.total == 10
    assert statistics.sent.updates_per_datagram == 1.0
    assert 0 < statistics.sent.fill_ratio < 0.1
    assert statistics.kernel_drop_count == 0
    assert {queue.update_count for queue in statistics.queues} == {0}
    assert [sender.application for sender in statistics.senders] == ["feed"]
    assert statistics.counters.delivered_update_count == 10


def test_statistics_are_json(join: Callable[..., BlockingGroupConnection]) -> None:
    row = json.loads(join().statistics().to_json())
    assert row["sent"]["updates"]["per_s"] == [0.0, 0.0, 0.0]
    assert row["counters"]["faults"]["short"] == 0
    assert row["queues"] == []


def test_rates_are_sampled_once_a_second(join: Callable[..., BlockingGroupConnection]) -> None:
    connection = join()
    publisher = connection.publisher()
    reporter = Reporter(connection._session, 0)
    publisher.publish("/a", b"1")
    reporter.note(INTERVAL_NS - 1, 1)
    assert reporter.statistics().sent.updates.per_s[0] == 0.0
    reporter.note(INTERVAL_NS, 2)
    updates = reporter.statistics().sent.updates
    assert updates.per_s == (1.0, 1.0, 1.0)
    assert updates.peak_wall_ns == (2, 2, 2)
    assert reporter.due_ns == 2 * INTERVAL_NS
