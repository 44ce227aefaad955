"""The alarms: findings that need attention.

Spark takes as long for one row as for a thousand, so all cases are built at once, each in a space
of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from skerry.codec.envelope import GAP
from skerry.spark.transforms import alarms, links, rates, sessions
from skerry.spark.transforms.alarms import AlarmConfig, with_baseline

pytestmark = pytest.mark.slow
Rows = list[dict[str, Any]]

NOON = datetime(2026, 9, 21, 12, tzinfo=UTC)
NOON_NS = 1_789_992_000_000_000_000


def minute(number: int) -> datetime:
    return NOON + timedelta(minutes=number)


def rate(number: int, updates: int, **others: Any) -> dict[str, Any]:
    usual = {"type": "Vessel", "prefix": "/Vessel", "node": 99}
    return {**usual, "minute": minute(number), "updates": updates, **others}


def link(number: int, **others: Any) -> dict[str, Any]:
    usual = {"source": "access", "sender": 7, "node": 99}
    facts = {"updates": 10, "lost": 0, "gaps": 0, "gap_reasons": []}
    return {**usual, **facts, "minute": minute(number), **others}


def life(**others: Any) -> dict[str, Any]:
    usual = {"kind": "client", "node": 99, "sender": 7, "name": "tracker"}
    return {**usual, "day": "2026-09-21", **others}


def counted(**others: Any) -> dict[str, Any]:
    return {"order_ns": NOON_NS, "node": 99, "operation": 2, **others}


def ledger(second: int, conflated: int, **others: Any) -> dict[str, Any]:
    usual = {"node": 99, "operation": 2, "kind": "client", "name": "7"}
    times = {"order_ns": NOON_NS + second, "position": second}
    return {**usual, **times, "conflated": conflated, **others}


CALM_RATES = [rate(n, 100 + n % 3) for n in range(10)]
OTHERS = [link(n, sender=8) for n in range(20)]
SPACES: dict[str, dict[str, Rows]] = {
    "storm": {"rates": [*CALM_RATES, rate(10, 9000), rate(11, 12_000), rate(12, 100)]},
    "two storms": {"rates": [rate(n, 9000 if n in (4, 8) else 100) for n in range(12)]},
    "few minutes": {"rates": [*(rate(n, 100) for n in range(3)), rate(3, 9000)]},
    "few updates": {"rates": [*(rate(n, 2) for n in range(10)), rate(10, 500)]},
    "twice": {"rates": [*(rate(n, 10_000 + n) for n in range(10)), rate(10, 20_000)]},
    "two prefixes": {
        "rates": [
            rate(n, 5000 if n == 10 else 100, prefix=prefix)
            for n in range(11)
            for prefix in ("/a", "/b")
        ]
    },
    "slow": {
        "links": [link(n, latency_p90_ms=900.0 if n == 8 else 2.0) for n in range(9)],
        "sessions": [life()],
    },
    "always slow": {"links": [link(n, latency_p90_ms=2500.0) for n in range(3)]},
    "late at last": {"links": [link(n, latency_p90_ms=999.0) for n in range(9)]},
    "quick": {"links": [link(n, latency_p90_ms=40.0 if n == 8 else 0.1) for n in range(9)]},
    "nagging": {
        "links": [
            link(0, retransmissions=5, datagrams=100),
            link(1, retransmissions=0, datagrams=20),
            link(2, retransmissions=5, datagrams=101, updates=0),
        ]
    },
    "nodes": {
        "links": [link(0, source="link", sender=98, retransmissions=10, datagrams=100)],
        "sessions": [
            life(kind="node", node=98, sender=1, name="quay"),
            life(kind="node", node=99, sender=1, name="crane"),
        ],
    },
    "hardly nagging": {"links": [link(0, retransmissions=4, datagrams=4)]},
    "loss": {"links": [link(0, lost=40, gaps=2, gap_reasons=["queue full"], updates=0, sender=0)]},
    "unknown loss": {"links": [link(0, lost=0, gaps=1, gap_reasons=["2 datagrams were lost"])]},
    "back": {
        "links": [link(0, clock_back_ms=3_600_000.0), link(0, clock_back_ms=150.0, sender=8)],
        "sessions": [life(), life(kind="node", sender=1, name="harbour")],
    },
    "hardly back": {"links": [link(0, clock_back_ms=50.0)]},
    "ahead": {"links": [link(0, sender_ahead_ms=900.0), link(0, sender_ahead_ms=2500.0, sender=8)]},
    "stall": {
        "links": [*OTHERS, *(link(n) for n in range(20) if not 9 <= n < 13)],
        "sessions": [life(ended="connection closed")],
    },
    "stall to the end": {"links": [*OTHERS, *(link(n) for n in range(10))]},
    "went": {
        "links": [*OTHERS, *(link(n) for n in range(10))],
        "sessions": [life(ended="connection closed")],
    },
    "irregular": {"links": [*OTHERS, *(link(n) for n in range(0, 20, 4))]},
    "hardly began": {"links": [*OTHERS, *(link(n) for n in range(4))]},
    "short silence": {"links": [*OTHERS, *(link(n) for n in range(18))]},
    "silent node": {"links": [*OTHERS, *(link(n, sender=1) for n in range(10))]},
    "queues": {
        "statistics": [
            counted(clientId=7, currentQueuedBytes=2 << 20),
            counted(clientId=8, overflowDisconnected=True),
            counted(clientId=9, currentQueuedBytes=1000),
            counted(clientId=10, operation=GAP, currentQueuedBytes=2 << 20),
        ],
        "sessions": [life()],
    },
    "left out": {
        "ledger": [
            *(ledger(*pair) for pair in ((0, 5), (1, 5), (2, 8), (3, 10))),
            ledger(4, 70, kind="type"),
        ]
    },
}


def table(spark: SparkSession, name: str, schema: StructType) -> DataFrame:
    rows = [
        tuple({"space": space, **row}.get(column) for column in schema.names)
        for space, tables in SPACES.items()
        for row in tables.get(name, [])
    ]
    return spark.createDataFrame(rows, schema)


@pytest.fixture(scope="module")
def built(spark: SparkSession) -> dict[str, Rows]:
    """The alarms of all spaces."""
    frame = alarms.build(
        table(spark, "rates", rates.SCHEMA),
        table(spark, "links", links.SCHEMA),
        table(spark, "sessions", sessions.SCHEMA),
        table(spark, "statistics", alarms.STATISTICS),
        table(spark, "ledger", alarms.LEDGER),
    )
    assert frame.schema.names == alarms.SCHEMA.names
    found: dict[str, Rows] = defaultdict(list)
    for row in frame.orderBy("since", "kind", "sender").toArrow().to_pylist():
        found[row["space"]].append(row)
    return found


def spans(rows: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(f"{row['since']:%H:%M}", f"{row['until']:%H:%M}") for row in rows]


def test_storm_of_two_minutes_is_one_alarm(built: dict[str, Rows]) -> None:
    (storm,) = built["storm"]
    assert (storm["kind"], storm["type"], storm["node"]) == ("storm", "Vessel", 99)
    assert storm["sender"] is None
    assert spans([storm]) == [("12:10", "12:12")]
    assert storm["score"] > 100
    assert storm["evidence"] == "12,000 updates in a minute, usually 101 (of 13 minutes)"
    assert storm["day"] == "2026-09-21"


def test_storms_apart_are_two_alarms(built: dict[str, Rows]) -> None:
    assert spans(built["two storms"]) == [("12:04", "12:05"), ("12:08", "12:09")]


@pytest.mark.parametrize("space", ["few minutes", "few updates", "twice"])
def test_busy_and_quiet_minutes_are_not_storms(built: dict[str, Rows], space: str) -> None:
    assert built[space] == []


def test_parts_of_a_type_are_one_type(built: dict[str, Rows]) -> None:
    assert [storm["evidence"][:14] for storm in built["two prefixes"]] == ["10,000 updates"]


def test_sender_that_becomes_slow_is_named(built: dict[str, Rows]) -> None:
    (slow,) = built["slow"]
    assert (slow["kind"], slow["sender"], slow["name"]) == ("slow", 7, "tracker")
    assert "900.0 ms, usually 2.0 ms" in slow["evidence"]


def test_sender_that_is_always_slow_is_named_too(built: dict[str, Rows]) -> None:
    (slow,) = built["always slow"]
    assert (slow["kind"], slow["sender"], slow["score"]) == ("slow", 7, 2.5)
    assert "over 2,500.0 ms, and 1,000 ms is late" in slow["evidence"]
    assert (slow["since"], slow["until"]) == (minute(0), minute(3))
    assert built["late at last"] == []


def test_quick_links_are_not_slow_whatever_they_were(built: dict[str, Rows]) -> None:
    assert built["quick"] == []


def test_retransmissions_are_nagging(built: dict[str, Rows]) -> None:
    (nagging,) = built["nagging"]
    assert (nagging["kind"], nagging["score"]) == ("nagging", 1)
    assert nagging["evidence"] == "5 of 100 datagrams had to be sent again"
    assert built["hardly nagging"] == [], "a few are chance"


def test_a_link_between_nodes_has_the_name_of_the_sending_node(built: dict[str, Rows]) -> None:
    (nagging,) = built["nodes"]
    assert (nagging["kind"], nagging["sender"], nagging["name"]) == ("nagging", 98, "quay")


def test_loss_is_always_an_alarm(built: dict[str, Rows]) -> None:
    (loss,) = built["loss"]
    assert (loss["kind"], loss["score"]) == ("loss", 40)
    assert loss["evidence"] == "40 updates are missing in 2 gaps: queue full"


def test_an_unknown_loss_has_no_number(built: dict[str, Rows]) -> None:
    (loss,) = built["unknown loss"]
    assert (loss["kind"], loss["score"]) == ("loss", 1)
    assert loss["evidence"] == "updates are missing in 1 gaps: 2 datagrams were lost"


def test_clock_that_goes_back_is_the_nodes(built: dict[str, Rows]) -> None:
    (jump,) = built["back"]
    assert (jump["kind"], jump["sender"], jump["name"]) == ("clock", None, "harbour")
    assert "3,600.000 s behind" in jump["evidence"]
    assert built["hardly back"] == []


def test_clock_of_a_sender_may_be_ahead_by_little(built: dict[str, Rows]) -> None:
    (ahead,) = built["ahead"]
    assert (ahead["kind"], ahead["sender"], ahead["score"]) == ("clock", 8, 2.5)


def test_publisher_of_every_minute_that_fell_silent(built: dict[str, Rows]) -> None:
    (stall,) = built["stall"]
    assert (stall["kind"], stall["sender"], stall["name"]) == ("stall", 7, "tracker")
    assert spans([stall]) == [("12:09", "12:13")]
    assert stall["score"] == 4
    assert stall["evidence"] == "silent for 4 minutes after 16 minutes with updates"


def test_a_publisher_that_stays_silent_is_a_stall(built: dict[str, Rows]) -> None:
    assert spans(built["stall to the end"]) == [("12:10", "12:20")]


@pytest.mark.parametrize(
    "space", ["went", "irregular", "hardly began", "short silence", "silent node"]
)
def test_sessions_that_ended_and_irregular_senders_do_not_stall(
    built: dict[str, Rows], space: str
) -> None:
    assert built[space] == []


def test_clients_for_which_much_waits_are_slow(built: dict[str, Rows]) -> None:
    slow, cut = built["queues"]
    assert (slow["kind"], slow["sender"], slow["name"]) == ("slow", 7, "tracker")
    assert slow["score"] == 2
    assert (cut["sender"], cut["score"]) == (8, 1)
    assert cut["evidence"] == "0 bytes waited for this client, and it was cut"


def test_clients_that_miss_updates_are_slow(built: dict[str, Rows]) -> None:
    (slow,) = built["left out"]
    assert (slow["kind"], slow["sender"], slow["score"]) == ("slow", 7, 5)


def test_bounds_can_be_set(spark: SparkSession) -> None:
    found = alarms.build(
        table(spark, "rates", rates.SCHEMA),
        table(spark, "links", links.SCHEMA),
        table(spark, "sessions", sessions.SCHEMA),
        config=AlarmConfig(minutes_min=3, storm_updates_min=400),
    )
    spaces = {row["space"] for row in found.where("kind = 'storm'").toArrow().to_pylist()}
    assert {"few minutes", "few updates"} <= spaces
    assert "queues" not in spaces


# -- the baseline


def scores(spark: SparkSession, values: list[float], unit: float = 1.0) -> list[float]:
    rows = [("a", number, value) for number, value in enumerate(map(float, values))]
    frame = spark.createDataFrame(rows, "name string, number int, x double")
    scored = with_baseline(frame, F.col("x"), by=("name",), unit=unit).orderBy("number")
    return [row.score for row in scored.collect()]


def test_one_storm_does_not_hide_itself(spark: SparkSession) -> None:
    found = scores(spark, [100, 110, 90, 105, 95, 9000])
    assert found[-1] > 500
    assert max(found[:-1]) < 2


def test_steady_series_have_a_smallest_distance(spark: SparkSession) -> None:
    found = scores(spark, [100, 100, 100, 100, 101])
    assert found[-1] < 1, "a twentieth of the median is not unusual"
    assert scores(spark, [0, 0, 0, 0, 1], unit=10.0)[-1] < 1


def test_groups_and_missing_values_count_for_themselves(spark: SparkSession) -> None:
    rows = [("a", 1.0), ("a", 3.0), ("a", None), ("b", 100.0)]
    frame = spark.createDataFrame(rows, "name string, x double")
    scored = with_baseline(frame, F.col("x"), by=("name",), unit=1.0).collect()
    assert {(row.name, row.usual, row["count"]) for row in scored} == {("a", 2, 2), ("b", 100, 1)}
    assert [row.score for row in scored if row.x is None] == [None]
