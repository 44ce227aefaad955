from __future__ import annotations

from typing import Any

import pytest

from skerry.spark.transforms.dedupe import (
    BLOCK_COUNT,
    IDENTITY,
    distinct_rows,
    has_position,
    unseen_rows,
    with_identity,
)

COLUMNS = (
    "id int, node bigint, position bigint, sender bigint, sequence bigint, source string,"
    " operation tinyint, time_ns bigint, key binary, present bigint, subject string, type string,"
    " sent_ns bigint"
)
REST = (b"k", 2, "/s", "T", None)


@pytest.mark.slow
def test_the_same_update_is_identified_by_its_counter(spark: Any) -> None:
    rows = [
        (1, 7, 5, 3, 9, "access", 2, 100),
        (2, 7, 5, 3, 0, "access", 5, 90),  # found by a recorder that began later
        (3, 7, 6, 3, 9, "access", 2, 100),  # another position is another update
        (4, 8, 5, 3, 9, "access", 2, 100),
        (5, 7, 0, 3, 9, "access", 2, 100),  # the node did not tell positions
        (6, 7, 0, 3, 9, "access", 2, 101),
        (7, 1, 50, 99, 4, "distributor", 2, 100),
        (8, 2, 60, 99, 4, "distributor", 2, 105),  # another node received it, too
        (9, 0, 0, 0, 0, "access", 2, 100),  # nothing counts it: all of it has to be the same
        (10, 0, 0, 0, 0, "access", 2, 100),
        (11, 0, 0, 0, 0, "access", 3, 100),
    ]
    frame = with_identity(spark.createDataFrame([(*row, *REST) for row in rows], COLUMNS))
    once = distinct_rows(frame)
    kept = {row.id for row in once.collect()}
    assert kept - {9, 10} == {1, 3, 4, 5, 7, 11}
    assert len(kept & {9, 10}) == 1
    known = frame.where("id in (2, 8)").select(*IDENTITY)
    assert {row.id for row in unseen_rows(once, known).collect()} == kept - {1, 7}
    placed = frame.where(has_position() & (frame.position < BLOCK_COUNT)).select("id").collect()
    assert {row.id for row in placed} == {1, 2, 3, 4}
