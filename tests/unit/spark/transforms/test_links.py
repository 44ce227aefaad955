"""Latency, loss and bytes between senders and nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from skerry.codec.envelope import GAP, SNAPSHOT
from skerry.recording.gaps import Gap, gap_update
from skerry.spark.transforms import links
from skerry.spark.transforms.events import EVENTS

pytestmark = pytest.mark.slow
Rows = list[dict[str, Any]]

NOON_NS = 1_789_992_000_000_000_000
GROUP = 4711
"""A program of a multicast group, which is its own node."""


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
    multicast = {"source": "distributor", "sender": GROUP, "node": GROUP}
    spaces["repaired"] = [
        event(0, **multicast),
        event(50, **{**multicast, "source": "internal"}, type="SkerryLink"),
        event(51, sender=1, source="internal", type="SkerryLink"),
        {**gap(0, "2 datagrams were lost"), "sender": GROUP, "node": GROUP},
    ]
    spaces["round trips"] = [event(0, sender=1)]
    spaces["two recorders"] = [event(0, **multicast)]

    def notified(at_s: float, **others: Any) -> dict[str, Any]:
        usual = {"node": GROUP, "carrier": "distributor", "senderNumber": GROUP, "datagrams": 10}
        return {**usual, "order_ns": NOON_NS + round(at_s * 1e9), **others}

    reports = {
        "repaired": [
            notified(10, retransmissions=3, roundTrips=2, roundTripTime=0.001),
            notified(20, retransmissions=0, roundTrips=0),
            notified(30, retransmissions=4, roundTrips=6, roundTripTime=0.005),
            notified(65, retransmissions=5, roundTrips=0),
            notified(66, node=99, retransmissions=1),
            notified(67, carrier=None, retransmissions=1),
            notified(68, senderNumber=None, retransmissions=1),
        ],
        "two recorders": [
            notified(10, receiver="a:1", retransmissions=3, roundTrips=1, roundTripTime=0.001),
            notified(11, receiver="b:1", datagrams=9, retransmissions=4, roundTrips=0),
            notified(20, receiver="a:1", retransmissions=2, roundTrips=0),
            notified(21, receiver="b:1", datagrams=9, roundTrips=1, roundTripTime=0.003),
        ],
        "round trips": [
            notified(
                30,
                carrier="access",
                senderNumber=7,
                node=99,
                datagrams=None,
                roundTrips=1,
                roundTripTime=0.25,
            )
        ],
    }
    # Nodes 1 and 2 are recorded, and node 3 is not.
    between = {"carrier": "link", "roundTrips": 0}
    reports["system"] = [
        notified(10, node=2, **between | {"senderNumber": 1, "receiverNumber": 2, "bytes": 900}),
        notified(20, node=2, **between | {"senderNumber": 1, "receiverNumber": 2, "bytes": 800}),
        notified(
            20,
            node=1,
            **between | {"senderNumber": 1, "receiverNumber": 2, "datagrams": 22, "bytes": 2200},
            retransmissions=2,
            lag=0.75,
        ),
        notified(10, node=1, **between | {"senderNumber": 3, "receiverNumber": 1, "bytes": 300}),
        notified(
            10,
            node=1,
            **{**between, "roundTrips": 1},
            senderNumber=1,
            receiverNumber=3,
            roundTripTime=0.002,
        ),
    ]
    spaces["system"] = [event(0, node=1, sender=1)]
    table = links.build(frame(EVENTS, spaces), frame(links.LINKS, reports))
    assert table.schema.names == links.SCHEMA.names
    return by_space(table)


def test_latency_has_exact_quantiles(built: dict[str, Rows]) -> None:
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


def test_figures_that_were_not_recorded_are_null(built: dict[str, Rows]) -> None:
    (row,) = built["unknown"]
    unknown = ("latency_p50_ms", "datagrams", "retransmissions", "round_trip_ms", "bytes")
    assert [row[name] for name in (*unknown, "clock_back_ms")] == [None] * 6


def test_gaps_are_counted_with_missing_updates_and_reasons(built: dict[str, Rows]) -> None:
    (lossy,) = [row for row in built["gaps"] if row["source"] == "internal"]
    assert (lossy["updates"], lossy["lost"], lossy["gaps"]) == (0, 42, 3)
    assert lossy["gap_reasons"] == ["damaged", "queue full"]
    (calm,) = [row for row in built["gaps"] if row["source"] == "access"]
    assert (calm["updates"], calm["lost"], calm["gaps"]) == (1, 0, 0)
    assert calm["gap_reasons"] == []


def test_retransmissions_are_summed_by_the_minute(built: dict[str, Rows]) -> None:
    first, second = sorted(
        (row for row in built["repaired"] if row["source"] == "distributor" and row["node"] != 99),
        key=lambda row: row["minute"],
    )
    assert (first["sender"], first["node"]) == (GROUP, GROUP)
    assert (first["updates"], first["types"]) == (1, ["Vessel"]), "notes of a link are no updates"
    assert (first["datagrams"], first["retransmissions"]) == (30, 7)
    assert first["round_trip_ms"] == pytest.approx((2 * 1 + 6 * 5) / 8)
    assert (first["gaps"], first["gap_reasons"]) == (1, ["2 datagrams were lost"])
    assert (second["updates"], second["retransmissions"]) == (0, 5)
    assert second["round_trip_ms"] is None


def test_statistics_of_two_recorders_count_once(built: dict[str, Rows]) -> None:
    (row,) = built["two recorders"]
    assert (row["datagrams"], row["retransmissions"], row["updates"]) == (20, 5, 1)
    assert row["round_trip_ms"] == pytest.approx(2)
    assert (f"{row['first']:%S}", f"{row['last']:%S}") == ("00", "21")


def test_statistics_of_a_node_are_in_rows_beside_its_updates(built: dict[str, Rows]) -> None:
    (row,) = [row for row in built["repaired"] if (row["sender"], row["node"]) == (GROUP, 99)]
    assert (row["source"], row["retransmissions"]) == ("distributor", 1)
    (own,) = [row for row in built["repaired"] if row["sender"] == 1]
    assert (own["updates"], own["types"]) == (1, ["SkerryLink"]), "what a node says is an update"


def test_both_ends_of_a_link_between_nodes_are_one_row(built: dict[str, Rows]) -> None:
    rows = {(row["sender"], row["node"]): row for row in built["system"] if row["source"] == "link"}
    assert rows.keys() == {(1, 2), (3, 1), (1, 3)}
    row = rows[1, 2]
    # The sender has counted more than has been received.
    assert (row["datagrams"], row["bytes"], row["retransmissions"]) == (22, 2200, 2)
    assert (row["updates"], row["lost"], row["lag_ms"]) == (0, 0, pytest.approx(750))
    assert (f"{row['first']:%S}", f"{row['last']:%S}") == ("10", "20")
    unknown = rows[3, 1]
    assert (unknown["datagrams"], unknown["bytes"]) == (10, 300)
    assert [unknown[name] for name in ("retransmissions", "round_trip_ms", "lag_ms")] == [None] * 3
    assert rows[1, 3]["round_trip_ms"] == pytest.approx(2)


def test_a_round_trip_is_that_of_the_client(built: dict[str, Rows]) -> None:
    (row,) = [row for row in built["round trips"] if row["sender"] == 7]
    assert (row["source"], row["node"], row["updates"]) == ("access", 99, 0)
    assert (row["retransmissions"], row["datagrams"]) == (None, None)
    assert row["round_trip_ms"] == pytest.approx(250)


def test_clocks_are_compared(built: dict[str, Rows]) -> None:
    (row,) = built["clocks"]
    assert row["clock_back_ms"] == pytest.approx(30_000)
    assert row["sender_ahead_ms"] == pytest.approx(1500)


def test_node_does_not_send_to_itself(built: dict[str, Rows]) -> None:
    (row,) = built["own"]
    assert (row["updates"], row["latency_max_ms"]) == (1, None)


def test_snapshot_rows_have_no_latency(built: dict[str, Rows]) -> None:
    assert built["before"] == []


def test_gap_columns_have_count_and_reason_also_of_damaged_rows(spark: SparkSession) -> None:
    whole = gap_update(Gap(count=3, reason="queue full"), space="local").payload
    endless = gap_update(Gap(count=2**64 - 1, reason="unknown"), space="local").payload
    payloads = [(1, bytearray(whole)), (2, bytearray(b"\xff")), (3, bytearray(endless))]
    frame = spark.createDataFrame(payloads, "number int, payload binary")
    gap = links.gap_columns(F.col("payload")).alias("gap")
    rows = frame.select("number", gap).orderBy("number")
    found = [(row.gap.missing, row.gap.reason) for row in rows.collect()]
    assert found[0] == (3, "queue full")
    assert found[1][0] == 0
    assert "damaged" in found[1][1]
    assert found[2] == (2**63 - 1, "unknown")
