from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from skerry.errors import PipelineError
from skerry.lake.reader import OpenLake
from skerry.spark.lake.lake import Lake
from skerry.spark.lake.plans import Plan, last_plan, plan_numbers, table_folders
from skerry.spark.lake.store import TableStore
from tests.unit.lake.lakes import HAIL, NO_SPARK, VESSEL, fleet, write_plan


def test_the_last_plan_is_read(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    assert last_plan(store).types == {}
    write_plan(tmp_path, VESSEL)
    assert list(last_plan(store).types) == ["Vessel"]
    Lake(NO_SPARK, tmp_path).write_plan(Plan(number=1, types={"Vessel": VESSEL, "Hail": HAIL}))
    found = last_plan(store).types
    assert {name: (state.table, state.is_cached) for name, state in found.items()} == {
        "Vessel": ("Vessel", True),
        "Hail": ("Hail", False),
    }
    assert plan_numbers(store) == [0, 1]


@pytest.mark.parametrize("text", ["", "[]", '{"types": [{}]}', '{"types": [{"table": 1}]}'])
def test_a_damaged_plan_is_named(tmp_path: Path, text: str) -> None:
    place = tmp_path / "_skerry" / "plans" / "0000000003.json"
    place.parent.mkdir(parents=True)
    place.write_text(text)
    with pytest.raises(PipelineError, match=r"0000000003\.json is damaged") as caught:
        last_plan(TableStore(tmp_path), lambda number: f"plan {number}")
    assert caught.value.hint == "plan 3"


@pytest.mark.slow
def test_folders_that_are_not_tables_have_no_size(tmp_path: Path) -> None:
    lake = OpenLake(fleet(tmp_path))
    (tmp_path / "latest" / "Stray").mkdir()
    assert "latest/Stray" in table_folders(lake.store)
    assert "latest/Stray" not in [size.name for size in lake.tables()]
    assert not [name for name in table_folders(lake.store) if name.startswith("_")]
    assert lake.contents("latest/Stray") is None


@pytest.mark.slow
def test_sizes_count_the_files_of_the_log_and_no_others(tmp_path: Path) -> None:
    rows = pa.table({"minute": [1, 2, 3]})
    write_deltalake(tmp_path / "rates", rows)
    write_deltalake(tmp_path / "rates", rows, mode="append")
    write_deltalake(tmp_path / "updates" / "Vessel", rows)
    (tmp_path / "rates" / "left-behind.parquet").write_bytes(b"of a killed job")
    (tmp_path / "_skerry").mkdir()
    rates, vessel = OpenLake(tmp_path).tables()
    assert (rates.name, rates.rows, rates.files) == ("rates", 6, 2)
    assert (vessel.name, vessel.rows, vessel.files) == ("updates/Vessel", 3, 1)
    assert rates.byte_count == 2 * vessel.byte_count
