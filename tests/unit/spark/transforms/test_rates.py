"""Updates and bytes by type, subject, node and minute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from skerry.codec.envelope import GAP, REMOVE, SNAPSHOT
from skerry.spark.transforms import rates
from skerry.spark.transforms.events import EVENTS
from skerry.spark.transforms.rates import PREFIX_CHARS_MAX, subject_prefix

pytestmark = pytest.mark.slow
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def built(
    frame: Callable[..., DataFrame],
    by_space: Callable[[DataFrame], dict[str, Rows]],
    event: Callable[..., dict[str, Any]],
) -> dict[str, Rows]:
    spaces = {
        "busy": [
            event(0, payload_bytes=4),
            event(59, payload_bytes=5, sender=8),
            event(60),
            event(1, type="Buoy", subject="/Buoy/3"),
            event(2, node=98),
            event(3, operation=REMOVE, payload_bytes=1),
        ],
        "quiet": [event(0, operation=SNAPSHOT), event(0, operation=GAP)],
    }
    table = rates.build(frame(EVENTS, spaces))
    assert table.schema.names == rates.SCHEMA.names
    return by_space(table)


def test_minutes_types_and_nodes_are_counted_apart(built: dict[str, Rows]) -> None:
    rows = {(f"{row['minute']:%H:%M}", row["type"], row["node"]): row for row in built["busy"]}
    assert len(rows) == 4
    busy = rows["12:00", "Vessel", 99]
    assert (busy["updates"], busy["removes"], busy["bytes"], busy["senders"]) == (3, 1, 10, 2)
    assert (busy["prefix"], busy["hour"]) == ("/Vessel", "2026-09-21T12")
    assert rows["12:01", "Vessel", 99]["updates"] == 1
    assert rows["12:00", "Buoy", 99]["prefix"] == "/Buoy"


def test_snapshot_and_gap_rows_are_not_counted(built: dict[str, Rows]) -> None:
    assert built["quiet"] == []


def test_prefix_is_the_first_level_of_a_subject(spark: SparkSession) -> None:
    expected = {
        "/prices/ERIC-B": "/prices",
        "/prices": "/prices",
        "/": "/",
        "": "",
        "prices/a": "prices",
        "/" + "x" * 1000: "/" + "x" * (PREFIX_CHARS_MAX - 1),
    }
    subjects = spark.createDataFrame([(subject,) for subject in expected], "subject string")
    rows = subjects.select("subject", subject_prefix(F.col("subject")).alias("prefix")).collect()
    assert {row.subject: row.prefix for row in rows} == expected
