from __future__ import annotations

from typing import Any

import pytest

from skerry.spark.catalog import RAW_TABLE
from skerry.spark.transforms.raw import raw_rows


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
