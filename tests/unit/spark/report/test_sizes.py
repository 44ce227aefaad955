"""Sizes of tables, by their logs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from skerry.spark.report.sizes import table_sizes


@pytest.mark.slow
def test_files_of_the_log_are_counted_and_no_others(tmp_path: Path) -> None:
    rows = pa.table({"minute": [1, 2, 3]})
    write_deltalake(tmp_path / "rates", rows)
    write_deltalake(tmp_path / "rates", rows, mode="append")
    write_deltalake(tmp_path / "updates" / "Vessel", rows)
    (tmp_path / "rates" / "left-behind.parquet").write_bytes(b"of a killed job")
    (tmp_path / "_skerry").mkdir()
    rates, vessel = table_sizes(tmp_path)
    assert (rates.name, rates.rows, rates.files) == ("rates", 6, 2)
    assert (vessel.name, vessel.rows, vessel.files) == ("updates/Vessel", 3, 1)
    assert rates.byte_count == 2 * vessel.byte_count


def test_folder_that_is_not_there_has_no_tables(tmp_path: Path) -> None:
    assert table_sizes(tmp_path / "none") == ()
