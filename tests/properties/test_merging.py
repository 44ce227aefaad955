"""Random streams through batches that the driver merges itself: no Spark is needed for that."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from skerry.codec.envelope import Update
from skerry.spark.jobs.batch import process_batch
from skerry.spark.jobs.maintenance import maintain
from skerry.spark.lake.lake import Lake, LakeConfig
from tests.spark.lakes import BARE, Emitter, all_ranges, record
from tests.spark.model import Said, State, in_order, world_of
from tests.spark.test_history import (
    BATCH_COUNT,
    FIELDS,
    Ship,
    by_place,
    late_steps,
    notified,
    steps,
)

DRIVER: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[1]"))
PARTED = LakeConfig(derived=(), part_rows=1)
"""Nearly each object has a part of its own, and parts become more with each batch."""


def rows(lake: Path, kind: str) -> list[dict[str, Any]]:
    place = lake / kind / "Ship"
    if not place.exists():
        return []
    found: list[dict[str, Any]] = pa.table(DeltaTable(place).to_pyarrow_table()).to_pylist()
    return found


def states(found: list[dict[str, Any]]) -> list[State]:
    return [
        State(
            key=row["key"],
            valid_from_ns=row["valid_from_ns"],
            valid_to_ns=row["valid_to_ns"],
            life=row["life"],
            node=row["node"],
            position=row["position"],
            values={tag: row[name] for tag, name in FIELDS.items() if row[name] is not None},
        )
        for row in found
    ]


@settings(max_examples=25, deadline=None, phases=[Phase.generate])
@given(
    st.lists(st.lists(steps, min_size=1, max_size=12), min_size=1, max_size=5),
    st.sampled_from([BARE, PARTED]),
)
def test_states_equal_the_model(many: list[list[dict[str, Any]]], config: LakeConfig) -> None:
    # Of two nodes one may be behind the other: rows that follow others are late.
    all_said = [notified(number, stream) for number, stream in enumerate(many, 1)]
    batches: list[list[Update]] = []
    for part in range(3):
        cuts = [made[part * len(made) // 3 : (part + 1) * len(made) // 3] for made in all_said]
        # Twice: what a second recorder has heard is known.
        batches.append([update for cut in cuts for update, _ in cut] * 2)
    assert merged_counts(batches, [said for m in all_said for _, said in m], config) == [
        len(batch) // 2 for batch in batches if batch
    ]


@settings(max_examples=60, deadline=None, phases=[Phase.generate])
@given(
    st.lists(st.lists(late_steps, min_size=1, max_size=12), min_size=1, max_size=5),
    st.sampled_from([BARE, PARTED]),
)
def test_states_equal_the_model_with_late_and_repeated_rows(
    many: list[list[tuple[dict[str, Any], int, int]]], config: LakeConfig
) -> None:
    batches: list[list[Update]] = [[] for _ in range(BATCH_COUNT)]
    all_said = []
    for number, stream in enumerate(many, 1):
        for (update, said), (_, first, again) in zip(
            notified(number, [step for step, _, _ in stream]), stream, strict=True
        ):
            all_said.append(said)
            for index in {first, again} - {-1}:
                batches[index].append(update)
    assert sum(merged_counts(batches, all_said, config)) == len(all_said)


def merged_counts(
    batches: list[list[Update]], all_said: list[Said], config: LakeConfig
) -> list[int]:
    """How many rows each batch brings, once the tables say what the model says."""
    expected = world_of(all_said)
    counts = []
    with tempfile.TemporaryDirectory() as folder:
        place, lake = Path(folder, "recordings"), Path(folder, "lake")
        seen: dict[str, int] = {}
        # An empty batch is not planned.
        for batch in filter(None, batches):
            record(place, batch, Ship)
            ranges = all_ranges(place, seen)
            plan = process_batch(Lake(DRIVER, lake, config), [str(place)], ranges)
            counts.append(plan.row_count)
            seen |= {name: stop for name, _, stop in ranges}
        assert by_place(states(rows(lake, "history"))) == by_place(expected.history)
        assert by_place(states(rows(lake, "latest"))) == by_place(expected.latest)
        assert {row["key"]: row["life"] for row in rows(lake, "gone")} == expected.gone
        updates = {(row["node"], row["position"]): row for row in rows(lake, "updates")}
        assert {at: row["order_ns"] for at, row in updates.items()} == {
            (said.node, said.position): order_ns for order_ns, said in in_order(all_said)
        }
        assert len(rows(lake, "updates")) == len(updates)
    return counts


def test_files_of_many_small_batches_are_compacted(tmp_path: Path) -> None:
    place, lake = tmp_path / "recordings", Lake(DRIVER, tmp_path / "lake", BARE)
    emitter = Emitter()
    seen: dict[str, int] = {}
    count = 0
    for _ in range(70):
        record(place, [emitter.update(Ship(id=1, lat=float(emitter.position)))], Ship)
        ranges = all_ranges(place, seen)
        with lake.batch():
            plan = process_batch(lake, [str(place)], ranges)
            maintain(lake, plan)
        seen = {name: stop for name, _, stop in ranges}
        count = max(count, *(len(lake.table(name).files()) for name in lake.names()))
    assert BARE.compact_files > count >= BARE.compact_files - 1
    assert len(rows(tmp_path / "lake", "updates")) == 70
    assert len(rows(tmp_path / "lake", "history")) == 69
