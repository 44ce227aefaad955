from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skerry.codec.envelope import CREATE, REMOVE, UPDATE
from skerry.spark.lake.catalog import FieldColumn
from skerry.spark.merging.states import (
    ALL_TAGS,
    MergedStates,
    StateSteps,
    steps_of_gone,
    steps_of_states,
)

FIELDS = [FieldColumn(tag=2, name="a", source="a"), FieldColumn(tag=3, name="b", source="b")]
A, B = 1 << 2, 1 << 3
SCHEMA = pa.schema(
    [
        ("space", pa.string()),
        ("key", pa.binary()),
        ("subject", pa.string()),
        ("valid_from_ns", pa.int64()),
        ("valid_to_ns", pa.int64()),
        ("life", pa.int64()),
        *((name, pa.int64()) for name in ("sender", "node", "position", "sequence", "a", "b")),
    ]
)


def table(rows: list[dict[str, Any]], **columns: pa.DataType) -> pa.Table:
    usual = {"space": "s", "key": b"k", "subject": "/x", "sender": 3, "node": 7, "sequence": 0}
    schema = pa.schema([*((f.name, f.type) for f in SCHEMA), *columns.items()])
    return pa.Table.from_pylist([{**usual, "position": 0, **row} for row in rows], schema)


def updates(*rows: tuple[int, int, int, int | None, int | None]) -> StateSteps:
    """Of one object: when, operation, property set, and values of both fields."""
    plain = [
        {"order_ns": at, "operation": op, "present": said, "a": a, "b": b, "position": at}
        for at, op, said, a, b in rows
    ]
    kinds = {"order_ns": pa.int64(), "operation": pa.int8(), "present": pa.int64()}
    return StateSteps.of_updates(np.zeros(len(rows), np.int64), table(plain, **kinds))


def closed(found: MergedStates) -> list[tuple[Any, ...]]:
    rows = found.states(found.closed(), SCHEMA, is_open=False).to_pylist()
    return [(r["valid_from_ns"], r["valid_to_ns"], r["life"], r["a"], r["b"]) for r in rows]


def test_values_last_until_they_are_set_cleared_or_begun_again() -> None:
    steps = updates(
        (1, CREATE, A | B, 1, 1),
        (2, UPDATE, A, 2, None),
        (3, UPDATE, B, None, None),
        (4, REMOVE, 0, None, None),
        (5, UPDATE, B, None, 5),
        (6, CREATE, A, 6, None),
        (7, UPDATE, 0, None, None),
    )
    found = MergedStates([steps], FIELDS)
    assert closed(found) == [
        (1, 2, 1, 1, 1),
        (2, 3, 1, 2, 1),
        (3, 4, 1, 2, None),
        (5, 6, 1, None, 5),
        (6, 7, 2, 6, None),
    ]
    (last,) = found.states(found.open(), SCHEMA, is_open=True).to_pylist()
    assert (last["valid_from_ns"], last["valid_to_ns"], last["a"], last["b"]) == (7, None, 6, None)
    assert not len(found.gone())


def test_updates_continue_from_the_latest_state_or_from_none() -> None:
    state = table([{"valid_from_ns": 1, "life": 4, "a": 1, "b": 2}])
    one = np.zeros(1, np.int64)
    found = MergedStates([steps_of_states(one, state), updates((2, UPDATE, A, 9, None))], FIELDS)
    assert not found.has_seed_after_new(1)
    assert closed(found) == [(1, 2, 4, 1, 2)]
    (last,) = found.states(found.open(), SCHEMA, is_open=True).to_pylist()
    assert (last["life"], last["a"], last["b"]) == (4, 9, 2)
    gone = state.append_column("removed_ns", pa.array([1]))
    found = MergedStates([steps_of_gone(one, gone), updates((2, UPDATE, A, 9, None))], FIELDS)
    (last,) = found.states(found.open(), SCHEMA, is_open=True).to_pylist()
    assert (last["life"], last["a"], last["b"]) == (4, 9, None)


def test_an_update_before_the_latest_state_is_noticed() -> None:
    state = table([{"valid_from_ns": 5, "life": 1, "a": 1}])
    seeds = steps_of_states(np.zeros(1, np.int64), state)
    assert MergedStates([seeds, updates((2, UPDATE, A, 9, None))], FIELDS).has_seed_after_new(1)


def test_removed_objects_have_their_life() -> None:
    schema = pa.schema([*list(SCHEMA)[:2], ("life", pa.int64()), ("removed_ns", pa.int64())])
    wide = pa.schema(
        [*schema, *(SCHEMA.field(n) for n in ("sender", "node", "position", "sequence"))]
    )
    found = MergedStates([updates((1, CREATE, ALL_TAGS, 1, 1), (2, REMOVE, 0, None, None))], FIELDS)
    (row,) = found.removals(found.gone(), wide).to_pylist()
    assert (row["removed_ns"], row["life"], row["position"]) == (2, 1, 2)
    assert not len(found.open())
