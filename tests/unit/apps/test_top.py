"""Rates, clients, types and ledger of a node."""

from __future__ import annotations

from time import time
from types import SimpleNamespace
from typing import Any

import pytest

import skerry
from skerry.apps.top import Counts, NodeRates, NodeWatch, _current
from skerry.objects.internal import internal_class

TYPES = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; }")


def messages(row: Any, *, sent_s: float, received_s: float, operation: str = "create") -> Any:
    """An event with a row."""
    return SimpleNamespace(
        object=row,
        operation=operation,
        header=SimpleNamespace(sent_time=sent_s),
        info=SimpleNamespace(received=received_s),
    )


def ledger(kind: str, name: str, **counts: int) -> Any:
    return internal_class("SkerryLedger")(kind=kind, name=name, **counts)


def test_rates_use_the_clock_of_the_node() -> None:
    rates = NodeRates()
    assert rates.at("a", 0.0) == (0.0, 0.0)
    rates.note("a", sent_s=100.0, received_s=0.0, counts=(10, 20))
    assert rates.at("a", 0.0) == (0.0, 0.0)
    rates.note("a", sent_s=102.0, received_s=0.1, counts=(14, 120))
    assert rates.at("a", 0.2) == (2.0, 50.0)


def test_counters_that_are_not_published_any_more_have_rate_0() -> None:
    rates = NodeRates()
    rates.note("a", sent_s=1.0, received_s=1.0, counts=(0, 0))
    rates.note("a", sent_s=2.0, received_s=2.0, counts=(5, 5))
    assert rates.at("a", 3.0) == (5.0, 5.0)
    assert rates.at("a", 60.0) == (0.0, 0.0)
    rates.forget("a")
    assert rates.at("a", 3.0) == (0.0, 0.0)


def test_counters_that_restart_give_no_negative_rate() -> None:
    rates = NodeRates()
    rates.note("a", sent_s=1.0, received_s=1.0, counts=(100, 100))
    rates.note("a", sent_s=2.0, received_s=2.0, counts=(1, 2))
    assert rates.at("a", 2.0) == (0.0, 0.0)


def test_clients_are_shown_with_name_and_state(live_node: Any) -> None:
    with skerry.connect(live_node.place, name="watcher") as space:
        snapshot = NodeWatch(space).snapshot(time())
    assert (snapshot.node, snapshot.state) == ("harbour", "connected")
    (client,) = snapshot.clients
    assert (client.name, client.state) == ("watcher", "connected")


@pytest.mark.slow
def test_ledger_gives_types_with_their_publishers_and_the_rest(live_node: Any) -> None:
    now_s = time()
    with (
        skerry.connect(live_node.place, name="fleet") as fleet,
        skerry.connect(live_node.place) as space,
    ):
        watch = NodeWatch(space)
        fleet.publish(TYPES.Vessel(mmsi=1))
        fleet.flush()
        with space.subscribe("DotsClient") as clients:
            next(event for event in clients if event.object.publishedTypes)
        for sent_s, accepted in ((1.0, 10), (2.0, 15)):
            row = ledger("type", "Vessel", accepted=accepted, due=9, delivered=4, objectCount=3)
            row.unexplained = 5
            watch._note_ledger(messages(row, sent_s=sent_s, received_s=now_s))
        own = ledger("client", str(fleet.client_id), due=2, delivered=2, queuedBytes=7)
        watch._note_ledger(messages(own, sent_s=2.0, received_s=now_s))
        snapshot = watch.snapshot(now_s)
        vessel = next(line for line in snapshot.types if line.name == "Vessel")
        assert (vessel.object_count, vessel.in_per_s) == (3, 5.0)
        assert vessel.publishers == (f"fleet ({fleet.client_id})",)
        assert vessel.ledger == Counts(accepted=15, due=9, delivered=4, unexplained=5)
        assert snapshot.unexplained == 5
        line = next(line for line in snapshot.clients if line.id == fleet.client_id)
        assert (line.queued_bytes, line.ledger) == (7, Counts(due=2, delivered=2))


def test_outdated_ledger_rows_are_removed(live_node: Any) -> None:
    with skerry.connect(live_node.place) as space:
        watch = NodeWatch(space)
        row = ledger("type", "Gone", due=1)
        watch._note_ledger(messages(row, sent_s=1.0, received_s=time() - 60))
        assert "Gone" not in [line.name for line in watch.snapshot(time()).types]


def test_statistics_are_used_without_a_ledger(live_node: Any) -> None:
    statistics = internal_class("DotsStatistics")
    with skerry.connect(f"{live_node.place}?extensions=off") as space:
        watch = NodeWatch(space)
        for sent_s, count in ((1.0, 0), (3.0, 10)):
            row = internal_class("DotsClientStatistics")(
                clientId=space.client_id,
                received=statistics(packages=count),
                sent=statistics(packages=2 * count),
            )
            watch._note_statistics(messages(row, sent_s=sent_s, received_s=time()))
        (line,) = watch.snapshot(time()).clients
        assert (line.in_per_s, line.out_per_s) == (5.0, 10.0)
        watch._note_statistics(messages(row, sent_s=4.0, received_s=time(), operation="remove"))
        (line,) = watch.snapshot(time()).clients
        assert (line.in_per_s, line.out_per_s) == (0.0, 0.0)


@pytest.mark.slow
def test_status_of_the_node_is_shown(live_node: Any) -> None:
    with skerry.connect(live_node.place) as space:
        watch = NodeWatch(space)
        assert watch.wait_ledger(10.0)
        with space.subscribe("DotsDaemonStatus") as received_events:
            assert received_events.get(10) is not None
        snapshot = watch.snapshot(time())
    assert snapshot.uptime_s is not None
    assert snapshot.object_count is not None
    assert snapshot.unexplained == 0


def test_wait_returns_at_once_without_a_ledger(live_node: Any) -> None:
    with skerry.connect(f"{live_node.place}?extensions=off") as space:
        watch = NodeWatch(space)
        assert not watch.wait_ledger(0.01)
        assert watch.snapshot(time()).unexplained is None


def test_objects_removed_during_the_copy_are_skipped() -> None:
    class Live(dict[int, Any]):
        def get(self, key: int, default: Any = None) -> Any:
            return default if key == 2 else super().get(key)

    assert _current(Live({1: "a", 2: "b"})) == {1: "a"}


def test_closed_watch_receives_no_events(live_node: Any) -> None:
    with skerry.connect(live_node.place) as space:
        with NodeWatch(space) as watch:
            assert len(watch.snapshot(time()).clients) == 1
        assert watch.snapshot(time()).clients == ()
