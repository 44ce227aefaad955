from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.errors import ConfigError, PipelineError
from skerry.spark.lake.lake import KEEP_HOURS, SAFE_HOURS, Lake, LakeConfig, delta_schema
from skerry.spark.lake.plans import Clock, Plan, TypeState
from skerry.spark.lake.schema import typed_schema
from skerry.spark.merging.identity import CounterGroup
from tests.unit.spark.deltas import SCHEMA, change, data_file, stored_file

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
        offsets={"5b1f": 7},
        types={"T@2": STATE},
        changes=(change("links", file, removed=("old",)),),
        notices=("said",),
        row_count=3,
        read_count=4,
        raw_marks={CounterGroup(2, 0, 9): 5},
        stale_hours=("2026-11-15T14",),
        damaged=("a.arrow",),
    )
    lake.write_plan(plan)
    assert lake.last_plan() == plan


def test_plan_is_carried_out_to_its_end_and_not_twice(tmp_path: Path) -> None:
    steps: list[str] = []
    lake = Lake(NO_SPARK, tmp_path, trace=steps.append)
    changes = tuple(change(name, data_file(tmp_path, name, "a.parquet", 1)) for name in ("a", "b"))
    plan = Plan(number=0, changes=changes)
    assert Lake(NO_SPARK, tmp_path).commit_plan(Plan(number=0, changes=changes[:1])) == 1
    assert [lake.commit_plan(plan), lake.commit_plan(plan)] == [1, 0]
    assert steps[:3] == ["commit a", "commit b", "done"]
    assert lake.names() == ["a", "b"]


def test_only_the_last_plans_are_kept(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    for number in range(5):
        lake.write_plan(Plan(number=number))
        lake.commit_plan(Plan(number=number))
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
        lake.commit_plan(Plan(number=0))


@pytest.mark.parametrize("seconds", [0, 90, 7 * 3600])
def test_bucket_is_a_whole_part_of_a_day(seconds: int) -> None:
    with pytest.raises(ConfigError, match="whole number of minutes that divides a day"):
        LakeConfig(bucket_s=seconds)
    assert LakeConfig(bucket_s=600).bucket_ns == 600 * 10**9


def test_two_may_not_write_at_once(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    with lake.writing(), pytest.raises(PipelineError), Lake(NO_SPARK, tmp_path).writing():
        pass


def test_columns_are_named_as_delta_does() -> None:
    assert '"name":"order_ns"' in delta_schema(SCHEMA).replace(" ", "")


def damaged(root: Path, number: int) -> PipelineError:
    """What is said of the plan of this number, once it is garbage."""
    path = root / f"_skerry/plans/{number:010}.json"
    path.write_bytes(b"\xff\xfe garbage")
    with pytest.raises(PipelineError) as caught:
        Lake(NO_SPARK, root).last_plan()
    assert str(path) in str(caught.value)
    return caught.value


def test_a_damaged_plan_that_no_table_has_a_part_of_may_be_deleted(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    for number in range(2):
        file = data_file(tmp_path, "links", f"{number}.parquet", 1)
        plan = Plan(number=number, changes=(change("links", file),))
        lake.write_plan(plan)
        if number == 0:
            assert "delete the file" in str(damaged(tmp_path, 0).hint)
            lake.write_plan(plan)
            lake.commit_plan(plan)
    assert "delete the file" in str(damaged(tmp_path, 1).hint)
    (tmp_path / "_skerry/plans/0000000001.json").unlink()
    assert lake.last_plan().number == 0


def test_a_damaged_plan_that_was_begun_has_to_be_restored(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    work = change("links", data_file(tmp_path, "links", "a.parquet", 1))
    for number in range(2):
        plan = Plan(number=number, changes=(work,) if number == 0 else ())
        lake.write_plan(plan)
        lake.commit_plan(plan)
    (tmp_path / "_skerry/plans/0000000000.json").unlink()
    # What the batches before it did is unknown.
    assert "restore the file" in str(damaged(tmp_path, 1).hint)
    (tmp_path / "_skerry/plans/0000000001.json").unlink()
    hint = str(damaged(tmp_path, 0).hint)
    assert "links has a part" in hint
    assert "restore the file" in hint


@pytest.mark.parametrize(
    "text", ["garbage", "{}", "[]", "7", '{"types": [{"table": "T", "schema": "x"}]}']
)
def test_a_plan_with_other_content_is_damaged(tmp_path: Path, text: str) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    lake.store.write_text("_skerry/plans/0000000000.json", text)
    with pytest.raises(PipelineError, match="is damaged"):
        lake.last_plan()


@pytest.mark.parametrize("data", [b"garbage", b"\xff", b"[]", b"{}", b'{"format": 1}'])
def test_a_damaged_identity_is_an_error(tmp_path: Path, data: bytes) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    (tmp_path / "_skerry").mkdir()
    (tmp_path / "_skerry/lake.json").write_bytes(data)
    with pytest.raises(PipelineError, match=r"lake\.json is damaged") as caught:
        lake.commit_plan(Plan(number=0))
    assert "txn" in str(caught.value.hint)


def test_inside_of_a_batch_a_log_is_read_once(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    first, second = (data_file(tmp_path, "links", f"{n}.parquet", n) for n in range(2))
    lake.table("links").rewrite(change("links", first))
    with lake.batch():
        assert lake.table("links").files() == [first]
        Lake(NO_SPARK, tmp_path).table("links").rewrite(change("links", second))
        with lake.batch():
            assert lake.table("links").files() == [first]
        assert lake.table("links").files() == [first], "the inner one has not ended it"
    assert len(lake.table("links").files()) == 2


def test_log_entries_are_kept_as_long_as_configured(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path, LakeConfig(log_keep_s=60))
    lake.table("t").rewrite(change("t", data_file(tmp_path, "t", "a.parquet", 1)))
    assert "interval 60 seconds" in (tmp_path / f"t/_delta_log/{0:020}.json").read_text()
    with pytest.raises(ConfigError, match="-1 is negative"):
        LakeConfig(log_keep_s=-1)


def test_jobs_delete_no_file_that_may_be_of_a_batch(tmp_path: Path) -> None:
    assert LakeConfig().vacuum_hours == KEEP_HOURS
    assert LakeConfig(vacuum_hours=SAFE_HOURS).vacuum_hours == 1
    with pytest.raises(ConfigError, match="less than 1"):
        LakeConfig(vacuum_hours=0.9)


def test_plans_are_written_and_committed_at_a_remote_path(bucket: str) -> None:
    lake = Lake(NO_SPARK, f"{bucket}/lake")
    with lake.writing():
        for number in range(5):
            file = stored_file(lake.store, "history/T", f"{number}.parquet", number)
            lake.write_plan(Plan(number=number, changes=(change("history/T", file),)))
            assert lake.commit_plan(lake.last_plan()) == 1
    again = Lake(NO_SPARK, f"{bucket}/lake")
    assert again.commit_plan(again.last_plan()) == 0, "it is found in the log"
    assert again.names() == ["history/T"]
    assert [file.rows for file in again.table("history/T").files()] == [1] * 5
    plans = [file.path for file in again.store.listed("_skerry/plans")]
    assert plans == [f"_skerry/plans/{number:010}.json" for number in (2, 3, 4)]
