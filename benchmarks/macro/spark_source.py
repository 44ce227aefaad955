"""Recordings in Spark: segments to typed rows beside Spark's own JSON reader, and the decoder.

All readers see the same small records, and give the same eight columns of the same kinds. What a
read costs is the CPU time of all processes that take part: this one, the JVM, and the Python
workers that it starts. Reads are done in turns, the first of each is not counted, and of the others
the best is taken, since the machine is shared. There are so many rows that what a query costs
without any (a quarter of a second, most of it planning) is a small part of what is measured.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cbor2
import pyarrow as pa

import skerry
import skerry.spark
from benchmarks.rows import Row, best_of
from skerry.recording.format import to_record_batch
from skerry.recording.rows import Rows
from skerry.recording.updates import updates_of
from skerry.runtime.recordings.config import RecordingConfig
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint
from skerry.spark.lake.schema import typed_schema
from skerry.spark.source.columnar_decoder import decode_payloads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPES = skerry.define_types("""
struct BenchRecord {
    1: [key] uint32 id;
    2: uint32 seq;
    3: timepoint t;
    4: float64 x;
}
""")
BenchRecord = TYPES.BenchRecord

BATCH_ROWS = 8192
BATCH_COUNT = 500
"""Of the recording: four million rows."""
ROUND_COUNT = 5
START_NS = 1_750_000_000_000_000_000
STEP_NS = 1_000_000
ENVELOPE = ("time_ns", "operation", "node", "position")
"""Read besides the fields, and in the JSON lines, too."""
FIELDS = ("id", "seq", "t", "x")
JSON_SCHEMA = (
    "time_ns bigint, operation tinyint, node bigint, position bigint, "
    "id bigint, seq bigint, t timestamp, x double"
)


def run() -> list[Row]:
    """Rows for the bars of reading recordings."""
    rows = [_decoder_row()]
    with tempfile.TemporaryDirectory(prefix="skerry-bench-") as folder:
        recording, lines = Path(folder, "recording"), Path(folder, "lines.json")
        write_inputs(recording, lines)
        spark = skerry.spark.session("local[2]", app_name="bench", memory="2g")
        try:
            rows += _spark_rows(spark, recording, lines)
        finally:
            spark.stop()
    return rows


# -- the decoder alone


def _decoder_row() -> Row:
    batch = record_batch(0)
    payloads = batch.column("payload")
    reader = typed_schema([BenchRecord.descriptor]).reader
    ours, theirs = best_of(
        lambda: decode_payloads(reader, payloads), lambda: cbor2_to_arrow(payloads), seconds=6.0
    )
    return Row(
        name="payloads to columns",
        ours=BATCH_ROWS / (ours * 1e-9),
        theirs=BATCH_ROWS / (theirs * 1e-9),
        peer="cbor2 to Arrow",
        unit="rows per CPU s",
        goal=4.0,
    )


def cbor2_to_arrow(payloads: pa.BinaryArray) -> list[pa.Array]:
    """The decoder that a user would write with common libraries."""
    objects = [cbor2.loads(data) for data in payloads.to_pylist()]
    kinds = {1: pa.int64(), 2: pa.int64(), 3: pa.float64(), 4: pa.float64()}
    return [pa.array([obj.get(tag) for obj in objects], kind) for tag, kind in kinds.items()]


# -- in Spark


def _spark_rows(spark: SparkSession, recording: Path, lines: Path) -> list[Row]:
    def typed(**options: str) -> DataFrame:
        reader = spark.read.format("skerry").option("type", "BenchRecord")
        return reader.options(columns=",".join(ENVELOPE + FIELDS), **options).load(str(recording))

    # The last tenth.
    tenth_ns = START_NS + BATCH_COUNT * BATCH_ROWS * STEP_NS * 9 // 10
    ours, tenth, theirs = cpu_seconds(
        lambda: consume(typed()),
        lambda: consume(typed(**{"from": str(tenth_ns)})),
        lambda: consume(spark.read.schema(JSON_SCHEMA).json(str(lines))),
    )
    count = BATCH_COUNT * BATCH_ROWS
    return [
        Row(
            name="segments to typed rows in Spark",
            ours=count / ours,
            theirs=count / theirs,
            peer="Spark's JSON reader",
            unit="rows per CPU s",
            goal=2.0,
        ),
        Row(
            name="a tenth of the time, read from segments",
            ours=1 / tenth,
            theirs=1 / ours,
            peer="all of it",
            unit="reads per CPU s",
            goal=4.0,
        ),
    ]


def consume(frame: DataFrame) -> None:
    """Make every value of every row, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def cpu_seconds(*functions: Callable[[], object]) -> list[float]:
    """CPU seconds of all our processes for each function, the best of some rounds."""
    for function in functions:
        function()
    best = [float("inf")] * len(functions)
    for _ in range(ROUND_COUNT):
        for index, function in enumerate(functions):
            before = tree_cpu_seconds()
            function()
            best[index] = min(best[index], tree_cpu_seconds() - before)
    return best


def tree_cpu_seconds() -> float:
    """CPU time of this process and of all that come from it, the ended ones included."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                facts = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile, and its parent has its time
            parents[int(entry.name)] = int(facts[1])
            ticks[int(entry.name)] = sum(map(int, facts[11:15]))
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks[pid] for pid in family) / os.sysconf("SC_CLK_TCK")


# -- the same records, twice


def write_inputs(recording: Path, lines: Path) -> None:
    """A recording, and the same rows as JSON lines."""
    with RecordingWriter(recording, RecordingConfig(), space="bench") as writer:
        writer.describe(BenchRecord.descriptor)
        with lines.open("w", encoding="utf-8") as file:
            for number in range(BATCH_COUNT):
                batch = record_batch(number)
                for update in updates_of(batch):
                    writer.append(update)
                writer.flush()
                file.write(json_lines(batch))


def record_batch(number: int) -> pa.RecordBatch:
    """The rows of one batch; only times and positions differ from batch to batch."""
    base = _first_batch()
    first = number * BATCH_ROWS
    places = pa.array(range(first + 1, first + 1 + BATCH_ROWS), pa.int64())
    times = pa.array(
        range(START_NS + first * STEP_NS, START_NS + (first + BATCH_ROWS) * STEP_NS, STEP_NS),
        pa.int64(),
    )
    columns = dict(zip(base.schema.names, base.columns, strict=True))
    columns |= {"time_ns": times, "position": places, "sequence": places}
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=base.schema)


_made: list[pa.RecordBatch] = []


def _first_batch() -> pa.RecordBatch:
    if not _made:
        rows = Rows()
        number = fingerprint(BenchRecord.descriptor)
        for index in range(BATCH_ROWS):
            rows.append_update(_update(index, number))
        _made.append(to_record_batch(rows.take()))
    return _made[0]


def _update(index: int, number: int) -> Any:
    obj = BenchRecord(
        id=index % 1000, seq=10**8 + index, t=1.75e9 + index * 1e-3, x=52.0 + index / 7919
    )
    return skerry.Update(
        type_name="BenchRecord",
        subject=f"/BenchRecord/{obj.id}",
        operation=2,
        present=int(obj.attributes),
        key=skerry.key_of(obj),
        payload=obj.encode(),
        fingerprint=number,
        sender=3,
        node=7,
        time_ns=START_NS,
        source="access",
    )


def json_lines(batch: pa.RecordBatch) -> str:
    """The rows as a program that logs JSON would write them."""
    columns = [batch.column(name).to_pylist() for name in ENVELOPE]
    head = ", ".join(f'"{name}": %d' for name in ENVELOPE)
    rows = zip(zip(*columns, strict=True), _ends_of_lines(), strict=True)
    return "".join(f"{{{head % envelope}, {end}" for envelope, end in rows)


_made_ends: list[str] = []


def _ends_of_lines() -> list[str]:
    """The rest of a line after the envelope, the same in each batch."""
    if not _made_ends:
        for payload in _first_batch().column("payload").to_pylist():
            obj = BenchRecord.decode(payload)
            fields = {"id": obj.id, "seq": obj.seq, "t": _iso(obj.t), "x": obj.x}
            _made_ends.append(json.dumps(fields)[1:] + "\n")
    return _made_ends


def _iso(seconds: float) -> str:
    return skerry.to_datetime(seconds).isoformat(timespec="microseconds")
