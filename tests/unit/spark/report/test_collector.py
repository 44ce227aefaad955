"""Figures, gathered from tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skerry.codec.envelope import SNAPSHOT
from skerry.spark.lake.data_files import TableSize
from skerry.spark.report.collector import _sessions, collect_findings
from skerry.spark.report.findings import Findings
from skerry.spark.transforms import alarms, links, rates, sessions
from skerry.spark.transforms.events import EVENTS

pytestmark = pytest.mark.slow
NOON = datetime(2026, 9, 21, 12, tzinfo=UTC)
NOON_NS = 1_789_992_000_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Tables that are made by hand."""

    tables: dict[str, DataFrame] = field(default_factory=dict)

    def names(self) -> Sequence[str]:
        return sorted(self.tables)

    def frame(self, name: str) -> DataFrame:
        return self.tables[name]


def event(second: float, **others: Any) -> dict[str, Any]:
    ns = NOON_NS + round(second * 1e9)
    usual = {"space": "bay", "subject": "/Vessel/1", "type": "Vessel", "operation": 2}
    facts = {"sender": 7, "node": 99, "source": "access", "payload_bytes": 10}
    return {**usual, **facts, "time_ns": ns, "order_ns": ns, "sent_ns": ns - 4_000_000, **others}


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Frames:
    def made(schema: StructType, rows: Sequence[dict[str, Any]]) -> DataFrame:
        cells = [tuple(row.get(name) for name in schema.names) for row in rows]
        return spark.createDataFrame(cells, schema)

    said = made(
        EVENTS,
        [
            event(0, operation=SNAPSHOT),
            *(event(n) for n in range(3)),
            event(1, type="Buoy", subject="/Buoy/9", sender=8),
            event(1.5, type="Buoy", subject="/Buoy/9", sender=9, sent_ns=NOON_NS - 10**9),
            event(2, type="DotsClient", subject="/DotsClient/7", sender=1, source="internal"),
        ],
    ).cache()
    notified = {"space": "bay", "node": 5, "carrier": "distributor", "senderNumber": 5}
    answered = {**notified, "roundTrips": 1, "roundTripTime": 0.006}
    linked = {"space": "bay", "node": 99, "carrier": "link", "datagrams": 50, "bytes": 1000}
    to_quay = {**linked, "senderNumber": 99, "receiverNumber": 98, "roundTrips": 1}
    to_quay["roundTripTime"] = 0.004
    from_quay = {**linked, "senderNumber": 98, "receiverNumber": 99}
    node = {"order_ns": NOON_NS, "space": "bay", "node": 99, "carrier": "link"}
    client = {"order_ns": NOON_NS, "space": "bay", "node": 99, "operation": 2}
    travelled = links.build(
        said,
        made(
            links.LINKS,
            [
                {**answered, "order_ns": NOON_NS, "datagrams": 8, "retransmissions": 1},
                {**answered, "order_ns": NOON_NS + 10**9, "datagrams": 4, "retransmissions": 2},
                {**to_quay, "order_ns": NOON_NS, "lag": 0.5},
                {**to_quay, "order_ns": NOON_NS + 10**9, "retransmissions": 3},
                {**from_quay, "order_ns": NOON_NS},
            ],
        ),
    ).cache()
    clients = made(
        sessions.CLIENTS,
        [
            {**client, "id": 7, "name": "tracker", "connectionState": "connected"},
            {**client, "id": 8, "name": "buoys", "connectionState": "closed"},
            {**client, "id": 9, "name": "skerry-record", "connectionState": "connected"},
        ],
    )
    senders = made(sessions.SENDERS, [{**node, "senderNumber": 98, "application": "quay"}])
    alarm = {"kind": "storm", "space": "bay", "node": 99, "score": 9.0, "evidence": "much"}
    times = {"since": NOON, "until": NOON + timedelta(minutes=1), "day": "2026-09-21"}
    return Frames(
        tables={
            "updates/Vessel": said,
            "latest/Vessel": spark.range(2).toDF("mmsi"),
            "latest/DotsClient": spark.range(5).toDF("id"),
            "rates": rates.build(said),
            "links": travelled,
            "sessions": sessions.build(travelled, clients, senders=senders),
            "alarms": made(
                alarms.SCHEMA,
                [
                    {**alarm, **times, "type": "Vessel"},
                    {**alarm, **times, "type": "DotsClient"},
                    {**alarm, **times, "score": 20.0, "sender": 7, "name": "tracker"},
                    {**alarm, **times, "score": 30.0, "sender": 9, "name": "skerry-record"},
                    {**alarm, **times, "score": 1.0, "sender": 7},
                    {**alarm, **times, "score": 0.5},
                ],
            ),
        }
    )


SIZES = [
    TableSize(name="rates", rows=3, files=1, byte_count=99),
    TableSize(name="latest/DotsClient", rows=5, files=1, byte_count=9),
]


@pytest.fixture(scope="module")
def found(tables: Frames) -> Findings:
    return collect_findings(tables, SIZES)


def test_the_summary_counts_updates(found: Findings) -> None:
    summary = found.summary
    assert summary is not None
    assert (summary.spaces, summary.updates, summary.byte_count) == (("bay",), 5, 50)
    assert (summary.since, summary.until) == (NOON, NOON + timedelta(seconds=2))
    assert (summary.nodes, summary.clients, summary.lost) == (2, 2, 0)
    assert (summary.types, summary.objects) == (2, 2), "the node's own are left out"
    assert summary.latency_ms == pytest.approx(4.0)
    assert (summary.gaps, summary.datagrams, summary.retransmissions) == (0, 12, 3)
    assert summary.recovery_ms == pytest.approx(6.0)


def test_short_recording_is_seen_second_by_second(found: Findings) -> None:
    assert found.steps is not None
    assert (found.steps.seconds, found.steps.count) == (1, 3)
    assert [(line.name, line.values) for line in found.rates] == [
        ("Vessel", (1, 1, 1)),
        ("Buoy", (0, 2, 0)),
    ]
    assert found.latency is not None
    assert found.latency.is_exact
    assert found.latency.p50 == pytest.approx((4.0, 4.0, 4.0))
    assert found.lost == (0, 0, 0)


def test_nodes_are_first_and_others_are_sorted_by_updates(found: Findings) -> None:
    assert [(session.kind, session.name, session.updates) for session in found.sessions] == [
        ("node", "node 99", 6),
        ("node", "quay", 0),
        ("client", "tracker", 3),
        ("client", "buoys", 1),
    ]


def test_a_silent_client_is_connected_until_its_node_reports_an_end(spark: SparkSession) -> None:
    def session(kind: str, sender: int, last: int, state: str | None = None) -> tuple[Any, ...]:
        row = {"kind": kind, "space": "bay", "node": 99, "sender": sender, "updates": 1}
        times = {"first": NOON, "last": NOON + timedelta(seconds=last), "day": "2026-09-21"}
        ended = "connection closed" if state == "closed" else None
        found = {**row, **times, "state": state, "ended": ended, "published": []}
        return tuple(found.get(name) for name in sessions.SCHEMA.names)

    rows = [
        session("node", 1, 60),
        session("client", 2, 5, "connected"),
        session("client", 3, 6, "closed"),
        session("client", 4, 7),
        session("multicast", 5, 8),
    ]
    frame = spark.createDataFrame(rows, sessions.SCHEMA)
    found = _sessions(Frames(tables={"sessions": frame}))
    until = {session.name: (session.until - NOON).total_seconds() for session in found}
    assert until == {
        "node 99": 60,
        "client 2": 60,
        "client 3": 6,
        "client 4": 60,
        "multicast 5": 8,
    }


def test_own_types_and_tools_are_shown_on_request(tables: Frames) -> None:
    whole = collect_findings(tables, SIZES, has_own=True)
    assert whole.summary is not None
    assert (whole.summary.updates, whole.summary.clients, whole.summary.types) == (6, 3, 2)
    assert "DotsClient" in [line.name for line in whole.rates]
    assert "skerry-record" in [session.name for session in whole.sessions]
    assert [alarm.who for alarm in whole.alarms][:1] == ["skerry-record"]
    assert "type DotsClient" in [alarm.who for alarm in whole.alarms]
    assert [table.name for table in whole.tables] == ["rates", "latest/DotsClient"]


def test_programs_are_judged_by_their_delay_alone(tables: Frames, found: Findings) -> None:
    assert [(delay.who, delay.slow_minutes) for delay in found.delays] == [
        ("tracker", 0),
        ("buoys", 0),
    ]
    assert found.delays[0].p90_ms == pytest.approx(4.0)
    strict = collect_findings(tables, slow_ms=3.0, has_own=True)
    assert strict.slow_ms == 3.0
    assert [(d.who, d.slow_minutes, d.minutes) for d in strict.delays] == [
        ("skerry-record", 1, 1),
        ("tracker", 1, 1),
        ("buoys", 1, 1),
    ]


def test_links_between_nodes_are_summed_and_named(found: Findings) -> None:
    there, back = found.node_links
    assert (there.sender, there.receiver) == ("node 99", "quay")
    assert (there.datagrams, there.byte_count, there.retransmissions) == (100, 2000, 3)
    assert there.round_trip_ms == pytest.approx(4.0)
    assert there.lag_ms == pytest.approx(500.0)
    assert (back.sender, back.receiver, back.datagrams) == ("quay", "node 99", 50)
    assert (back.retransmissions, back.round_trip_ms, back.lag_ms) == (None, None, None)


def test_alarms_have_the_name_of_their_subject(found: Findings) -> None:
    assert [alarm.who for alarm in found.alarms] == [
        "tracker",
        "type Vessel",
        "client 7",
        "node 99",
    ]


def test_subjects_and_sizes_are_collected(found: Findings) -> None:
    first, *_ = found.subjects
    assert (first.name, first.updates) == ("/Vessel/1", 3)
    assert not found.are_prefixes
    assert [(table.name, table.byte_count) for table in found.tables] == [("rates", 99)]


def test_without_tables_there_are_no_findings() -> None:
    assert collect_findings(Frames()).summary is None
