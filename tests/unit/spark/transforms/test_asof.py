from __future__ import annotations

from typing import Any

import pytest

from skerry.spark.lake.catalog import FieldColumn
from skerry.spark.transforms.asof import changed_between, differences, is_live_at, live_at

FIELDS = (FieldColumn(tag=1, name="a", source="a"),)
STATES = (
    "key binary, valid_from_ns bigint, valid_to_ns bigint, life bigint, a int, space string,"
    " subject string, valid_from timestamp, sender bigint, node bigint, position bigint,"
    " sequence bigint"
)
REST = ("s", "/x", None, 1, 1, 1, 1)


@pytest.mark.slow
def test_instants_are_compared(spark: Any) -> None:
    second = 10**9
    rows = [
        (b"a", 0, 2 * second, 1, 1),
        (b"a", 2 * second, None, 1, 2),
        (b"b", 0, second, 1, 1),
        (b"c", 0, 2 * second, 1, 5),
        (b"c", 3 * second, None, 2, 5),
        (b"d", 2 * second, None, 1, 4),
        (b"e", 0, None, 1, 9),
    ]
    states = spark.createDataFrame([(*row, *REST) for row in rows], STATES)
    assert states.where(is_live_at(second)).count() == 3
    before = live_at(states, FIELDS, second)
    ages = {bytes(row.key): row.age_s for row in before.collect()}
    assert ages == {b"a": 1.0, b"c": 1.0, b"e": 1.0}
    begun = live_at(states, FIELDS, 3 * second, after_ns=2 * second).collect()
    assert [bytes(row.key) for row in begun] == [b"c"]
    after = live_at(states, FIELDS, 3 * second)
    found = {bytes(row.key): row for row in differences(before, after, FIELDS).collect()}
    assert {key: (row.change, row.changed) for key, row in found.items()} == {
        b"a": ("changed", ["a"]),
        b"c": ("replaced", []),
        b"d": ("added", []),
    }
    assert (found[b"a"].before.a, found[b"a"].after.a) == (1, 2)
    assert found[b"d"].before is None


@pytest.mark.slow
def test_updates_between_two_instants_are_returned(spark: Any) -> None:
    columns = (
        "key binary, order_ns bigint, operation tinyint, a int, space string, subject string,"
        " present bigint, sender bigint, node bigint, position bigint, sequence bigint"
    )
    rows = [(b"a", n, operation, n) for n, operation in enumerate((1, 2, 3, 5, 2))]
    updates = spark.createDataFrame([(*row, "s", "/x", 2, 1, 1, 1, 1) for row in rows], columns)
    found = changed_between(updates, FIELDS, 0, 4).orderBy("order_ns").collect()
    assert [row.change for row in found] == ["create", "update", "remove", "snapshot"]
    assert [row.a for row in found] == [0, 1, 2, 3]
