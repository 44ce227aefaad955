"""Recordings read by Spark: rows as recorded, rows with typed columns, and streams."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

import skerry
from skerry.codec.envelope import GAP, REMOVE, UPDATE, Update
from skerry.runtime.recordings.files.manifest import Manifest
from skerry.runtime.recordings.reader import open_recordings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

TYPES = skerry.define_types("""
enum Kind { 1: cargo, 2: tug }
struct Place { 1: float64 lat; 2: float64 lon; }
struct Vessel {
    1: [key] uint32 mmsi;
    2: string name;
    3: Place place;
    4: vector<int16> speeds;
    5: timepoint seen;
    6: Kind kind;
    7: uint64 large;
    8: uuid label;
    9: any load;
    10: duration age;
}
struct Weather { 1: string text; }
struct Blob { 1: [key] uint8 id; 2: bytes content; }
""")
Vessel: Any = TYPES.Vessel
START_NS = 1_794_751_200_000_000_000
FULL = Vessel(
    mmsi=244660000,
    name="Störtebeker",
    place=TYPES.Place(lat=53.5, lon=10.0),
    speeds=[3, -4],
    seen=START_NS / 1e9,
    kind=TYPES.Kind.tug,
    large=2**64 - 1,
    label=UUID(int=5),
    load=skerry.AnyObject("Place", b"\xa0"),
    age=2.5,
)


def fleet(update_of: Callable[..., Update], count: int, first: int = 0) -> list[Update]:
    return [
        update_of(
            Vessel(mmsi=number % 3, name=f"v{number}"),
            time_ns=START_NS + number * 1_000_000_000,
            position=number + 1,
            sequence=number + 1,
            node=7,
        )
        for number in range(first, first + count)
    ]


def read(spark: SparkSession, folder: Path, **options: str) -> DataFrame:
    return spark.read.format("skerry").options(**options).load(str(folder))


def test_rows_as_recorded_and_rows_with_typed_columns(
    spark: SparkSession,
    tmp_path: Path,
    record: Callable[..., Path],
    update_of: Callable[..., Update],
) -> None:
    full = update_of(FULL, time_ns=START_NS, sent_ns=START_NS - 5, position=1, present=2**31 + 2)
    bad = update_of(Vessel(mmsi=2), payload=b"\xff\x00", operation=UPDATE, time_ns=START_NS + 1)
    gone = update_of(Vessel(mmsi=2), operation=REMOVE, time_ns=START_NS + 2)
    record(tmp_path, [full, bad], [gone], types=[Vessel])
    name = open_recordings(tmp_path)[0].id

    raw = {row.time_ns: row for row in read(spark, tmp_path).where("type = 'Vessel'").collect()}
    assert len(raw) == 3
    assert bytes(raw[START_NS].payload) == full.payload
    assert bytes(raw[START_NS].key) == full.key
    assert raw[START_NS].present == 2**31 + 2
    assert (raw[START_NS].sent_ns, raw[START_NS + 1].sent_ns) == (START_NS - 5, None)
    assert (raw[START_NS].recording, raw[START_NS + 2].operation) == (name, REMOVE)
    assert raw[START_NS].batch < raw[START_NS + 2].batch

    rows = {row.time_ns: row for row in read(spark, tmp_path, type="Vessel").collect()}
    row = rows[START_NS]
    assert (row.mmsi, row.name, row.kind, row.age) == (244660000, "Störtebeker", "tug", 2.5)
    assert (row.place.lat, row.place.lon, row.speeds) == (53.5, 10.0, [3, -4])
    assert row.large == Decimal(2**64 - 1)
    assert row.label == "00000000-0000-0000-0000-000000000005"
    assert (row.load.type, bytes(row.load.payload)) == ("Place", b"\xa0")
    assert row.seen.astimezone(dt.UTC) == dt.datetime(2026, 11, 15, 14, tzinfo=dt.UTC)
    assert row.unknown is None
    assert rows[START_NS + 1].mmsi is None
    assert bytes(rows[START_NS + 1].unknown[0]) == b"\xff\x00"
    assert (rows[START_NS + 2].mmsi, rows[START_NS + 2].name) == (2, None)


def test_filters_on_time_and_type_are_applied_by_the_source(
    spark: SparkSession,
    tmp_path: Path,
    record: Callable[..., Path],
    update_of: Callable[..., Update],
) -> None:
    storm = update_of(TYPES.Weather(text="storm"), time_ns=START_NS + 5_000_000_000)
    record(tmp_path, fleet(update_of, 5), [storm, *fleet(update_of, 5, 5)], types=[Vessel])
    edge = START_NS + 4_000_000_000
    frame = read(spark, tmp_path).where(
        f"time_ns > {edge} and time_ns <= {edge + 3_000_000_000} and type in ('Vessel', 'x')"
    )
    assert sorted(row.position for row in frame.collect()) == [6, 7, 8]
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "Filter" not in plan.replace("RuntimeFilters", "")
    # What the source cannot do stays with Spark.
    assert frame.where("position != 7").count() == 2


def test_a_range_of_lines_and_a_range_of_time_select_rows(
    spark: SparkSession,
    tmp_path: Path,
    record: Callable[..., Path],
    update_of: Callable[..., Update],
) -> None:
    for first in (0, 3, 6):
        record(tmp_path, fleet(update_of, 3, first), types=[Vessel])
    recording = open_recordings(tmp_path)[0]
    lines = [segment.line for segment in recording.segments()]
    wanted = f'[["{recording.id}", {lines[1]}, {lines[2]}]]'
    options = {"type": "Vessel", "columns": "position, MMSI", "range": wanted}
    frame = read(spark, tmp_path, **options)
    assert frame.columns == ["position", "mmsi"]
    assert sorted(row.position for row in frame.collect()) == [4, 5, 6]
    times = {"from": "2026-11-15T14:00:01Z", "to": str(START_NS + 3_000_000_000)}
    frame = read(spark, tmp_path, type="Vessel", columns="position", **times)
    assert sorted(row.position for row in frame.collect()) == [2, 3]


def test_a_damaged_batch_is_a_gap_and_with_strict_an_error(
    spark: SparkSession,
    tmp_path: Path,
    record: Callable[..., Path],
    update_of: Callable[..., Update],
) -> None:
    batches = [fleet(update_of, 4, first) for first in (0, 4, 8)]
    record(tmp_path, *batches, types=[Vessel])
    segment = open_recordings(tmp_path)[0].segments()[0]
    middle = segment.batches[-2]
    with segment.path.open("r+b") as file:
        file.seek(middle.offset + middle.size // 2)
        file.write(b"\x55\xaa\x55")
    rows = read(spark, tmp_path).where("type in ('Vessel', '')").collect()
    gaps = [row for row in rows if row.operation == GAP]
    assert len(rows) == 9
    assert len(gaps) == 1
    assert gaps[0].time_ns == START_NS + 4_000_000_000
    assert read(spark, tmp_path, type="Vessel").count() == 8
    with pytest.raises(Exception, match="is damaged"):
        read(spark, tmp_path, type="Vessel", strict="true").count()


def test_corner_cases_are_all_merged(
    spark: SparkSession,
    tmp_path: Path,
    record: Callable[..., Path],
    update_of: Callable[..., Update],
) -> None:
    record(tmp_path / "empty")
    record(tmp_path / "one", [update_of(Vessel(mmsi=1))], types=[Vessel])
    record(tmp_path / "no-key", [update_of(TYPES.Weather(text="fog"))], types=[TYPES.Weather])
    large = TYPES.Blob(id=1, content=bytes(10_000_000))
    deep = "/Blob" + "/x" * 999
    record(tmp_path / "large", [update_of(large, subject=deep)], types=[TYPES.Blob])
    assert read(spark, tmp_path / "empty").count() == 0
    kinds = read(spark, tmp_path).groupBy("type").count().collect()
    counts = {row["type"]: row["count"] for row in kinds}
    assert {name: counts[name] for name in ("Vessel", "Weather", "Blob")} == {
        "Vessel": 1,
        "Weather": 1,
        "Blob": 1,
    }
    blob = read(spark, tmp_path, type="Blob").selectExpr("length(content) n", "subject").first()
    assert blob is not None
    assert (blob.n, blob.subject) == (10_000_000, deep)
    assert read(spark, tmp_path, type="Weather").first().text == "fog"  # type: ignore[union-attr]


def test_errors_of_spark_have_readable_messages(
    spark: SparkSession,
    tmp_path: Path,
    record: Callable[..., Path],
    update_of: Callable[..., Update],
) -> None:
    record(tmp_path, [update_of(Vessel(mmsi=1))], types=[Vessel])
    with pytest.raises(Exception, match="no option form"):
        read(spark, tmp_path, form="x")
    with pytest.raises(Exception, match="no definition of Ghost"):
        read(spark, tmp_path, type="Ghost")


def test_a_stream_reads_each_segment_once_also_after_a_restart(
    spark: SparkSession,
    tmp_path: Path,
    record: Callable[..., Path],
    update_of: Callable[..., Update],
) -> None:
    folder, out, checkpoint = tmp_path / "r", tmp_path / "out", tmp_path / "checkpoint"
    record(folder / "a", fleet(update_of, 3), types=[Vessel])
    record(folder / "a", fleet(update_of, 2, 3), types=[Vessel])

    def catch_up() -> list[int]:
        frame = (
            spark.readStream.format("skerry")
            .options(type="Vessel", columns="position", maxSegments="1")
            .load(str(folder))
        )
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(out))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return sorted(row.position for row in spark.read.parquet(str(out)).collect())

    assert catch_up() == [1, 2, 3, 4, 5]
    # One segment a batch, as asked for.
    assert {path.name for path in (checkpoint / "commits").iterdir()} >= {"0", "1"}
    # Another recording, and a segment that was copied into the first.
    record(folder / "b", fleet(update_of, 2, 10), types=[Vessel])
    record(tmp_path / "else", fleet(update_of, 1, 20), types=[Vessel])
    late = open_recordings(tmp_path / "else")[0].segments()[0].path
    (folder / "a" / late.name).write_bytes(late.read_bytes())
    assert catch_up() == [1, 2, 3, 4, 5, 11, 12, 21]
    assert catch_up() == [1, 2, 3, 4, 5, 11, 12, 21]


def test_a_stream_continues_after_the_manifest_was_shortened(
    spark: SparkSession,
    tmp_path: Path,
    record: Callable[..., Path],
    update_of: Callable[..., Update],
) -> None:
    folder, out, checkpoint = tmp_path / "r", tmp_path / "out", tmp_path / "checkpoint"

    def seal(first: int, count: int) -> None:
        for number in range(first, first + count):
            record(folder, fleet(update_of, 1, number), types=[Vessel])

    def forget(count: int, *, kept: int) -> None:
        manifest = Manifest(folder)
        with manifest.locked():
            for segment in list(manifest.lines.segments.values())[:count]:
                manifest.add_dropped(segment.name, "size", sync=False)
                segment.path.unlink()
            manifest.shorten(kept=kept)

    seal(0, 4)
    query = (
        spark.readStream.format("skerry")
        .options(type="Vessel", columns="position")
        .load(str(folder))
        .writeStream.format("parquet")
        .option("path", str(out))
        .option("checkpointLocation", str(checkpoint))
    )

    def positions() -> list[int]:
        return sorted(row.position for row in spark.read.parquet(str(out)).collect())

    following = query.start()
    try:
        following.processAllAvailable()
        assert positions() == [1, 2, 3, 4]
        # While it runs: nothing of what is left is read again, and nothing new is left out.
        forget(3, kept=1)
        seal(4, 2)
        following.processAllAvailable()
        assert positions() == [1, 2, 3, 4, 5, 6]
    finally:
        following.stop()
    # While it does not: the place it noted down still is the one it was.
    forget(2, kept=0)
    seal(6, 1)
    again = query.trigger(availableNow=True).start()
    assert again.awaitTermination(120)
    assert positions() == [1, 2, 3, 4, 5, 6, 7]
    (recording,) = open_recordings(folder)
    assert [segment.line for segment in recording.segments()] == [8, 11]
    assert recording.lines.forgotten.segments == {"size": 5}
