"""Latency, loss and bytes between senders and nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame

from skerry.recording.gaps import Gap, gap_update
from skerry.spark.transforms import links
from skerry.spark.transforms.events import EVENTS, GAP, SNAPSHOT

pytestmark = pytest.mark.slow
Rows = list[dict[str, Any]]

NOON_NS = 1_789_992_000_000_000_000


@pytest.fixture(scope="module")
def built(
    frame: Callable[..., DataFrame],
    by_space: Callable[[DataFrame], dict[str, Rows]],
    event: Callable[..., dict[str, Any]],
) -> dict[str, Rows]:
    def took(at_s: float, milliseconds: float) -> dict[str, Any]:
        return event(at_s, sent_ns=NOON_NS + round(at_s * 1e9) - round(milliseconds * 1e6))

    def gap(count: int, reason: str) -> dict[str, Any]:
        row = gap_update(Gap(count=count, reason=reason), space="gaps")
        return event(9, operation=GAP, payload=row.payload, type="", source="internal")

    spaces = {
        "latency": [took(n / 10, n + 1) for n in range(100)],
        "unknown": [event(0, payload_bytes=None)],
        "gaps": [event(0), gap(40, "queue full"), gap(2, "queue full"), gap(0, "damaged")],
        "clocks": [event(0), event(1, order_ns=NOON_NS + 31_000_000_000), took(2, -1500)],
        "own": [event(0, sender=1, sent_ns=NOON_NS - 5)],
        "before": [event(0, operation=SNAPSHOT)],
    }
    table = links.build(frame(EVENTS, spaces))
    assert table.schema.names == links.SCHEMA.names
    return by_space(table)


def test_latency_is_told_by_exact_quantiles(built: dict[str, Rows]) -> None:
    (row,) = built["latency"]
    assert row["updates"] == 100
    assert row["latency_p50_ms"] == pytest.approx(50.5)
    assert row["latency_p90_ms"] == pytest.approx(90.1)
    assert row["latency_p99_ms"] == pytest.approx(99.01)
    assert row["latency_max_ms"] == pytest.approx(100)
    assert (row["bytes"], row["types"], row["hour"]) == (1000, ["Vessel"], "2026-09-21T12")
    assert (f"{row['first']:%H:%M:%S.%f}", f"{row['last']:%H:%M:%S.%f}") == (
        "12:00:00.000000",
        "12:00:09.900000",
    )


def test_what_is_not_recorded_is_null(built: dict[str, Rows]) -> None:
    (row,) = built["unknown"]
    unknown = ("latency_p50_ms", "retransmissions", "round_trip_ms", "bytes", "clock_back_ms")
    assert [row[name] for name in unknown] == [None] * 5


def test_gaps_are_counted_with_what_is_missing_and_why(built: dict[str, Rows]) -> None:
    (lossy,) = [row for row in built["gaps"] if row["source"] == "internal"]
    assert (lossy["updates"], lossy["lost"], lossy["gaps"]) == (0, 42, 3)
    assert lossy["gap_reasons"] == ["damaged", "queue full"]
    (calm,) = [row for row in built["gaps"] if row["source"] == "access"]
    assert (calm["updates"], calm["lost"], calm["gaps"]) == (1, 0, 0)
    assert calm["gap_reasons"] == []


def test_clocks_are_compared(built: dict[str, Rows]) -> None:
    (row,) = built["clocks"]
    assert row["clock_back_ms"] == pytest.approx(30_000)
    assert row["sender_ahead_ms"] == pytest.approx(1500)


def test_node_does_not_send_to_itself(built: dict[str, Rows]) -> None:
    (row,) = built["own"]
    assert (row["updates"], row["latency_max_ms"]) == (1, None)


def test_what_was_there_before_did_not_travel(built: dict[str, Rows]) -> None:
    assert built["before"] == []
