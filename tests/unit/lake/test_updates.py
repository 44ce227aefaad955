"""Updates in slices: however small these are, rows come once and in order."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import skerry.lake
from skerry.lake import updates as module
from skerry.lake.updates import in_order, slices, timestamps
from tests.unit.lake.lakes import START_NS, VESSEL, S, put, update, write_plan


@pytest.mark.slow
def test_slices_follow_each_other_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(5)
    write_plan(tmp_path, VESSEL)
    seconds = [rng.randrange(1000) / 10 for _ in range(300)]
    for part in range(3):
        rows = [update(second, rng.randrange(9)) for second in seconds[part::3]]
        put(tmp_path, "updates", VESSEL, rows)
    lake = skerry.lake.open(tmp_path)
    whole = lake.between("Vessel").to_arrow()
    made: list[Any] = []

    def small(files: Any, column: str, **bounds: Any) -> Any:
        made[:] = slices(files, column, **bounds, rows_max=20)
        return made

    monkeypatch.setattr(module, "slices", small)
    sliced = lake.between("Vessel").to_arrow()
    assert len(made) > 10
    assert sliced.column("order_ns").to_pylist() == sorted(START_NS + round(s * S) for s in seconds)
    assert sliced.num_rows == whole.num_rows == 300
    bounded = lake.between("Vessel", START_NS + 20 * S, START_NS + 70 * S).to_arrow()
    assert bounded.num_rows == sum(20 <= second < 70 for second in seconds)


def test_rows_are_sorted_with_nulls_first() -> None:
    table = pa.table({"a": [2, None, 1], "b": [1, 2, 3]})
    assert in_order(table, ("a", "none", "b")).column("b").to_pylist() == [2, 3, 1]


def test_instants_become_timestamps_that_are_not_later() -> None:
    made = timestamps(pa.array([1999, -1, -1000, -1001, None, 0], pa.int64()))
    assert made.cast(pa.int64()).to_pylist() == [1, -1, -1, -2, None, 0]
