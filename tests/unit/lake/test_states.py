"""States: what counts as a difference. Questions to tables are in test_reader."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from skerry.lake.answer import Answer
from skerry.lake.states import differences

FACTS = {"space": "bay", "subject": "/x", "life": 1, "sender": 3, "node": 7, "sequence": 1}
SCHEMA = pa.schema(
    [
        ("space", pa.string()),
        ("key", pa.binary()),
        ("subject", pa.string()),
        ("life", pa.int64()),
        ("valid_from_ns", pa.int64()),
        ("sender", pa.int64()),
        ("node", pa.int64()),
        ("position", pa.int64()),
        ("sequence", pa.int64()),
        ("x", pa.float64()),
        ("deep", pa.list_(pa.struct([("y", pa.float64())]))),
    ]
)
NAN = float("nan")


def answer(*rows: dict[str, Any]) -> Answer:
    table = pa.Table.from_pylist([FACTS | row for row in rows], schema=SCHEMA)
    return Answer(SCHEMA, lambda: iter(table.to_batches()))


def state(key: int, since: int, **fields: Any) -> dict[str, Any]:
    return {"key": bytes([key]), "valid_from_ns": since, "position": since, **fields}


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ({"x": 1.0}, {"x": 1.0}, None),
        ({"x": None}, {"x": None}, None),
        ({"x": NAN}, {"x": NAN}, None),
        ({"x": 0.0}, {"x": -0.0}, None),
        ({"x": NAN}, {"x": 1.0}, ["x"]),
        ({"x": None}, {"x": NAN}, ["x"]),
        ({"x": 1.0}, {"x": None}, ["x"]),
        ({"deep": [{"y": NAN}]}, {"deep": [{"y": NAN}]}, None),
        ({"deep": []}, {"deep": None}, ["deep"]),
        ({"deep": [{"y": 1.0}]}, {"deep": [{"y": 1.0}, {"y": 1.0}]}, ["deep"]),
        ({"x": 1.0, "deep": [None]}, {"x": 2.0, "deep": [{"y": None}]}, ["x", "deep"]),
    ],
)
def test_values_differ_as_people_expect(
    before: dict[str, Any], after: dict[str, Any], changed: list[str] | None
) -> None:
    found = differences(answer(state(1, 5, **before)), answer(state(1, 6, **after)), ["x", "deep"])
    rows = found.to_pylist()
    assert [(row["change"], row["changed"]) for row in rows] == (
        [] if changed is None else [("changed", changed)]
    )


def test_rows_are_sorted_and_the_same_state_is_not_compared() -> None:
    before = answer(state(3, 1), state(1, 1), state(2, 1, x=1.0))
    # One state cannot differ from itself, so this is not looked at.
    after = answer(state(2, 1, x=2.0), state(0, 2), state(3, 2) | {"life": 2})
    rows = differences(before, after, ["x", "deep"]).to_pylist()
    assert [(row["key"][0], row["change"]) for row in rows] == [
        (0, "added"),
        (1, "removed"),
        (3, "replaced"),
    ]


def test_objects_without_fields_can_be_created_and_removed() -> None:
    rows = differences(answer(state(1, 1)), answer(state(2, 2)), []).to_pylist()
    assert [(row["change"], row["before"], row["after"]) for row in rows] == [
        ("removed", {}, None),
        ("added", None, {}),
    ]
