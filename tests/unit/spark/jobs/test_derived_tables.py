from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skerry.spark.jobs.derived_tables import BuildInputs, build_derived
from skerry.spark.lake.lake import Lake, LakeConfig
from skerry.spark.lake.plans import Plan
from skerry.spark.transforms.derived import Derived

NO_SPARK: Any = None


def test_without_new_rows_nothing_is_built(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    assert build_derived(lake) is None


def test_inputs_of_a_type_that_has_no_table_are_none(tmp_path: Path) -> None:
    derived = Derived(name="d", partition_by="hour", schema=NO_SPARK, build=NO_SPARK)
    inputs = BuildInputs(Lake(NO_SPARK, tmp_path), {}, {}, derived, frozenset(["2026-11-15T14"]))
    assert inputs.updates("Vessel") is None
    assert inputs.raw() is None


@pytest.mark.slow
def test_touched_parts_are_rebuilt_and_others_are_kept(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import types as T  # noqa: N812

    schema = T.StructType.fromDDL("count int, day string")
    assert isinstance(schema, T.StructType)
    asked: list[frozenset[str]] = []

    def build(inputs: BuildInputs) -> Any:
        asked.append(inputs.parts)
        return spark.createDataFrame([(len(asked), day) for day in sorted(inputs.parts)], schema)

    derived = Derived(name="days", partition_by="day", schema=schema, build=build)
    lake = Lake(spark, tmp_path, LakeConfig(derived=(derived,)))
    for number, hours in enumerate((["2026-11-15T14", "2026-11-16T00"], ["2026-11-16T01"])):
        lake.write_plan(Plan(number=2 * number, stale_hours=tuple(hours)))
        made = build_derived(lake)
        assert made is not None
        assert made.stale_hours == ()
        assert build_derived(lake) is None
    assert asked == [{"2026-11-15", "2026-11-16"}, {"2026-11-16"}]
    rows = sorted(tuple(row) for row in lake.table("days").frame(spark).collect())
    assert rows == [(1, "2026-11-15"), (2, "2026-11-16")]
