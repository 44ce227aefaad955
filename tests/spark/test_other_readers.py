"""What others read: every table after compaction, retention and vacuum.

The folder has a blank in its name.

Statistics in the logs are what lets them skip files, so they are held against the rows.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import skerry
import skerry.lake
from skerry.lake.retention import retain
from skerry.spark.jobs.derived_tables import build_derived
from skerry.spark.jobs.maintenance import compact, vacuum
from skerry.spark.lake.lake import Lake, LakeConfig
from tests.spark.lakes import BothTables, Emitter, Pipeline, record

pytestmark = pytest.mark.slow
TYPES = skerry.define_types("""
struct Spot { 1: float64 lat; 2: float64 lon; }
struct Vessel {
    1: [key] uint32 mmsi; 2: string name; 3: float64 speed; 4: timepoint seen; 5: Spot spot;
    6: vector<int32> marks; 7: bool is_on; 8: uint64 big;
}
""")
Vessel: Any = TYPES.Vessel
HOUR_S = 3600
BATCHES = 3


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("others")
    config = LakeConfig(snapshot_rows=8, bucket_s=HOUR_S)
    pipeline = Pipeline(spark, folder / "recordings", folder / "my lake", config)
    emitter = Emitter()
    for _ in range(BATCHES):
        updates = []
        for n in range(12):
            emitter.now_ns += 600 * 10**9
            vessel = Vessel(mmsi=n % 4, speed=n / 4, big=n, is_on=True, marks=[n])
            vessel.name = f"{'long ' * 10}{n}" if n == 3 else f"v{n}"
            vessel.seen = emitter.now_ns / 1e9 + 0.0000015
            vessel.spot = TYPES.Spot(lat=n / 2)
            updates.append(emitter.create(vessel) if n < 4 else emitter.update(vessel))
        record(pipeline.recordings, updates, Vessel)
        pipeline.run()
    build_derived(pipeline.lake)
    return folder / "my lake"


def tables_of(lake: Path) -> list[str]:
    return [info.name for info in skerry.lake.open(lake).tables() if info.rows]


def test_statistics_match_the_rows_of_the_files(lake: Path) -> None:
    seen = set()
    for name in tables_of(lake):
        log = pa.table(DeltaTable(lake / name).get_add_actions(flatten=True))
        for file in log.to_pylist():
            rows = pq.ParquetFile(lake / name / file["path"]).read()
            assert file["num_records"] == rows.num_rows
            notified = {
                key[4:] for key, value in file.items() if key[:4] == "min." and value is not None
            }
            seen |= {(name, column) for column in notified}
            for column in notified:
                assert file[f"null_count.{column}"] == rows.column(column).null_count == 0
                extremes = pc.min_max(rows.column(column)).as_py()
                low, high = file[f"min.{column}"], file[f"max.{column}"]
                if isinstance(low, datetime):
                    low, high = (m.replace(tzinfo=m.tzinfo or UTC) for m in (low, high))
                    assert (extremes["min"] - low).total_seconds() < 0.001
                    assert (high - extremes["max"]).total_seconds() < 0.001
                else:
                    assert (low, high) == (extremes["min"], extremes["max"])
                assert low <= extremes["min"]
                assert high >= extremes["max"]
    assert {
        ("updates/Vessel", "mmsi"),
        ("updates/Vessel", "order_ns"),
        ("history/Vessel", "valid_from"),
        ("history/Vessel", "mmsi"),
        ("latest/Vessel", "valid_from_ns"),
        ("snapshots/Vessel", "mmsi"),
        ("rates", "minute"),
        ("links", "first"),
        ("sessions", "last"),
    } <= seen
    assert not [column for _, column in seen if column in ("speed", "spot", "marks", "is_on")]


def test_other_tools_read_every_table_after_all_operations(spark: Any, lake: Path) -> None:
    others_read_all(spark, lake)
    opened = Lake(spark, lake)
    assert compact(opened)
    others_read_all(spark, lake)
    before = {
        name: skerry.lake.open(lake).table(name).to_arrow().num_rows for name in tables_of(lake)
    }
    assert vacuum(opened, 0).file_count > 0
    after = {
        name: skerry.lake.open(lake).table(name).to_arrow().num_rows for name in tables_of(lake)
    }
    assert after == before
    recorded = skerry.lake.open(lake).recorded()
    assert recorded is not None
    instants = [recorded.last_ns - n * 600 * 10**9 for n in range(6)]
    tables = BothTables(spark, lake)
    answers = {
        at: sorted(map(repr, tables.other.asof("Vessel", at).to_pylist())) for at in instants
    }
    (dropped,) = retain(lake, {"Vessel": 2 * HOUR_S * 10**9}, now_ns=recorded.last_ns)
    assert dropped.updates
    vacuum(opened, 0)
    others_read_all(spark, lake)
    for at, answer in answers.items():
        tables.asof("Vessel", at)
        assert sorted(map(repr, tables.other.asof("Vessel", at).to_pylist())) == answer
    assert "rollups/Vessel" in tables_of(lake)


def others_read_all(spark: Any, lake: Path) -> None:
    opened = skerry.lake.open(lake)
    for name in tables_of(lake):
        rows = opened.table(name).to_arrow().num_rows
        log = DeltaTable(lake / name)
        assert log.to_pyarrow_dataset().count_rows() == rows
        # Polars' own reader takes the blank in the name of the folder for `%20`.
        assert pl.read_delta(str(lake / name), use_pyarrow=True).height == rows
        assert opened.table(name).to_polars().height == rows
        found: Any = duckdb.from_arrow(log.to_pyarrow_dataset())
        assert found.count("*").fetchall() == [(rows,)]
        view = name.replace("/", ".")
        assert opened.sql(f"SELECT count(*) AS n FROM {view}").to_pylist() == [{"n": rows}]
        if not name.startswith("rollups/"):
            assert BothTables(spark, lake).frame(name).count() == rows


def test_batches_after_retention_are_as_without_it(spark: Any, tmp_path: Path) -> None:
    emitter = Emitter()
    kept, cut = (
        Pipeline(spark, tmp_path / "recordings", tmp_path / name) for name in ("whole", "cut")
    )
    for number in range(3):
        updates = []
        for n in range(8):
            emitter.now_ns += 900 * 10**9
            # One vessel is only told of at the beginning, and holds over all.
            vessel = Vessel(mmsi=9 if number + n == 0 else n % 3, speed=float(n))
            updates.append(emitter.update(vessel))
        record(tmp_path / "recordings", updates, Vessel)
        kept.run()
        cut.run()
        assert retain(tmp_path / "cut", {"Vessel": HOUR_S * 10**9}, now_ns=emitter.now_ns)
    ours, theirs = BothTables(spark, tmp_path / "cut"), skerry.lake.open(tmp_path / "whole")
    recorded = ours.other.recorded()
    assert recorded is not None
    for at_ns in range(recorded.first_ns, recorded.last_ns + 1, 450 * 10**9):
        rows = [tuple(row) for row in ours.asof("Vessel", at_ns).select("key", "speed").collect()]
        wanted = [(row["key"], row["speed"]) for row in theirs.asof("Vessel", at_ns).to_pylist()]
        assert sorted(map(repr, rows)) == sorted(map(repr, wanted))
        assert len(rows) == 4
    figures = ours.other.table("rollups/Vessel").to_arrow()
    dropped = theirs.between("Vessel", None, recorded.first_ns).to_arrow().num_rows
    assert sum(figures["update_count"].to_pylist()) == dropped > 0
