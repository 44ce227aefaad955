"""Slots: rows that follow the known ones, and rows between them. Random streams are in
`tests/properties/test_merging.py`."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from skerry.spark.jobs.batch import process_batch
from skerry.spark.lake.lake import Lake
from skerry.spark.merging.slots import LateSlot
from tests.properties.test_merging import DRIVER, rows
from tests.spark.lakes import BARE, Emitter, all_ranges, record
from tests.spark.test_history import Ship


def test_a_late_row_is_merged_between_known_ones(tmp_path: Path) -> None:
    emitter = Emitter()
    made = [emitter.update(Ship(id=1, lat=float(number))) for number in range(4)]
    place, lake = tmp_path / "recordings", tmp_path / "lake"
    seen: dict[str, int] = {}
    late_counts = []
    for batch in ([made[0], made[2]], [made[1]], [made[3]]):
        record(place, batch, Ship)
        ranges = all_ranges(place, seen)
        with patch.object(LateSlot, "merged", autospec=True, side_effect=LateSlot.merged) as late:
            plan = process_batch(Lake(DRIVER, lake, BARE), [str(place)], ranges)
        assert plan.row_count == len(batch)
        late_counts.append(late.call_count)
        seen |= {name: stop for name, _, stop in ranges}
    assert late_counts[0] == 0
    assert late_counts[1] > 0, "the second batch precedes what is known"
    assert late_counts[2] == 0
    ended = sorted(rows(lake, "history"), key=lambda row: row["valid_from_ns"])
    assert [row["lat"] for row in ended] == [0.0, 1.0, 2.0]
    assert [row["valid_to_ns"] for row in ended[:2]] == [r["valid_from_ns"] for r in ended[1:]]
    assert [row["lat"] for row in rows(lake, "latest")] == [3.0]
