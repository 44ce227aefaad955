"""Questions to tables without Spark: by command, and beside DuckDB and polars on the same files.

The commands are whole processes, the start of Python included, on tables with as many rows as ten
minutes of a small system. Beside the peers the table has four million states of 50 000 objects in
40 hours. All three are queried again each time, from the log of the table to the last row; the
peers get the condition as their users would write it. Tables are written here by Arrow.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

import skerry
import skerry.lake
from benchmarks.rows import Row
from skerry.spark.lake.catalog import DIVIDED_BY, table_schema
from skerry.spark.lake.data_files import DataFile, TableChange, column_ranges
from skerry.spark.lake.delta import Table
from skerry.spark.lake.lake import Lake, delta_schema
from skerry.spark.lake.plans import Plan, TypeState
from skerry.spark.lake.schema import typed_schema
from skerry.spark.lake.store import TableStore

START_NS = 1_794_700_800_000_000_000
HOUR_NS = 3_600_000_000_000
TYPE: Any = skerry.define_types("""
struct BenchTrack { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; 4: float64 lon;
                    5: int32 course; }
""").BenchTrack
STATE = TypeState(table="BenchTrack", schema=typed_schema([TYPE.descriptor]), is_cached=True)
SMALL = (143_000, 200, 1)
"""States, objects and hours."""
LARGE = (4_000_000, 50_000, 40)
COMMAND_S_MAX = 1.0


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small"), Path(folder, "large")
        fill(small, *SMALL)
        fill(large, *LARGE)
        return [*command_rows(small), *peer_rows(large)]


def command_rows(lake: Path) -> list[Row]:
    """A whole command, from the shell to its last line."""
    first, last = START_NS + HOUR_NS // 4, START_NS + HOUR_NS // 3
    times = ("--from", str(first), "--to", str(last))
    questions = {
        "asof": ("--at", str(first)),
        "between": times,
        "diff": times,
    }
    rows = []
    for name, words in questions.items():
        command = [sys.executable, "-P", "-m", "skerry", "pipeline", name, "--tables", str(lake)]
        command += ["--type", "BenchTrack", "--limit", "20", *words]

        def ask(command: list[str] = command) -> None:
            subprocess.run(command, check=True, capture_output=True)

        (seconds,) = in_turns([ask], rounds=5)
        rows.append(
            Row(
                name=f"pipeline {name}, 143 000 rows, with the start of Python",
                ours=seconds,
                unit="s",
                goal=COMMAND_S_MAX,
                is_less_better=True,
            )
        )
    return rows


def peer_rows(lake: Path) -> list[Row]:
    """The objects at an instant in the middle of many states."""
    at_ns = START_NS + 20 * HOUR_NS + 7
    tables = [str(lake / kind / "BenchTrack") for kind in ("history", "latest")]

    def ours() -> int:
        return int(skerry.lake.open(lake).asof("BenchTrack", at_ns).to_arrow().num_rows)

    def by_duckdb() -> int:
        files = [f for table in tables for f in DeltaTable(table).file_uris()]
        query = (
            "SELECT * FROM read_parquet($1, union_by_name = true) "
            f"WHERE valid_from_ns <= {at_ns} AND coalesce(valid_to_ns > {at_ns}, true)"
        )
        found: Any = duckdb.sql(query, params=[files])
        return int(found.to_arrow_table().num_rows)

    def by_polars() -> int:
        begun = pl.col("valid_from_ns") <= at_ns
        held = pl.col("valid_to_ns").is_null() | (pl.col("valid_to_ns") > at_ns)
        frames = [pl.scan_delta(table).filter(begun & held).collect() for table in tables]
        return sum(frame.height for frame in frames)

    found: list[Callable[[], int]] = [ours, by_duckdb, by_polars]
    assert len({ask() for ask in found}) == 1, "all find the same objects"
    mine, duck, bear = in_turns(found, rounds=8)
    return [
        Row(
            name="an instant, 4 million states, wall time",
            ours=mine,
            theirs=theirs,
            peer=peer,
            unit="s",
            is_less_better=True,
        )
        for peer, theirs in (("DuckDB", duck), ("polars", bear))
    ]


def in_turns(functions: Sequence[Callable[[], object]], *, rounds: int) -> list[float]:
    """Seconds of each, the best of some rounds in turns: peers read by threads of their own."""
    best = [float("inf")] * len(functions)
    for _ in range(rounds):
        for index, function in enumerate(functions):
            started_s = time.perf_counter()
            function()
            best[index] = min(best[index], time.perf_counter() - started_s)
    return best


# -- tables


def fill(root: Path, states: int, objects: int, hours: int) -> None:
    Lake(None, root).write_plan(Plan(number=0, types={"BenchTrack": STATE}))  # type: ignore[arg-type]
    step_ns = hours * HOUR_NS // states
    numbers = np.arange(states)
    begun = START_NS + numbers * step_ns
    # Each object has a state, then all others have one, and so on.
    ended = begun + objects * step_ns
    is_open = ended >= START_NS + states * step_ns
    for hour in range(hours):
        own = (begun - START_NS) // HOUR_NS == hour
        put(root, "history", objects, numbers[own & ~is_open], begun, ended, {"bucket": str(hour)})
        put(root, "updates", objects, numbers[own], begun, None, {"hour": str(hour)})
    put(root, "latest", objects, numbers[is_open], begun, None, {"part": "0"})


def put(
    root: Path, kind: str, count: int, numbers: Any, begun: Any, ended: Any, parts: dict[str, str]
) -> None:
    """One file with a row for each of these states, of so many objects in turn."""
    if not len(numbers):
        return
    schema = table_schema(kind, STATE.schema)
    inside = pa.schema([field for field in schema if field.name not in DIVIDED_BY[kind]])
    objects = numbers % count
    since = pa.array(begun[numbers])
    known = {
        **dict.fromkeys(("order_ns", "time_ns", "valid_from_ns"), since),
        "valid_to_ns": None if ended is None else pa.array(ended[numbers]),
        "key": pa.array([int(n).to_bytes(4, "big") for n in objects]),
        **dict.fromkeys(("position", "sequence"), pa.array(numbers)),
        **dict.fromkeys(("mmsi", "course"), pa.array(objects)),
        **dict.fromkeys(("lat", "lon"), pa.array(numbers / 7)),
        "operation": pa.array(np.full(len(numbers), 2, np.int8)),
    }
    texts = dict.fromkeys(("space", "subject", "type", "name", "source"), "track")
    numbers_ = dict.fromkeys(("node", "sender", "life", "present"), 1)
    arrays = []
    for field in inside:
        value = known.get(field.name)
        if value is None and field.name in {**texts, **numbers_}:
            value = pa.repeat({**texts, **numbers_}[field.name], len(numbers))
        column = pa.nulls(len(numbers), field.type) if value is None else value.cast(field.type)
        arrays.append(column)
    store, name = TableStore(root), f"{kind}/BenchTrack"
    table = Table(store, name)
    place = f"{next(iter(parts.values()))}.parquet"
    (root / name).mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(arrays, schema=inside), root / name / place, compression="snappy")
    low, high = column_ranges(pq.read_metadata(root / name / place))
    size = (root / name / place).stat().st_size
    file = DataFile(path=place, byte_count=size, rows=len(numbers), parts=parts, low=low, high=high)
    change = TableChange(
        table=name, schema=delta_schema(schema), divided_by=DIVIDED_BY[kind], added=(file,)
    )
    table.commit(change, application="bench", version=table.version_of("bench") + 1)
