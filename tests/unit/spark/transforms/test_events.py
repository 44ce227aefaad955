"""Rows of several tables as events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from skerry.codec.envelope import GAP
from skerry.spark.lake.buckets import timestamp_column
from skerry.spark.transforms.events import (
    EVENTS,
    day_of,
    events,
    hour_of,
    latency_ms,
    minute_of,
    with_columns,
)

pytestmark = pytest.mark.slow
NOW_NS = 1_789_992_060_000_000_000


def test_updates_and_raw_become_one_frame(spark: SparkSession) -> None:
    updates = spark.createDataFrame(
        [(1, 5, 12, "Vessel", "mine")],
        "time_ns long, order_ns long, payload_bytes int, type string, payload string",
    )
    raw = spark.createDataFrame(
        [(2, "Secret", 2, bytearray(b"abc")), (3, "", GAP, bytearray(b"gap"))],
        "time_ns long, type string, operation byte, payload binary",
    )
    rows = sorted(events([updates], raw).collect())
    assert events([updates], raw).schema == EVENTS
    assert [row.time_ns for row in rows] == [1, 2, 3]
    assert [row.order_ns for row in rows] == [5, 2, 3], "what has no order has its time"
    assert [row.payload_bytes for row in rows] == [12, 3, 3]
    assert [row.payload for row in rows] == [None, None, b"gap"], "a field is not a payload"


def test_events_of_no_table_are_a_fault_of_the_caller() -> None:
    with pytest.raises(AssertionError):
        events([])


def test_times_are_cut_down_to_whole_numbers(spark: SparkSession) -> None:
    expected = {
        1_789_992_059_999_999_999: "12:00:59.999999 12:00 2026-09-21T12 2026-09-21",
        1_789_992_060_000_000_000: "12:01:00.000000 12:01 2026-09-21T12 2026-09-21",
        -1: "23:59:59.999999 23:59 1969-12-31T23 1969-12-31",
    }
    number = F.col("number")
    minute = minute_of(number)
    words = F.concat_ws(
        " ",
        F.date_format(timestamp_column(number), "HH:mm:ss.SSSSSS"),
        F.date_format(minute, "HH:mm"),
        hour_of(minute),
        day_of(minute),
    )
    numbers = spark.createDataFrame([(ns,) for ns in expected], "number long")
    found = {
        row.number: row.words for row in numbers.select("number", words.alias("words")).collect()
    }
    assert found == expected


def test_columns_that_are_missing_are_null(spark: SparkSession) -> None:
    frame = spark.range(1).select(F.lit(datetime(2026, 1, 1, tzinfo=UTC)).alias("other"))
    row: Any = with_columns(frame, EVENTS).first()
    assert row.asDict() == dict.fromkeys(EVENTS.names)


def test_a_sending_time_centuries_ago_gives_no_latency(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [(1, NOW_NS, NOW_NS - 2_000_000), (2, NOW_NS, -(2**63)), (3, -(2**63), NOW_NS)],
        "sender long, time_ns long, sent_ns long",
    ).withColumn("source", F.lit("distributor"))
    found = {
        row.sender: row.ms for row in rows.select("sender", latency_ms().alias("ms")).collect()
    }
    assert found == {1: 2.0, 2: None, 3: None}
