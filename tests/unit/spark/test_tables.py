from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skerry.errors import PipelineError
from skerry.spark.lake.lake import Lake
from skerry.spark.lake.plans import Plan
from skerry.spark.tables import Tables
from tests.unit.spark.deltas import change, data_file
from tests.unit.spark.lake.test_lake import STATE

NO_SPARK: Any = None


def test_a_folder_without_tables_is_reported(tmp_path: Path) -> None:
    tables = Tables(NO_SPARK, tmp_path)
    assert (tables.names(), tables.types()) == ([], [])
    with pytest.raises(PipelineError, match="there is no table history/Vessel") as caught:
        tables.frame("history/Vessel")
    assert "no tables yet" in str(caught.value.hint)
    with pytest.raises(PipelineError):
        tables.asof(None, 0)


def test_name_that_is_nearly_right_is_suggested(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    work = change("links", data_file(tmp_path, "links", "a.parquet", 1))
    lake.write_plan(Plan(number=0, types={"T@2": STATE}, changes=(work,)))
    lake.commit_plan(lake.last_plan())
    tables = Tables(NO_SPARK, tmp_path)
    assert (tables.names(), tables.types()) == (["links"], ["T@2"])
    with pytest.raises(PipelineError) as caught:
        tables.frame("link")
    assert caught.value.hint == "did you mean links?"
    with pytest.raises(PipelineError) as caught:
        tables.between("T@", 0, 1)
    assert caught.value.hint == "did you mean T@2?"


def test_an_invalid_instant_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="is not an instant"):
        Tables(NO_SPARK, tmp_path).asof("T", "yesterday")
