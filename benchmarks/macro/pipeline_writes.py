"""The rate at which recordings become tables, and the age of updates when `follow` commits them.

Ours begins with segments and ends with committed tables: it reads, decodes, removes doubles,
orders, merges, and writes updates, history, latest and what is derived. The peers begin with the
decoded updates as one Parquet file and write history and latest, so they have less to do. All are
measured by the clock of the wall, from the call to its return; a session of Spark is there before.

Freshness is from the time an update entered the recording until its batch is committed, of 2000
updates a second of ten types, in segments of two seconds as a recorder closes them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

import skerry
from benchmarks.rows import Row
from skerry.codec.envelope import CREATE, UPDATE
from skerry.objects.base import key_of
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.recordings.config import Durability, RecordingConfig
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint
from skerry.spark.jobs.loop import Progress, follow, run_all
from skerry.spark.lake.lake import Lake
from skerry.spark.startup.session import session

START_NS = 1_794_751_200_000_000_000
ROW_COUNT = 5_000_000
OBJECT_COUNT = 100_000
SMALL_COUNT = 143_000
SMALL_TYPES = 30
FRESH_S = 60
FRESH_RATE = 2000
FRESH_TYPES = 10
SEAL_S = 2.0

FIELDS = "1: [key] uint32 id; 2: float64 lat; 3: float64 lon; 4: uint32 number; 5: string name;"
TYPES = skerry.define_types("".join(f"struct T{n} {{ {FIELDS} }}\n" for n in range(SMALL_TYPES)))
CLASSES: list[Any] = [getattr(TYPES, f"T{n}") for n in range(SMALL_TYPES)]
NUMBERS = [fingerprint(cls.descriptor) for cls in CLASSES]


def run() -> list[Row]:
    """Rows for many updates of one type, few of many types, and freshness."""
    spark = session("local[2]", app_name="benchmark")
    with tempfile.TemporaryDirectory() as folder:
        try:
            small = small_rows(spark, Path(folder))
            return [*small, *large_rows(spark, Path(folder)), *fresh_rows(spark, Path(folder))]
        finally:
            spark.stop()


def large_rows(spark: Any, folder: Path) -> list[Row]:
    write(folder / "large", ROW_COUNT, types=1, objects=OBJECT_COUNT)
    lake = folder / "large-lake"
    ours = ROW_COUNT / spent_s(lambda: run_all(Lake(spark, lake), folder / "large"))
    updates = folder / "updates.parquet"
    files = [
        str(path) for path in lake.glob("updates/T0/**/*.parquet") if "_delta" not in str(path)
    ]
    duckdb.execute(f"copy (from read_parquet({files!r})) to '{updates}'")
    duck = ROW_COUNT / spent_s(lambda: by_duckdb(updates, folder))
    polars = ROW_COUNT / spent_s(lambda: by_polars(updates, folder))
    name = "5 million recorded rows to tables"
    return [
        Row(name=name, ours=ours, unit="rows/s", goal=150_000),
        Row(name=name, ours=ours, theirs=duck, unit="rows/s", peer="DuckDB, merge alone"),
        Row(name=name, ours=ours, theirs=polars, unit="rows/s", peer="polars, merge alone"),
    ]


def small_rows(spark: Any, folder: Path) -> list[Row]:
    write(folder / "small", SMALL_COUNT, types=SMALL_TYPES, objects=50)
    run_all(Lake(spark, folder / "first"), folder / "small")
    took = spent_s(lambda: run_all(Lake(spark, folder / "second"), folder / "small"))
    name = "143 000 rows of 30 types to tables"
    return [
        Row(name=f"{name}, warm", ours=took, unit="s", goal=6, is_less_better=True),
        Row(
            name=f"{name}, with the start of the command and the JVM",
            ours=spent_s(lambda: run_command(folder)),
            unit="s",
            goal=20,
            is_less_better=True,
        ),
    ]


def run_command(folder: Path) -> None:
    """`skerry pipeline run` as a user starts it."""
    options = ["--recordings", str(folder / "small"), "--tables", str(folder / "third")]
    command = [sys.executable, "-P", "-m", "skerry", "pipeline", "run", *options]
    subprocess.run(command, check=True, capture_output=True)


def fresh_rows(spark: Any, folder: Path) -> list[Row]:
    ages = sorted(ages_s(spark, folder))
    rows = []
    for share, goal in ((0.5, 5.0), (0.9, 10.0)):
        age = ages[int(len(ages) * share)]
        name = f"age of an update when its tables are committed, p{share * 100:.0f}"
        rows.append(Row(name=name, ours=age, unit="s", goal=goal, is_less_better=True))
    return rows


def ages_s(spark: Any, folder: Path) -> list[float]:
    """The age of each update when its table was committed, without the first ten seconds."""
    place = folder / "fresh"
    sealed: list[list[int]] = []
    is_over = threading.Event()
    writer = threading.Thread(target=publish, args=(place, sealed, is_over))
    writer.start()
    ages: list[float] = []
    seen = 0
    first_ns = wall_ns() + 10 * 10**9

    def watch(progress: Progress) -> None:
        nonlocal seen
        now_ns = wall_ns()
        while seen < len(sealed) and progress.row_count >= sum(map(len, sealed[: seen + 1])):
            ages.extend((now_ns - ns) / 1e9 for ns in sealed[seen] if ns > first_ns)
            seen += 1

    while not place.exists() or not sealed:
        time.sleep(0.1)
    follow(
        Lake(spark, folder / "fresh-lake"),
        place,
        on_progress=watch,
        is_stopping=lambda: is_over.is_set() and seen == len(sealed),
    )
    writer.join()
    return ages


def publish(place: Path, sealed: list[list[int]], is_over: threading.Event) -> None:
    started = time.monotonic()
    position = 0
    with RecordingWriter(place, RecordingConfig(durability=Durability.NONE), space="b") as writer:
        for cls in CLASSES[:FRESH_TYPES]:
            writer.describe(cls.descriptor)
        while time.monotonic() - started < FRESH_S:
            times: list[int] = []
            stop = time.monotonic() + SEAL_S
            while time.monotonic() < stop:
                for _ in range(FRESH_RATE // 50):
                    position += 1
                    times.append(wall_ns())
                    append(writer, position, times[-1], types=FRESH_TYPES, objects=100)
                time.sleep(0.02)
            writer.seal()
            sealed.append(times)
    is_over.set()


def write(folder: Path, rows: int, *, types: int, objects: int) -> None:
    with RecordingWriter(folder, RecordingConfig(durability=Durability.NONE), space="b") as writer:
        for cls in CLASSES[:types]:
            writer.describe(cls.descriptor)
        for position in range(1, rows + 1):
            time_ns = START_NS + position * 100_000
            append(writer, position, time_ns, types=types, objects=objects)
            if writer.is_full:
                writer.flush_if_due(monotonic_ns())


def append(
    writer: RecordingWriter, position: int, time_ns: int, *, types: int, objects: int
) -> None:
    number, index = position % types, position // types % objects
    obj = CLASSES[number](id=index, lat=position * 0.5, number=position)
    if position % 3 == 0:
        obj.name = f"n{position % 1000}"
    is_first = position // types < objects
    writer.rows.append(
        f"T{number}",
        f"/T{number}/{index}",
        CREATE if is_first else UPDATE,
        int(obj.attributes),
        bytes(key_of(obj)),
        obj.encode(),
        "b",
        NUMBERS[number],
        3,
        7,
        position,
        position,
        time_ns - 1000,
        time_ns,
        "access",
    )


# -- the peers


def by_duckdb(updates: Path, folder: Path) -> None:
    fields = ", ".join(
        f"last_value({name} ignore nulls) over w as {name}"
        for name in ("id", "lat", "lon", "number", "name")
    )
    along = "partition by space, key order by order_ns, position"
    states = (
        "select space, key, order_ns as valid_from_ns,"
        f" lead(order_ns) over ({along}) as valid_to_ns, {fields} from '{updates}'"
        f" window w as ({along} rows between unbounded preceding and current row)"
    )
    connection = duckdb.connect()
    connection.execute("set threads = 2")
    connection.execute(f"create temp table states as {states}")
    for name, condition in (("history", "is not null"), ("latest", "is null")):
        target = folder / f"duck-{name}.parquet"
        connection.execute(
            f"copy (from states where valid_to_ns {condition}) to '{target}' (format parquet)"
        )


def by_polars(updates: Path, folder: Path) -> None:
    names = ["id", "lat", "lon", "number", "name"]
    rows = (
        pl.read_parquet(updates)
        .sort("space", "key", "order_ns", "position")
        .with_columns(
            pl.col("order_ns").shift(-1).over("space", "key").alias("valid_to_ns"),
            *(pl.col(name).forward_fill().over("space", "key") for name in names),
        )
    )
    rows.filter(pl.col("valid_to_ns").is_not_null()).write_parquet(folder / "pl-history.parquet")
    rows.filter(pl.col("valid_to_ns").is_null()).write_parquet(folder / "pl-latest.parquet")


def spent_s(function: Any) -> float:
    started = time.monotonic()
    function()
    return time.monotonic() - started
