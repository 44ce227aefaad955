"""What gap rows say."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from skerry.recording.gaps import Gap, gap_update
from skerry.spark.transforms.gap_columns import missing

pytestmark = pytest.mark.slow


def test_count_and_reason_are_read_and_damage_stops_nobody(spark: SparkSession) -> None:
    whole = gap_update(Gap(count=3, reason="queue full"), space="local").payload
    endless = gap_update(Gap(count=2**64 - 1, reason="who knows"), space="local").payload
    payloads = [(1, bytearray(whole)), (2, bytearray(b"\xff")), (3, bytearray(endless))]
    frame = spark.createDataFrame(payloads, "number int, payload binary")
    rows = frame.select("number", missing(F.col("payload")).alias("gap")).orderBy("number")
    found = [(row.gap.missing, row.gap.reason) for row in rows.collect()]
    assert found[0] == (3, "queue full")
    assert found[1][0] == 0
    assert "damaged" in found[1][1]
    assert found[2] == (2**63 - 1, "who knows")
