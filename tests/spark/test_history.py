"""Tables of states against a plain model, over random streams of updates.

Many streams, each with nodes and objects of its own, go through the pipeline together: a job of
Spark takes as long for one of them as for all.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import skerry
import skerry.lake
from skerry.codec.envelope import CREATE, REMOVE, SNAPSHOT, UPDATE, Update
from skerry.spark.lake.lake import LakeConfig
from skerry.spark.tables import Tables
from tests.spark.lakes import KEPT, MANY, SECOND_NS, Emitter, Pipeline, record
from tests.spark.model import Said, State, Values, World, world_of

TYPES = skerry.define_types("""
struct Ship {
    1: [key] uint32 id;
    2: string name;
    3: float64 lat;
    4: vector<int32> marks;
}
""")
Ship: Any = TYPES.Ship
FIELDS = {1: "id", 2: "name", 3: "lat", 4: "marks"}
BATCH_COUNT = 2
STREAM_COUNT = 40
KEY_BIT = 1 << 1
TOGETHER = 32
"""Questions in one job."""
LENGTH_MIN = 4
"""Of the longest stream: what Hypothesis tries first is too simple to be worth a job of Spark."""

ONE = settings(
    max_examples=1,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)

steps = st.fixed_dictionaries(
    {
        "operation": st.sampled_from([CREATE, UPDATE, UPDATE, UPDATE, REMOVE, SNAPSHOT]),
        "object": st.integers(0, 1),
        "node": st.integers(0, 1),
        "name": st.sampled_from(["absent", "cleared", "a", "b"]),
        "lat": st.sampled_from(["absent", "cleared", 1.5, -2.5]),
        "marks": st.sampled_from(["absent", "cleared", [], [1, 2]]),
        # Half hours: streams share their instants, so each of them can be asked for.
        "seconds": st.sampled_from([0, 1800, 1800, 1800, 3600, -3600]),
    }
)
late_steps = st.tuples(steps, st.integers(0, BATCH_COUNT - 1), st.integers(-1, BATCH_COUNT - 1))
"""A step, the batch it comes with, and the one it comes with again, if any."""
streams = st.lists(late_steps, min_size=1, max_size=10)


def notified(number: int, stream: list[dict[str, Any]]) -> list[tuple[Update, Said]]:
    """The updates of a stream, which has two objects and two nodes of its own."""
    nodes = [Emitter(node=10 * number + index + 1) for index in (0, 1)]
    made = []
    for step in stream:
        emitter = nodes[step["node"]]
        obj = Ship(id=10 * number + step["object"])
        present = KEY_BIT
        if step["operation"] != REMOVE:
            for tag in (2, 3, 4):
                value = step[FIELDS[tag]]
                if value != "absent":
                    present |= 1 << tag
                if value not in ("absent", "cleared"):
                    setattr(obj, FIELDS[tag], value)
        emitter.now_ns += (step["seconds"] - 1) * SECOND_NS
        update = emitter.emit(obj, step["operation"], present=present)
        values = {tag: getattr(obj, FIELDS[tag]) for tag in FIELDS if obj.is_set(FIELDS[tag])}
        said = Said(
            key=update.key,
            operation=update.operation,
            present=present,
            values=values,
            node=update.node,
            position=update.position,
            time_ns=update.time_ns,
        )
        made.append((update, said))
    return made


def states(rows: list[Any]) -> list[State]:
    return [
        State(
            key=bytes(row.key),
            valid_from_ns=row.valid_from_ns,
            valid_to_ns=row.valid_to_ns,
            life=row.life,
            node=row.node,
            position=row.position,
            values={t: row[name] for t, name in FIELDS.items() if row[name] is not None},
        )
        for row in rows
    ]


def by_place(found: list[State]) -> list[State]:
    return sorted(found, key=lambda s: (s.key, s.valid_from_ns, s.node, s.position))


def check(spark: Any, lake: Path, expected: World) -> None:
    """The tables say what the model says, at every instant at which something changes."""
    tables = Tables(spark, lake)
    names = tables.names()
    read = {
        kind: tables.frame(f"{kind}/Ship").collect() if f"{kind}/Ship" in names else []
        for kind in ("history", "latest", "gone")
    }
    assert by_place(states(read["history"])) == by_place(expected.history)
    assert by_place(states(read["latest"])) == by_place(expected.latest)
    assert {bytes(row.key): row.life for row in read["gone"]} == expected.gone
    for row in (*read["history"], *read["latest"]):
        assert [row.valid_from, row.valid_to] == [
            *map(moment, (row.valid_from_ns, row.valid_to_ns))
        ]
    # Between two of them nothing changes: the last nanosecond before each stands for all.
    instants = [ns + step for ns in expected.changes_ns() for step in (-1, 0)]
    for engine, answers in (
        ("spark", asof_each(tables, instants)),
        ("lake", lake_asof_each(lake, instants)),
    ):
        for instant_ns, live in answers.items():
            assert live == expected.live_at(instant_ns), (engine, instant_ns)
    check_lake(lake, expected)


def moment(ns: int | None) -> datetime | None:
    """The timestamp that stands beside nanoseconds; Spark gives it in the zone of the computer."""
    if ns is None:
        return None
    local = datetime.fromtimestamp(ns // 10**9, UTC).astimezone().replace(tzinfo=None)
    return local.replace(microsecond=ns // 1000 % 10**6)


def asof_each(tables: Tables, instants: list[int]) -> dict[int, dict[bytes, Values]]:
    """What is answered for each instant; many questions are one job, which takes as long."""
    answers: dict[int, dict[bytes, Values]] = {instant_ns: {} for instant_ns in instants}
    for some in (instants[n : n + TOGETHER] for n in range(0, len(instants), TOGETHER)):
        frames = [
            tables.asof("Ship", at_ns).selectExpr(f"{at_ns}L at_ns", "key", *FIELDS.values())
            for at_ns in some
        ]
        for row in reduce(lambda a, b: a.union(b), frames).collect():
            values = {t: row[name] for t, name in FIELDS.items() if row[name] is not None}
            assert bytes(row.key) not in answers[row.at_ns], "an object is there once"
            answers[row.at_ns][bytes(row.key)] = values
    return answers


def lake_asof_each(lake: Path, instants: list[int]) -> dict[int, dict[bytes, Values]]:
    """The same by `skerry.lake`."""
    opened = skerry.lake.open(lake)
    answers: dict[int, dict[bytes, Values]] = {}
    for at_ns in instants:
        rows = opened.asof("Ship", at_ns).to_pylist()
        answers[at_ns] = {row["key"]: row_values(row) for row in rows}
        assert len(answers[at_ns]) == len(rows), "an object is there once"
    return answers


def check_lake(lake: Path, expected: World) -> None:
    """States, and what differs between two instants, as `skerry.lake` tells them."""
    opened = skerry.lake.open(lake)
    notified = {
        (row["key"], row["valid_from_ns"], row["valid_to_ns"], row["position"])
        for row in opened.history("Ship").to_pylist()
    }
    assert notified == {
        (state.key, state.valid_from_ns, state.valid_to_ns, state.position)
        for state in (*expected.history, *expected.latest)
    }
    changes = expected.changes_ns()
    first, second = changes[len(changes) // 3], changes[2 * len(changes) // 3]
    before, after = expected.live_at(first), expected.live_at(second)
    rows = opened.diff("Ship", first, second).to_pylist()
    changed = {row["key"]: row["change"] for row in rows if row["change"] != "replaced"}
    replaced = {row["key"] for row in rows if row["change"] == "replaced"}
    for key in {*before, *after} - replaced:
        wanted = "added" if key not in before else "removed" if key not in after else "changed"
        differs = before.get(key) != after.get(key)
        assert changed.get(key) == (wanted if differs else None), (key, first, second)
    assert replaced <= {*before} & {*after}


def row_values(row: dict[str, Any]) -> Values:
    return {t: row[name] for t, name in FIELDS.items() if row[name] is not None}


@pytest.mark.slow
@ONE
@given(
    st.lists(st.lists(steps, min_size=1, max_size=10), min_size=STREAM_COUNT, max_size=STREAM_COUNT)
)
def test_states_equal_the_model_if_all_rows_are_in_order(
    spark: Any, many: list[list[dict[str, Any]]]
) -> None:
    assume(max(map(len, many)) >= LENGTH_MIN)
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(spark, Path(folder, "recordings"), Path(folder, "lake"))
        # Of two nodes one may be behind the other, and what it says then comes late.
        alone = [[{**step, "node": 0} for step in stream] for stream in many]
        all_said = [notified(number, stream) for number, stream in enumerate(alone, 1)]
        for part in (0, 1):
            halves = [
                made[part * len(made) // 2 : (part + 1) * len(made) // 2] for made in all_said
            ]
            record(pipeline.recordings, [update for half in halves for update, _ in half], Ship)
            pipeline.run()
        check(spark, Path(folder, "lake"), world_of(said for m in all_said for _, said in m))


@pytest.mark.slow
@pytest.mark.parametrize("config", [KEPT, MANY], ids=["few", "many"])
@ONE
@given(many=st.lists(streams, min_size=STREAM_COUNT, max_size=STREAM_COUNT))
def test_states_equal_the_model_with_late_and_repeated_rows(
    spark: Any, config: LakeConfig, many: list[list[tuple[dict[str, Any], int, int]]]
) -> None:
    assume(max(map(len, many)) >= LENGTH_MIN)
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(spark, Path(folder, "recordings"), Path(folder, "lake"), config)
        batches: list[list[Update]] = [[] for _ in range(BATCH_COUNT)]
        all_said: list[Said] = []
        for number, stream in enumerate(many, 1):
            for (update, said), (_, first, again) in zip(
                notified(number, [step for step, _, _ in stream]), stream, strict=True
            ):
                all_said.append(said)
                for index in {first, again} - {-1}:
                    batches[index].append(update)
        for batch in batches:
            record(pipeline.recordings, batch, Ship)
            pipeline.run()
        check(spark, Path(folder, "lake"), world_of(all_said))
