"""The demo's fleet at a real node, recorded and brought into tables: what others read there.

Node, recorder and pipeline are real processes. The tables are made once; then DuckDB and polars
read them, every question of the cookbook is asked, and the catalogue in the guide is held against
the columns there are. Beside the fleet there are buoys, one with a time that no table can hold, and
one with a field that no definition has: what is in the column `unknown`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import cbor2
import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

import skerry
import skerry.lake
from skerry.apps.demo.fleet import Fleet
from skerry.lake.retention import rollup_schema
from skerry.spark.tables import Tables
from tests.spark.lakes import BothTables, Emitter, record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
SKERRY = (sys.executable, "-m", "skerry")
COUNT, STEPS = 6, 25
BUOY = "struct Buoy { 1: [key] uint32 id; 2: string name; 3: timepoint laid; %s}"
Buoy: Any = skerry.define_types(BUOY % "").Buoy
NewerBuoy: Any = skerry.define_types(BUOY % "9: float64 depth; ").Buoy
FAR_S, DEPTH = 1e12, 12.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Voyage:
    """What really happened, and where its tables are."""

    lake: Path
    positions: dict[int, tuple[float | None, float | None]]
    """Of the vessels that were there at the end, by their number."""
    published_count: int


@contextmanager
def process(state: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs meanwhile, and is ended whatever happens."""
    environment = {**os.environ, "SKERRY_STATE_DIR": str(state), "SKERRY_RUNTIME_DIR": str(state)}
    with subprocess.Popen(
        [*SKERRY, *arguments], stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        try:
            yield running
        finally:
            running.send_signal(signal.SIGTERM)
            try:
                running.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                running.kill()


def wait_line(running: subprocess.Popen[str], words: str) -> None:
    assert running.stderr is not None
    said = []
    for line in running.stderr:
        said.append(line)
        if words in line:
            return
    raise AssertionError("".join(said))


def record_buoys(folder: Path) -> None:
    """What a newer program said, beside the definition that an older one knows.

    Nodes and groups carry fields that no definition has, and a recording keeps them.
    """
    emitter = Emitter(now_ns=time.time_ns())
    plain = emitter.create(Buoy(id=2, name="Fladen"))
    newer = NewerBuoy(id=3, name="Anholt", depth=DEPTH)
    notified = emitter.create(Buoy(id=3), present=int(newer.attributes))
    record(folder, [plain, notified.replace(payload=newer.encode())], Buoy)


@pytest.fixture(scope="module")
def voyage(tmp_path_factory: pytest.TempPathFactory) -> Voyage:
    folder = tmp_path_factory.mktemp("fleet")
    place = f"uds:{folder}/node.sock"
    recordings, lake = folder / "recordings", folder / "lake"
    record_buoys(recordings / "buoys")
    with (
        process(folder, "node", "run", "--listen", place),
        skerry.connect(place, name="fleet", wait=True) as space,
    ):
        with process(folder, "record", "--to", f"{recordings}/fleet", "--node", place) as recorder:
            wait_line(recorder, "recording to")
            fleet = Fleet(space, Random(5), count=COUNT)
            now_s = time.time()
            for step in range(STEPS):
                fleet.step(now_s=now_s + step, elapsed_s=2.0)
            space.publish(Buoy(id=1, name="Trindelen", laid=FAR_S))
            space.flush()
            # The node stays until the recorder has sealed: vessels go with their publisher.
        positions = {mmsi: (v.lat, v.lon) for mmsi, v in fleet.vessels.items()}
    command = [*SKERRY, "pipeline", "run", "--master", "local[2]", "--memory", "1g", "--json"]
    done = subprocess.run(
        [*command, "--recordings", str(recordings), "--tables", str(lake)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["backlog"] == 0
    return Voyage(lake=lake, positions=positions, published_count=fleet.published_count)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, voyage: Voyage) -> Tables:
    return BothTables(spark, voyage.lake)


# -- what others read


def shown(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in an order of their own, as text; a time is the same in every zone."""
    return sorted(
        json.dumps({k: _plain(v) for k, v in sorted(row.items())}, sort_keys=True) for row in rows
    )


def _plain(value: Any) -> Any:
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1e6)
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        # A map is a dict for some, and for Arrow a list of pairs.
        is_map = bool(value) and all(isinstance(item, tuple) for item in value)
        return _plain(dict(value)) if is_map else [_plain(item) for item in value]
    return value


def duckdb_rows(source: str, columns: list[str], **named: Any) -> list[dict[str, Any]]:
    """What DuckDB reads; `named` is what the source speaks of."""
    chosen = ", ".join(f'"{column}"' for column in columns)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, value in named.items():
            connection.register(name, value)
        found = connection.sql(f"SELECT {chosen} FROM {source}").to_arrow_table()
        return list(found.to_pylist())


def files_rows(files: list[str], columns: list[str]) -> list[dict[str, Any]]:
    """What DuckDB reads from the files of a table, without its log."""
    places = ", ".join("'" + place.replace("'", "''") + "'" for place in files)
    options = "hive_partitioning = true, hive_types_autocast = false"
    rows = duckdb_rows(f"read_parquet([{places}], {options})", columns)
    if "part" in columns:  # text in the name of a folder
        return [{**row, "part": int(row["part"])} for row in rows]
    return rows


def test_duckdb_and_polars_read_what_spark_reads(tables: Tables, voyage: Voyage) -> None:
    names = tables.names()
    made = {"updates/Vessel", "history/Vessel", "latest/Vessel", "gone/Vessel", "latest/Voyage"}
    assert made | {"alarms", "links", "rates", "sessions", "updates/Buoy"} <= set(names)
    for name in names:
        frame = tables.frame(name)
        columns = frame.columns
        spark_rows = shown(frame.toArrow().to_pylist())
        place = str(voyage.lake / name)
        table = DeltaTable(place)
        by_log = duckdb_rows("dataset", columns, dataset=table.to_pyarrow_dataset())
        assert shown(by_log) == spark_rows, name
        assert shown(pl.scan_delta(place).select(columns).collect().to_dicts()) == spark_rows, name
        if table.file_uris():
            assert shown(files_rows(table.file_uris(), columns)) == spark_rows, name
    assert tables.frame("updates/Vessel").count() > COUNT * STEPS / 2


def test_all_tools_read_the_column_unknown(tables: Tables, voyage: Voyage) -> None:
    place, columns = str(voyage.lake / "updates/Buoy"), ["id", "name", "unknown"]
    wanted = shown(
        [
            {"id": 1, "name": "Trindelen", "unknown": {3: cbor2.dumps(FAR_S)}},
            {"id": 2, "name": "Fladen", "unknown": None},
            {"id": 3, "name": "Anholt", "unknown": {9: cbor2.dumps(DEPTH)}},
        ]
    )
    files = DeltaTable(place).file_uris()
    assert shown(tables.frame("updates/Buoy").select(*columns).toArrow().to_pylist()) == wanted
    assert shown(pl.scan_delta(place).select(columns).collect().to_dicts()) == wanted
    assert shown(files_rows(files, columns)) == wanted


def test_latest_is_where_the_vessels_really_are(tables: Tables, voyage: Voyage) -> None:
    rows = tables.frame("latest/Vessel").select("mmsi", "lat", "lon").collect()
    assert {row.mmsi: (row.lat, row.lon) for row in rows} == voyage.positions


def test_every_update_of_the_fleet_is_in_the_tables_once(tables: Tables, voyage: Voyage) -> None:
    counts = [
        tables.frame(f"updates/{name}").where("operation <> 5").count()
        for name in ("Vessel", "Voyage")
    ]
    assert sum(counts) == voyage.published_count


# -- the cookbook

QUESTION = re.compile(r"^## (\d+)\. (.+?)$.*?```sql\n(.*?)```", re.MULTILINE | re.DOTALL)
PAGE = (ROOT / "docs/guides/pipeline-cookbook.md").read_text(encoding="utf-8")
QUESTIONS = QUESTION.findall(PAGE)
NOTHING = {"9"}
"""Nothing is missing, and it must not look so."""


def test_the_cookbook_has_ten_queries() -> None:
    assert [number for number, _, _ in QUESTIONS] == [str(n) for n in range(1, 11)]


@pytest.fixture(scope="module")
def asked(spark: SparkSession, tables: Tables) -> dict[str, Any]:
    for name in tables.names():
        view = name.replace("/", "_").replace("@", "_")
        tables.frame(name).createOrReplaceTempView(view)
    there = tables.frame("latest/Vessel").select("mmsi", "valid_from_ns").collect()
    last = there[0]
    return {"mmsi": last.mmsi, "at_ns": last.valid_from_ns, "miles": 5.0, "there": there}


@pytest.mark.parametrize(("number", "title", "query"), QUESTIONS)
def test_each_query_of_the_cookbook_has_rows(
    spark: SparkSession, tables: Tables, asked: dict[str, Any], number: str, title: str, query: str
) -> None:
    wanted = {name: value for name, value in asked.items() if f":{name}" in query}
    rows = spark.sql(query, args=wanted).collect()
    assert bool(rows) == (number not in NOTHING), title


def test_lives_end_with_the_sender_of_the_remove(
    spark: SparkSession, asked: dict[str, Any]
) -> None:
    (query,) = (query for number, _, query in QUESTIONS if number == "4")
    rows = spark.sql(query).collect()
    assert {row.removed_by for row in rows if row.seconds is not None} == {"fleet"}
    assert sum(row.seconds is None for row in rows) == len(asked["there"])


def test_track_ends_where_the_vessel_is(
    spark: SparkSession, voyage: Voyage, asked: dict[str, Any]
) -> None:
    (query,) = (query for number, _, query in QUESTIONS if number == "2")
    *_, last = spark.sql(query, args={"mmsi": asked["mmsi"]}).collect()
    assert (last.lat, last.lon) == voyage.positions[asked["mmsi"]]


# -- the catalogue


def documented() -> dict[str, list[str]]:
    """The columns of each table that the guide names."""
    page = (ROOT / "docs/guides/pipeline.md").read_text(encoding="utf-8")
    found = {}
    for part in page.split("\n### ")[1:]:
        name = part.partition("\n")[0].strip()
        first_table = part.partition("| column |")[2].partition("\n\n")[0]
        found[name] = re.findall(r"^\| `(\w+)` \|", first_table, re.MULTILINE)
    return found


def test_guide_names_every_column_and_no_other(tables: Tables, voyage: Voyage) -> None:
    from skerry.spark.lake.catalog import table_schema

    fields = {"mmsi", "name", "kind", "lat", "lon", "course", "speed", "seen", "unknown"}
    guide = documented()
    for name in ("updates/T", "history/T", "latest/T"):
        real = set(tables.frame(name.replace("/T", "/Vessel")).columns) - fields
        assert set(guide.pop(name)) == real, name
    for name in ("gone/T", "snapshots/T", "raw"):
        kind = name.removesuffix("/T")
        assert set(guide.pop(name)) == set(table_schema(kind).names), name
    for name in ("rates", "links", "sessions", "alarms"):
        assert guide.pop(name) == tables.frame(name).columns, name
    vessel = skerry.lake.open(voyage.lake).type_tables("Vessel")
    assert set(guide.pop("rollups/T")) == set(rollup_schema(vessel).names) - fields
    assert guide == {}
