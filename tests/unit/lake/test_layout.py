from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from skerry.errors import PipelineError
from skerry.lake.layout import LakeLayout
from skerry.spark.lake.lake import Lake, Plan
from skerry.spark.lake.store import TableStore
from tests.unit.lake.lakes import HAIL, NO_SPARK, VESSEL, fleet, write_plan


def test_types_are_those_of_the_last_plan(tmp_path: Path) -> None:
    layout = LakeLayout(TableStore(tmp_path))
    assert layout.types() == {}
    write_plan(tmp_path, VESSEL)
    assert list(layout.types()) == ["Vessel"]
    Lake(NO_SPARK, tmp_path).write_plan(Plan(number=1, types={"Vessel": VESSEL, "Hail": HAIL}))
    found = layout.types()
    # What the pipeline itself reads of its plan.
    known = Lake(NO_SPARK, tmp_path).last_plan().types
    assert {name: (s.table, s.schema, s.is_cached) for name, s in found.items()} == {
        name: (s.table, s.schema, s.is_cached) for name, s in known.items()
    }


@pytest.mark.parametrize("text", ["", "[]", '{"types": [{}]}', '{"types": [{"table": 1}]}'])
def test_a_damaged_plan_is_named(tmp_path: Path, text: str) -> None:
    place = tmp_path / "_skerry" / "plans" / "0000000003.json"
    place.parent.mkdir(parents=True)
    place.write_text(text)
    with pytest.raises(PipelineError, match=r"0000000003\.json is damaged"):
        LakeLayout(TableStore(tmp_path)).types()


@pytest.mark.slow
def test_folders_that_are_not_tables_are_not_listed(tmp_path: Path) -> None:
    layout = LakeLayout(TableStore(fleet(tmp_path)))
    (tmp_path / "latest" / "Stray").mkdir()
    assert "latest/Stray" in layout.folders()
    assert "latest/Stray" not in [size.name for size in layout.sizes()]
    assert not [name for name in layout.folders() if name.startswith("_")]
    assert layout.contents("latest/Stray") is None


@pytest.mark.slow
def test_sizes_count_the_files_of_the_log_and_no_others(tmp_path: Path) -> None:
    rows = pa.table({"minute": [1, 2, 3]})
    write_deltalake(tmp_path / "rates", rows)
    write_deltalake(tmp_path / "rates", rows, mode="append")
    write_deltalake(tmp_path / "updates" / "Vessel", rows)
    (tmp_path / "rates" / "left-behind.parquet").write_bytes(b"of a killed job")
    (tmp_path / "_skerry").mkdir()
    rates, vessel = LakeLayout(TableStore(tmp_path)).sizes()
    assert (rates.name, rates.rows, rates.files) == ("rates", 6, 2)
    assert (vessel.name, vessel.rows, vessel.files) == ("updates/Vessel", 3, 1)
    assert rates.byte_count == 2 * vessel.byte_count
    assert LakeLayout(TableStore(tmp_path / "none")).sizes() == []
