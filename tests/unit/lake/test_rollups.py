from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import skerry
from skerry.lake.retention import rolled_up, rollup_schema
from skerry.spark.lake.delta import Table
from skerry.spark.lake.plans import TypeState
from skerry.spark.lake.schema import typed_schema
from skerry.spark.lake.store import TableStore
from tests.unit.lake.lakes import VESSEL, put, update


@pytest.mark.slow
def test_each_object_has_its_figures_by_the_minute(tmp_path: Path) -> None:
    said = [
        update(1, 1, 1, name="Maren", speed=2.0),
        update(30, 1, speed=4.0),
        update(40, 1, name="Maren II"),
        update(50, 1, 3),
        update(55, 1, 5, speed=99.0),
        update(61, 1, speed=8.0),
        update(10, 2, 1, marks=[1]),
    ]
    put(tmp_path, "updates", VESSEL, said)
    contents = Table(TableStore(tmp_path), "updates/Vessel").contents()
    assert contents is not None
    tables = list(rolled_up(TableStore(tmp_path), VESSEL, contents))
    rows = pa.concat_tables(tables).to_pylist()
    assert [(row["minute"].minute, row["mmsi"], row["update_count"]) for row in rows] == [
        (0, 1, 3),
        (0, 2, 1),
        (1, 1, 1),
    ]
    assert rows[0]["speed"] == {"count": 2, "last": 4.0, "mean": 3.0, "min": 2.0, "max": 4.0}
    assert rows[0]["name"] == {"count": 2, "last": "Maren II"}
    nothing = {"count": 0, "last": None, "mean": None, "min": None, "max": None}
    assert (rows[1]["speed"], rows[2]["hour"]) == (nothing, "2026-11-15T14")
    assert "marks" not in rows[0], "only single values have figures"


def test_fields_with_the_names_of_figures_are_renamed() -> None:
    text = "struct T { 1: [key] uint32 minute; 2: int32 update_count; }"
    struct = skerry.define_types(text).T.descriptor
    state = TypeState(table="T", schema=typed_schema([struct]), is_cached=True)
    names = rollup_schema(state).names
    assert names == [
        "minute",
        "minute_ns",
        "space",
        "key",
        "minute_",
        "update_count",
        "update_count_",
        "hour",
    ]
