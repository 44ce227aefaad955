from __future__ import annotations

from typing import Any

import pytest

from skerry.spark.lake.buckets import (
    DAY_NS,
    HOUR_NS,
    MINUTE_NS,
    bucket_start_ns,
    bucket_text,
    day_column,
    day_text,
    floor_column,
    hour_column,
    hour_text,
    timestamp_column,
)

AT_NS = 1_794_751_387_123_456_789
"""2026-11-15T14:03:07.123456789Z"""
FIRST_NS = -(2**63)
"""The earliest instant that a row can have."""


def test_bucket_begins_at_a_multiple_of_its_length() -> None:
    assert bucket_start_ns(AT_NS, HOUR_NS) == 1_794_751_200_000_000_000
    assert bucket_start_ns(-1, MINUTE_NS) == -MINUTE_NS
    assert bucket_text(AT_NS, HOUR_NS) == "2026-11-15T1400"
    assert bucket_text(AT_NS, MINUTE_NS) == bucket_text(AT_NS) == "2026-11-15T1403"
    assert (day_text(AT_NS), hour_text(AT_NS)) == ("2026-11-15", "2026-11-15T14")
    assert (day_text(-1), hour_text(-1), bucket_text(-1)) == (
        "1969-12-31",
        "1969-12-31T23",
        "1969-12-31T2359",
    )


@pytest.mark.slow
def test_columns_name_parts_in_utc_in_any_time_zone_of_the_session(spark: Any) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    frame = spark.createDataFrame([(AT_NS,), (-1,), (FIRST_NS,), (None,)], "ns bigint")
    ns = F.col("ns")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        rows = frame.select(
            day_column(ns),
            hour_column(ns),
            floor_column(ns, DAY_NS),
            F.unix_micros(timestamp_column(ns)),
        ).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert [tuple(row) for row in rows] == [
        (
            "2026-11-15",
            "2026-11-15T14",
            AT_NS // DAY_NS * DAY_NS,
            AT_NS // 1000,
        ),
        ("1969-12-31", "1969-12-31T23", -DAY_NS, -1),
        # The day in which it lies begins before there are numbers.
        (
            "1677-09-22",
            "1677-09-22T00",
            -(-FIRST_NS // DAY_NS) * DAY_NS,
            -(-FIRST_NS // 1000),
        ),
        (None,) * 4,
    ]
