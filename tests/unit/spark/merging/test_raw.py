from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skerry
from skerry.recording.gaps import Gap, gap_update
from skerry.spark.lake.store import TableStore
from skerry.spark.merging.raw import folder_type, write_raw
from skerry.spark.merging.work import TableWork
from tests.spark.lakes import Emitter
from tests.unit.spark.merging.test_survey import batch

Buoy: Any = skerry.define_types("struct Buoy { 1: [key] uint32 id; }").Buoy


@pytest.mark.parametrize(
    ("name", "folder"),
    [("", None), ("Vessel", "Vessel"), ("a\0b", "a\ufffdb"), ("\u00fc" * 99, "\u00fc" * 60)],
)
def test_type_is_named_as_a_folder_can_be(name: str, folder: str | None) -> None:
    assert folder_type(name) == folder


def test_rows_that_the_table_has_are_left_out(tmp_path: Path) -> None:
    emitter, store = Emitter(), TableStore(tmp_path)
    gap = gap_update(Gap(count=3), space="test").replace(time_ns=emitter.now_ns)
    first, second = emitter.update(Buoy(id=1)), emitter.update(Buoy(id=2))
    rows = pa.Table.from_batches([batch(first, gap)]).unify_dictionaries()
    files = write_raw(store, "b", rows, TableWork(name="raw"))
    assert sorted((file.parts["type"] or "", file.rows) for file in files) == [("", 1), ("Buoy", 1)]
    again = pa.Table.from_batches([batch(first, second, gap)]).unify_dictionaries()
    known = TableWork(name="raw", known=tuple(files))
    (file,) = write_raw(store, "c", again, known)
    assert (file.rows, file.low["position"]) == (1, second.position)
