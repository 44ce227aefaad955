from __future__ import annotations

from typing import Any

import pytest

from skerry.spark.transforms.merge import (
    CLOSED,
    GONE,
    OPEN,
    gone_rows,
    open_rows,
    replaced,
    with_part,
)

COLUMNS = (
    "space string, key binary, life bigint, valid_from_ns bigint, sender bigint, node bigint,"
    " position bigint, sequence bigint, standing string"
)


@pytest.mark.slow
def test_rows_replace_those_of_touched_objects(spark: Any) -> None:
    made = [("s", k, 1, 5, 0, 0, 0, 0, w) for k, w in ((b"a", OPEN), (b"b", GONE), (b"c", CLOSED))]
    states = spark.createDataFrame(made, COLUMNS)
    assert [bytes(row.key) for row in open_rows(states).collect()] == [b"a"]
    (gone,) = gone_rows(states).collect()
    assert (bytes(gone.key), gone.removed_ns, gone.life) == (b"b", 5, 1)
    old = spark.createDataFrame(
        [("s", k, 9) for k in (b"a", b"b", b"z")], "space string, key binary, life bigint"
    )
    new = open_rows(states).select("space", "key", "life")
    rows = replaced(old, states, new).collect()
    assert sorted((bytes(row.key), row.life) for row in rows) == [(b"a", 1), (b"z", 9)]
    parts = {row.part for row in with_part(old, 4).collect()}
    assert parts <= {0, 1, 2, 3}
    assert {row.part for row in with_part(old, 1).collect()} == {0}
