from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from skerry.spark.catalog import RAW_TABLE
from skerry.spark.transforms.raw import foldable, raw_rows


@pytest.mark.slow
def test_gaps_and_undescribed_rows_are_kept(spark: Any) -> None:
    names = [column.name for column in RAW_TABLE if column.name not in ("order_ns", "day")]
    facts = [("Known", 1, 2), ("Strange", 2, 2), ("Strange", 3, 2), ("", 0, 4)]
    own = {"time_ns": 86_400 * 10**9, "space": "s", "subject": "/x", "source": "access"}
    rows = [
        {**dict.fromkeys(names, 0), **own, "key": b"", "payload": b"p", "type": t}
        | {
            "fingerprint": f,
            "operation": o,
        }
        for t, f, o in facts
    ]
    frame = spark.createDataFrame([tuple(row[n] for n in names) for row in rows], names)
    undescribed = spark.createDataFrame([("Strange", 2)], "type string, fingerprint bigint")
    found = raw_rows(frame, undescribed)
    assert found.columns == [column.name for column in RAW_TABLE]
    kept = sorted((row.type, row.operation, row.day, row.order_ns) for row in found.collect())
    assert kept == [
        ("", 4, "1970-01-02", own["time_ns"]),
        ("Strange", 2, "1970-01-02", own["time_ns"]),
    ]


@pytest.mark.slow
def test_names_of_strangers_are_made_such_that_folders_can_have_them(spark: Any) -> None:
    names = ["Plain.T-1_x", "x" * 200, "x" * 201, "a\0/'b", "\u00fc" * 61, ""]
    frame = spark.createDataFrame([(name,) for name in names], "type string")
    made = [row.type for row in frame.select(foldable(F.col("type")).alias("type")).collect()]
    assert made == ["Plain.T-1_x", "x" * 200, "x" * 60, "a\ufffd/'b", "\u00fc" * 60, ""]
