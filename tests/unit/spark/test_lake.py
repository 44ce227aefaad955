from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.errors import ConfigError, PipelineError
from skerry.spark.lake import Lake, LakeConfig, Plan, TypeState, delta_schema
from skerry.spark.schema import typed_schema
from skerry.spark.transforms.order import Clock
from tests.unit.spark.deltas import SCHEMA, change, data_file

NO_SPARK: Any = None
STATE = TypeState(
    table="T@2",
    schema=typed_schema([skerry.define_types("struct T { 1: uint8 a; }").T.descriptor]),
    is_cached=True,
    clocks={-5: Clock(position=3, order_ns=9)},
    part_count=4,
)


def test_plan_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    assert lake.last_plan() == Plan()
    file = data_file(tmp_path, "links", "a.parquet", 1)
    plan = Plan(
        number=0,
        query="q",
        batch=7,
        types={"T@2": STATE},
        changes=(change("links", file, removed=("old",)),),
        notices=("said",),
        row_count=3,
        damaged=("a.arrow",),
    )
    lake.write_plan(plan)
    assert lake.last_plan() == plan


def test_plan_is_carried_out_to_its_end_and_not_twice(tmp_path: Path) -> None:
    steps: list[str] = []
    lake = Lake(NO_SPARK, tmp_path, trace=steps.append)
    changes = tuple(change(name, data_file(tmp_path, name, "a.parquet", 1)) for name in ("a", "b"))
    plan = Plan(number=0, changes=changes)
    assert Lake(NO_SPARK, tmp_path).carry_out(Plan(number=0, changes=changes[:1])) == 1
    assert [lake.carry_out(plan), lake.carry_out(plan)] == [1, 0]
    assert steps[:3] == ["commit a", "commit b", "done"]
    assert lake.names() == ["a", "b"]


def test_only_the_last_plans_are_kept(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    for number in range(5):
        lake.write_plan(Plan(number=number))
        lake.carry_out(Plan(number=number))
    assert len(list(tmp_path.glob("_skerry/plans/*.json"))) == 3
    assert lake.last_plan().number == 4


def test_tables_of_types_are_named_with_their_kind(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    for name in ("history/T", "updates/T", "raw"):
        work = change(name, data_file(tmp_path, name, "a.parquet", 1))
        lake.table(name).commit(work, application="x", version=0)
    assert lake.names() == ["history/T", "raw", "updates/T"]


def test_lake_of_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    lake.store.write_text("_skerry/lake.json", '{"format": 2, "id": "x"}')
    with pytest.raises(PipelineError, match="newer skerry"):
        lake.carry_out(Plan(number=0))


@pytest.mark.parametrize("seconds", [0, 90, 7 * 3600])
def test_bucket_is_a_whole_part_of_a_day(seconds: int) -> None:
    with pytest.raises(ConfigError, match="whole part of a day"):
        LakeConfig(bucket_s=seconds)
    assert LakeConfig(bucket_s=600).bucket_ns == 600 * 10**9


def test_two_may_not_write_at_once(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    with lake.writing(), pytest.raises(PipelineError), Lake(NO_SPARK, tmp_path).writing():
        pass


def test_columns_are_named_as_delta_does() -> None:
    assert '"name":"order_ns"' in delta_schema(SCHEMA).replace(" ", "")


def test_few_are_all_rows_of_all_tables_and_those_to_come(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path, LakeConfig(few_rows=10))
    assert lake.has_few(10)
    for name in ("links", "latest/Vessel"):
        work = change(name, data_file(tmp_path, name, "a.parquet", 1, 2, 3, 4))
        lake.table(name).commit(work, application="x", version=0)
    assert lake.has_few(2)
    assert not lake.has_few(3)
    assert not lake.has_few(0), "tables grow, and are not looked at again"
