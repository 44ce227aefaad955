from __future__ import annotations

from typing import Any

import pytest

from skerry.spark.transforms.asof import edges, snapshot_at

COUNTS = {0: 5, 10: 5, 20: 1, 30: 9, 40: 2}


def test_edges_lie_so_far_apart_that_it_is_worth_it() -> None:
    assert edges(COUNTS, rows_min=6, after_ns=None, until_ns=50) == [(0, 20), (20, 40)]
    assert edges(COUNTS, rows_min=5, after_ns=None, until_ns=30) == [(0, 10), (10, 20)]
    assert edges(COUNTS, rows_min=100, after_ns=None, until_ns=50) == []
    assert edges({}, rows_min=1, after_ns=None, until_ns=50) == []


def test_edges_continue_after_the_last_one() -> None:
    assert edges(COUNTS, rows_min=6, after_ns=20, until_ns=50) == [(20, 40)]


@pytest.mark.slow
def test_a_snapshot_has_the_states_valid_at_its_edge(spark: Any) -> None:
    rows = [(1, 5, None), (2, 5, 9), (3, 5, 10), (4, 10, 11), (5, 11, None)]
    frame = spark.createDataFrame(rows, "id int, valid_from_ns bigint, valid_to_ns bigint")
    found = snapshot_at(frame, 10, 20).collect()
    assert sorted((row.id, row.edge_ns, row.until_ns) for row in found) == [
        (1, 10, 20),
        (4, 10, 20),
    ]
