from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import skerry.lake
from skerry.errors import PipelineError
from skerry.lake import retention
from skerry.lake.retention import Dropped, retain
from skerry.spark.lake.delta import Table
from skerry.spark.lake.retention_limits import kept_from, write_kept
from skerry.spark.lake.store import TableStore
from tests.unit.lake.lakes import START_NS, VESSEL, S, fleet, held, put, update, write_plan

pytestmark = pytest.mark.slow
HOUR_S = 3600
NOW_NS = START_NS + 3 * HOUR_S * S
AGES = {"Vessel": 2 * HOUR_S * S}
CUT_NS = START_NS + HOUR_S * S


def tables(root: Path) -> Path:
    """Updates of three hours; some states end before the cut, one holds over it."""
    write_plan(root, VESSEL)
    for hour in range(3):
        rows = [update(hour * HOUR_S + n, n, speed=float(n)) for n in (1, 2, 3)]
        put(root, "updates", VESSEL, rows, {"hour": f"2026-11-15T{14 + hour}"})
    first = [held(1, 600, 1), held(2, HOUR_S, 2), held(3, HOUR_S + 3, 3, name="over the cut")]
    put(root, "history", VESSEL, first, {"bucket": "2026-11-15T1400"})
    put(root, "history", VESSEL, [held(5, 9, 4)], {"bucket": "2026-11-15T1400"})
    later = [held(HOUR_S + 1, HOUR_S + 2, 1)]
    put(root, "history", VESSEL, later, {"bucket": "2026-11-15T1500"})
    put(root, "latest", VESSEL, [held(2 * HOUR_S, None, 2)])
    edges = [(0, HOUR_S), (1800, 2 * HOUR_S)]
    for edge, until in edges:
        parts = {"edge_ns": str(START_NS + edge * S), "until_ns": str(START_NS + until * S)}
        put(root, "snapshots", VESSEL, [held(3, HOUR_S + 3, 3, name="over the cut")], parts)
    return root


def answers(root: Path) -> dict[int, Any]:
    lake = skerry.lake.open(root)
    instants = [CUT_NS + n * S for n in (0, 1, 2, 3, 4, HOUR_S, HOUR_S + 5)]
    return {at_ns: sorted(map(repr, lake.asof("Vessel", at_ns).to_pylist())) for at_ns in instants}


def test_queries_after_the_cutoff_have_the_same_results(tmp_path: Path) -> None:
    root = tables(tmp_path / "my lake")
    before = answers(root)
    (planned,) = retain(root, AGES, now_ns=NOW_NS, dry_run=True)
    assert (planned.updates, planned.states, planned.rollups) == (3, 3, 0)
    assert kept_from(TableStore(root)) == {}
    assert retain(root, AGES, now_ns=NOW_NS) == [
        Dropped(type_name="Vessel", before_ns=CUT_NS, updates=3, states=3, rollups=3)
    ]
    assert answers(root) == before
    lake = skerry.lake.open(root)
    with pytest.raises(PipelineError, match="are kept only from 2026-11-15T15:00:00Z"):
        lake.asof("Vessel", CUT_NS - 1)
    with pytest.raises(PipelineError, match="are kept only from"):
        lake.asof(None, CUT_NS - 1)
    recorded = lake.recorded("Vessel")
    assert recorded is not None
    assert recorded.first_ns >= CUT_NS
    sizes = {info.name: (info.rows, info.files) for info in lake.tables()}
    assert sizes["history/Vessel"] == (2, 2)
    assert sizes["snapshots/Vessel"] == (1, 1)
    figures = lake.sql("SELECT mmsi, speed.mean AS mean FROM rollups.Vessel ORDER BY 1").to_pylist()
    assert figures == [{"mmsi": n, "mean": float(n)} for n in (1, 2, 3)]
    for name in ("updates", "history", "rollups", "latest"):
        # Its own reader does not find files below a folder with a blank in its name.
        frame = pl.read_delta(str(root / name / "Vessel"), use_pyarrow=True)
        assert frame.height == sizes[f"{name}/Vessel"][0]


def test_nothing_is_dropped_twice_and_an_age_that_grows_brings_nothing_back(
    tmp_path: Path,
) -> None:
    root = tables(tmp_path)
    retain(root, AGES, now_ns=NOW_NS)
    assert retain(root, AGES, now_ns=NOW_NS) == []
    assert retain(root, {"Vessel": 99 * HOUR_S * S}, now_ns=NOW_NS) == []
    assert kept_from(TableStore(root)) == {"Vessel": CUT_NS}
    (more,) = retain(root, {"Vessel": HOUR_S * S}, now_ns=NOW_NS)
    assert (more.updates, more.rollups) == (3, 3)
    assert skerry.lake.open(root).table("rollups/Vessel").to_arrow().num_rows == 6
    assert retain(root, {"Nothing": 1}, now_ns=NOW_NS) == []


class Killed(BaseException):
    """As if the process were gone."""


@pytest.mark.parametrize("step", range(5))
def test_a_run_that_is_killed_is_brought_to_its_end_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    root = tables(tmp_path)
    before = answers(root)
    steps = 0

    def dying(real: Any) -> Any:
        def step_of(*words: Any, **named: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps > step:
                raise Killed
            return real(*words, **named)

        return step_of

    with monkeypatch.context() as patched:
        patched.setattr(Table, "commit", dying(Table.commit))
        patched.setattr(retention, "write_kept", dying(write_kept))
        with pytest.raises(Killed):
            retain(root, AGES, now_ns=NOW_NS)
    assert answers(root) == before
    retain(root, AGES, now_ns=NOW_NS)
    assert answers(root) == before
    lake = skerry.lake.open(root)
    assert lake.between("Vessel").to_arrow().num_rows == 6
    assert lake.table("rollups/Vessel").to_arrow().num_rows == 3


def test_types_without_old_rows_are_left_alone(tmp_path: Path) -> None:
    root = fleet(tmp_path)
    assert retain(root, {"Vessel": HOUR_S * S, "Hail": HOUR_S * S}, now_ns=START_NS) == []
    assert kept_from(TableStore(root)) == {}
