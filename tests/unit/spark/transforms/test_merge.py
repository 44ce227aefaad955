from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from skerry.spark.lake.catalog import FieldColumn
from skerry.spark.transforms.merge import (
    ALL_TAGS,
    CLOSED,
    GONE,
    OPEN,
    cleared_tags,
    merged,
    steps_of_gone,
    steps_of_states,
    steps_of_updates,
)

FIELDS = tuple(FieldColumn(tag=t, name=n, source=n) for t, n in ((1, "a"), (2, "b")))
UPDATES = (
    "key binary, order_ns bigint, operation tinyint, present bigint, a int, b int, space string,"
    " node bigint, position bigint, sender bigint, sequence bigint, subject string"
)
STATES = (
    "key binary, valid_from_ns bigint, life bigint, a int, b int, space string, node bigint,"
    " position bigint, sender bigint, sequence bigint, subject string"
)
ENDS = (
    "key binary, removed_ns bigint, life bigint, space string, node bigint, position bigint,"
    " sender bigint, sequence bigint"
)
A, B = 0b010, 0b100


@pytest.mark.slow
@pytest.mark.parametrize("tags", [ALL_TAGS, A | B])
def test_steps_lead_through_states(spark: Any, tags: int) -> None:
    said = [
        (b"x", 10, 1, A | B, 1, 2),
        (b"x", 20, 2, A, None, 99),  # clears a; b is not spoken of, whatever stands there
        (b"x", 30, 3, 0, None, None),
        (b"x", 40, 1, A, 5, None),
        (b"y", 10, 2, A, 7, None),  # builds on what there was
        (b"z", 10, 2, A, 8, None),  # was gone, and no create is known
        (b"w", 10, 3, 0, None, None),
    ]
    rest = ("s", 1, 1, 1, 1)
    updates = spark.createDataFrame([(*row, *rest, "/x") for row in said], UPDATES)
    states = spark.createDataFrame([(b"y", 5, 3, 6, 4, *rest, "/y")], STATES)
    gone = spark.createDataFrame([(b"z", 5, 2, *rest)], ENDS)
    steps = [
        steps_of_updates(updates, FIELDS),
        steps_of_states(states, FIELDS),
        steps_of_gone(gone, states, FIELDS),
    ]
    # The last remove takes away both.
    assert updates.agg(cleared_tags(FIELDS)).first()[0] == A | B
    found = merged(reduce(lambda x, y: x.unionByName(y), steps), FIELDS, cleared=tags)
    columns = ("key", "valid_from_ns", "valid_to_ns", "life", "a", "b", "standing")
    rows = sorted(
        (tuple(row) for row in found.select(*columns).collect()), key=lambda r: (bytes(r[0]), r[1])
    )
    assert [(bytes(key), *values) for key, *values in rows] == [
        (b"w", 10, None, 0, None, None, GONE),
        (b"x", 10, 20, 1, 1, 2, CLOSED),
        (b"x", 20, 30, 1, None, 2, CLOSED),
        (b"x", 40, None, 2, 5, None, OPEN),
        (b"y", 5, 10, 3, 6, 4, CLOSED),
        (b"y", 10, None, 3, 7, 4, OPEN),
        (b"z", 10, None, 2, 8, None, OPEN),
    ]


@pytest.mark.slow
def test_fields_that_are_never_unset_are_merged_alike(spark: Any) -> None:
    said = [
        (b"x", 10, 1, A | B, 1, 2),
        (b"x", 20, 2, A, 3, None),  # says nothing of b
        (b"x", 30, 2, B, 99, None),  # clears b
        (b"x", 40, 1, A | B, 4, 5),
    ]
    rest = ("s", 1, 1, 1, 1, "/x")
    updates = spark.createDataFrame([(*row, *rest) for row in said], UPDATES)
    assert updates.agg(cleared_tags(FIELDS)).first()[0] == B
    steps = steps_of_updates(updates, FIELDS)
    for cleared in (B, ALL_TAGS):
        rows = merged(steps, FIELDS, cleared=cleared).orderBy("valid_from_ns").collect()
        assert [(row.a, row.b) for row in rows] == [(1, 2), (3, 2), (3, None), (4, 5)]
