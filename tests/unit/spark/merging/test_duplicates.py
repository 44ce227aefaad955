from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from skerry.spark.lake.data_files import DataFile
from skerry.spark.lake.plans import Clock
from skerry.spark.lake.store import TableStore
from skerry.spark.merging.duplicates import KnownCounters, RowDecisions, decide_rows
from skerry.spark.merging.files import write_file
from skerry.spark.merging.identity import BY_CONTENT, BY_POSITION, CounterGroup
from skerry.spark.merging.survey import CounterTally, Detail, TableTally

NODE = CounterGroup(BY_POSITION, 7, 0)


def detail(*rows: tuple[int, int, bool]) -> Detail:
    numbers, times, found = zip(*rows, strict=True)
    return Detail(np.array(numbers), np.array(times), np.array(found))


def known_file(store: TableStore, *positions: int) -> DataFile:
    count = len(positions)
    rows = pa.table(
        {
            "time_ns": positions,
            "sender": [3] * count,
            "node": [7] * count,
            "sequence": positions,
            "position": positions,
            "source": ["access"] * count,
            "operation": [2] * count,
            "order_ns": positions,
        }
    )
    return write_file(store, "updates/T", "b", rows, {"hour": "2026-11-15T14"})


def judge(tmp_path: Path, found: Detail, *positions: int, order_ns: int = 0) -> RowDecisions:
    store = TableStore(tmp_path)
    files = [known_file(store, *positions)] if positions else []
    clocks = {7: Clock(position=max(positions), order_ns=order_ns)} if positions else {}
    counted = TableTally(groups={NODE: CounterTally(1, 9, 0, 9, 9, False)})
    known = KnownCounters(clocks=clocks, marks={})
    return decide_rows(counted, known, {NODE: found}, files, store, "updates/T")


def test_order_is_the_latest_time_that_the_node_had_stamped(tmp_path: Path) -> None:
    rows = detail((3, 50, False), (1, 90, True), (2, 70, False), (2, 10, True))
    positions, order_ns = judge(tmp_path, rows).orders[7]
    assert positions.tolist() == [1, 2, 3]
    assert order_ns.tolist() == [90, 70, 70], "what was found does not set the clock"


def test_rows_after_a_clock_that_went_back_keep_its_time(tmp_path: Path) -> None:
    made = judge(tmp_path, detail((5, 50, False), (6, 99, False)), 4, order_ns=80)
    assert made.orders[7][1].tolist() == [80, 99]
    assert not made.is_late


def test_rows_that_the_table_has_are_dropped(tmp_path: Path) -> None:
    made = judge(tmp_path, detail((2, 2, True), (3, 3, False), (5, 5, False)), 2, 3, 4)
    assert made.drops[NODE].tolist() == [2, 3]
    assert made.orders[7][0].tolist() == [5]
    assert not made.is_late


def test_a_row_before_known_ones_makes_the_table_late(tmp_path: Path) -> None:
    made = judge(tmp_path, detail((3, 1, False), (5, 9, False)), 2, 4)
    assert made.is_late
    assert [column.tolist() for column in made.orders[7]] == [[3, 5], [2, 9]]
    assert [column.tolist() for column in made.shifts[7]] == [[3], [1]]
    assert made.since_ns == 2
    assert not made.shifted
    made = judge(tmp_path, detail((3, 7, False)), 2, 4)
    assert len(made.shifted) == 1, "the known row 4 gets the time of row 3"
    store = TableStore(tmp_path)
    group = CounterGroup(BY_CONTENT, 7, 3)
    known = KnownCounters(clocks={}, marks={group: 9})
    files = [known_file(store, 1)]
    rows = {group: detail((5, 5, False))}
    assert decide_rows(TableTally(), known, rows, files, store, "updates/T").is_late
