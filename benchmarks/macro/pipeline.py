"""Tables: how fast they are read, and what a question about time costs.

Figures are rows for each second of processor time, of all processes together, because the machine
is shared. Ours and theirs take turns, each for at least eight rounds, and for so long that the JVM
has compiled what it runs; the best round counts. The table of the questions about time has 20
million states, and then ten times as many: its older buckets are the same files under other names,
which a question about a later time must not open. The scan that a question is held against is the
same condition on all states, by which Spark itself leaves out what is later. Both are queried again
each time, from the log of the table to the last row. Tables are read by sums over each value of
five columns; of text the number of bytes, since counting characters takes longer than reading them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import skerry
from benchmarks.rows import Row
from skerry.spark.jobs.maintenance import make_snapshots
from skerry.spark.lake.buckets import HOUR_NS, bucket_text, hour_column, timestamp_column
from skerry.spark.lake.catalog import DIVIDED_BY, table_schema
from skerry.spark.lake.data_files import DataFile, TableChange
from skerry.spark.lake.lake import Lake, LakeConfig, delta_schema
from skerry.spark.lake.plans import Plan, TypeState
from skerry.spark.lake.schema import typed_schema
from skerry.spark.startup.session import session
from skerry.spark.tables import Tables
from skerry.spark.transforms.asof import is_live_at

START_NS = 1_794_700_800_000_000_000
STATE_COUNT = 20_000_000
OBJECT_COUNT = 50_000
HOUR_COUNT = 40
GROWN = 10
"""Factor by which the table grows, to see whether answers take longer."""
ROUNDS_MIN = 8
TURNS_S = 25.0
"""A comparison goes on for so long, and for so many rounds if these take longer."""

TYPE = skerry.define_types("""
struct BenchTrack { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; 4: float64 lon;
                    5: int32 course; }
""").BenchTrack
STATE = TypeState(table="BenchTrack", schema=typed_schema([TYPE.descriptor]), is_cached=True)


def run() -> list[Row]:
    """Rows for reading and asking."""
    say("start Spark")
    spark = session("local[2]", app_name="benchmark", memory="3g")
    with tempfile.TemporaryDirectory() as folder:
        try:
            lake = Lake(spark, Path(folder, "lake"), LakeConfig(derived=()))
            say(f"write a table of {STATE_COUNT:,} states")
            fill(lake)
            return reading_rows(lake, Path(folder)) + asking_rows(lake)
        finally:
            spark.stop()


# -- a large table


def fill(lake: Lake) -> None:
    """A table of states as long batches leave it: a few files in each bucket."""
    step_ns = HOUR_COUNT * HOUR_NS // STATE_COUNT
    # Hour by hour and object by object, which is the order in files: nothing has to be sorted.
    in_hour = STATE_COUNT // HOUR_COUNT
    each = in_hour // OBJECT_COUNT
    object_number = f"id % {in_hour} div {each}"
    place = f"id div {in_hour} * {in_hour} + id % {each} * {OBJECT_COUNT} + {object_number}"
    number, key = F.expr(place), F.expr(object_number)
    digits = F.lpad(key.cast("string"), len(str(OBJECT_COUNT)), "0")
    begun = number * step_ns + START_NS
    ended = begun + OBJECT_COUNT * step_ns
    is_open = number >= STATE_COUNT - OBJECT_COUNT
    rows = lake.spark.range(0, STATE_COUNT, 1, 8).select(
        F.lit("bench").alias("space"),
        digits.cast("binary").alias("key"),
        F.concat(F.lit("/BenchTrack/"), key.cast("string")).alias("subject"),
        begun.alias("valid_from_ns"),
        F.when(~is_open, ended).alias("valid_to_ns"),
        timestamp_column(begun).alias("valid_from"),
        timestamp_column(F.when(~is_open, ended)).alias("valid_to"),
        F.lit(1).cast("bigint").alias("life"),
        F.lit(3).cast("bigint").alias("sender"),
        F.lit(7).cast("bigint").alias("node"),
        (number + 1).alias("position"),
        (number + 1).alias("sequence"),
        key.alias("mmsi"),
        F.concat(F.lit("vessel "), key.cast("string")).alias("name"),
        F.rand(1).alias("lat"),
        F.rand(2).alias("lon"),
        F.pmod(number, F.lit(360)).cast("int").alias("course"),
    )
    bucket = F.concat(hour_column(F.col("valid_from_ns")), F.lit("00"))
    history = rows.where(F.col("valid_to_ns").isNotNull()).withColumn("bucket", bucket)
    lake.spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(HOUR_COUNT))
    latest = rows.where(F.col("valid_to_ns").isNull()).withColumn("part", F.lit(0))
    lake.write_plan(
        Plan(
            number=0,
            types={STATE.table: STATE},
            changes=(
                change("history", lake.stage("history", STATE, history, label="b")),
                change("latest", lake.stage("latest", STATE, latest.coalesce(1), label="b")),
            ),
        )
    )
    lake.commit_plan(lake.last_plan())
    say("make its snapshots")
    make_snapshots(lake, STATE)


def change(kind: str, files: list[DataFile]) -> TableChange:
    return TableChange(
        table=f"{kind}/{STATE.table}",
        schema=delta_schema(table_schema(kind, STATE.schema)),
        divided_by=DIVIDED_BY[kind],
        added=tuple(files),
    )


def grown(lake: Lake) -> Lake:
    """The same tables with many older buckets before: the same files by other names."""
    root = Path(lake.store.root)
    copy = root.with_name("grown")
    shutil.copytree(root, copy, copy_function=link_rows)
    made = Lake(lake.spark, copy, lake.config)
    table = made.table("history/BenchTrack")
    old: list[DataFile] = []
    for times in range(1, GROWN):
        back_ns = times * HOUR_COUNT * HOUR_NS
        for file in table.files():
            low = file.low["valid_from_ns"] - back_ns
            name = f"old{times}/bucket={bucket_text(low, HOUR_NS)}/{file.path.rpartition('/')[2]}"
            place = copy / table.name
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            os.link(place / file.path, place / name)
            old.append(
                replace(
                    file,
                    path=name,
                    parts={"bucket": bucket_text(low, HOUR_NS)},
                    low={n: v - back_ns if n.endswith("_ns") else v for n, v in file.low.items()},
                    high={n: v - back_ns if n.endswith("_ns") else v for n, v in file.high.items()},
                )
            )
    table.rewrite(change("history", old))
    return made


def link_rows(source: str, target: str) -> None:
    """Give a file of rows one more name; a log is copied, since it goes on in its own way."""
    if source.endswith(".parquet") and "_delta_log" not in source:
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def reading_rows(lake: Lake, folder: Path) -> list[Row]:
    table = lake.table("history/BenchTrack")
    part = [bucket_text(START_NS + n * HOUR_NS, HOUR_NS) for n in range(4)]
    files = table.files(lambda file: file.parts["bucket"] in part)
    count = sum(file.rows for file in files)
    frame = table.frame(lake.spark, lambda file: file.parts["bucket"] in part)
    say(f"write {count:,} states as JSON")
    json_place = str(folder / "json")
    frame.write.json(json_place)
    columns = frame.drop("key").schema
    paths = [str(Path(table.store.root, table.name, file.path)) for file in table.files()]
    sums = [
        F.sum("lat"),
        F.sum("lon"),
        F.sum(F.octet_length("name")),
        F.sum("course"),
        F.max("valid_to_ns"),
    ]
    question = "select sum(lat), sum(lon), sum(strlen(name)), sum(course), max(valid_to_ns) from "
    say("read them, and JSON")
    ours, json_s = in_turns(
        lambda: frame.agg(*sums).collect(),
        lambda: lake.spark.read.schema(columns).json(json_place).agg(*sums).collect(),
    )
    shutil.rmtree(json_place)
    last_ns = START_NS + HOUR_COUNT * HOUR_NS
    tenth_ns = last_ns - HOUR_COUNT * HOUR_NS // 10
    whole = table.frame(lake.spark)
    is_late = F.col("valid_from_ns") >= tenth_ns
    late = table.frame(lake.spark, lambda file: file.may_have("valid_from_ns", tenth_ns, last_ns))
    say("read a tenth of the table and all of it, also by DuckDB")
    part_s, whole_s, duck_s = in_turns(
        lambda: late.where(is_late).agg(*sums).collect(),
        lambda: whole.agg(*sums).collect(),
        lambda: duckdb.execute(f"{question} read_parquet({paths!r})").fetchall(),
    )
    return [
        faster("typed table read", ours, json_s, peer="JSON in Spark", goal=5, rows=count),
        faster("typed table read", whole_s, duck_s, peer="DuckDB", goal=0.25, rows=STATE_COUNT),
        faster("a tenth of the time read", part_s, whole_s, peer="all of it", goal=4),
    ]


def asking_rows(lake: Lake) -> list[Row]:
    tables, larger = (Tables(lake.spark, each.store.root) for each in (lake, grown(lake)))
    at_ns = START_NS + int((HOUR_COUNT / 2 + 0.5) * HOUR_NS)

    def scan() -> None:
        states = tables.frame("history/BenchTrack").drop("bucket")
        now = tables.frame("latest/BenchTrack").drop("part")
        consume(states.unionByName(now).where(is_live_at(at_ns)))

    say(f"ask about an instant, scan, and ask with {GROWN} times as many states")
    ours, scanned, ours_larger = in_turns(
        lambda: consume(tables.asof("BenchTrack", at_ns)),
        scan,
        lambda: consume(larger.asof("BenchTrack", at_ns)),
    )
    return [
        faster("as of an instant, 20 million states", ours, scanned, peer="scan", goal=5),
        Row(
            name="as of an instant, 200 million states",
            ours=ours_larger,
            theirs=ours,
            peer="20 million",
            unit="cpu-s",
            goal=1.5,
            is_less_better=True,
        ),
    ]


# -- measuring


def consume(frame: DataFrame) -> None:
    """Compute all rows and columns, and throw them away."""
    frame.write.format("noop").mode("overwrite").save()


def faster(
    name: str, ours_s: float, theirs_s: float, *, peer: str, goal: float, rows: int = 1
) -> Row:
    """Rates out of the processor seconds of both."""
    unit = "rows/cpu-s" if rows > 1 else "1/cpu-s"
    ours, theirs = rows / ours_s, rows / theirs_s
    return Row(name=name, ours=ours, theirs=theirs, unit=unit, peer=peer, goal=goal)


def say(step: str) -> None:
    """Print the current step, since it takes minutes."""
    print(f"  {time.strftime('%H:%M:%S')} {step}", flush=True)


def in_turns(*functions: Callable[[], object]) -> list[float]:
    """Processor seconds of each function, the best of some rounds after one that does not count."""
    for function in functions:
        function()
    best = [float("inf")] * len(functions)
    stop_s = time.monotonic() + TURNS_S
    rounds = 0
    while rounds < ROUNDS_MIN or time.monotonic() < stop_s:
        for index, function in enumerate(functions):
            best[index] = min(best[index], spent_s(function))
        rounds += 1
    say(f"  {rounds} rounds, at best {', '.join(f'{s:.2f}' for s in best)} s of processor time")
    return best


def spent_s(function: Callable[[], object]) -> float:
    """Processor seconds of one call."""
    before = processor_s()
    function()
    return processor_s() - before


def processor_s() -> float:
    """Processor time of this process and all that came of it."""
    own = os.getpid()
    facts: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        facts[int(path.parent.name)] = (int(words[1]), sum(map(int, words[11:15])))
    family = [own]
    for process in family:
        family += [child for child, (parent, _) in facts.items() if parent == process]
    return sum(facts[process][1] for process in family) / os.sysconf("SC_CLK_TCK")
