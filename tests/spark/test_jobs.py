"""Jobs as people start them: all there is, what comes, and a disk that is full."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import skerry
from skerry.apps.recorder.group_source import GroupOptions, GroupSource
from skerry.apps.recorder.program import Recorder
from skerry.client.distributor import aio
from skerry.errors import PipelineError
from skerry.objects.base import build
from skerry.objects.classes import class_of
from skerry.schema.model import Field, Kind, ScalarType, StructType
from skerry.spark.jobs.loop import Progress, follow, run_all
from skerry.spark.jobs.maintenance import compact, vacuum
from skerry.spark.lake.delta import Table
from skerry.spark.lake.lake import Lake
from tests.spark.lakes import BARE, HOUR_NS, BothTables, Emitter, Pipeline, record

Buoy: Any = skerry.define_types("struct Buoy { 1: [key] uint32 id; 2: string text; }").Buoy


@pytest.mark.slow
def test_run_merges_new_segments_and_ends(spark: Any, tmp_path: Path) -> None:
    folder = record(tmp_path / "recordings", [])
    lake = Lake(spark, tmp_path / "lake")
    assert run_all(lake, folder).row_count == 0
    emitter = Emitter()
    record(folder, [emitter.create(Buoy(id=n)) for n in range(3)], Buoy)
    seen: list[Progress] = []
    assert run_all(lake, folder, on_progress=seen.append).row_count == 3
    assert seen[-1].backlog_rows == 0
    assert run_all(lake, folder).row_count == 0
    tables = BothTables(spark, tmp_path / "lake")
    assert {"alarms", "latest/Buoy", "links", "rates", "sessions"} <= set(tables.names())
    updates = tables.frame("rates").where("type = 'Buoy'").selectExpr("sum(updates) n").first()
    assert updates is not None
    assert updates.n == 3


@pytest.mark.slow
def test_a_batch_reads_each_log_once_and_once_more_to_commit(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs grow with each batch; one that is read for each question to a table is soon all work."""
    emitter = Emitter()
    folder = record(tmp_path / "recordings", [emitter.create(Buoy(id=1))], Buoy)
    lake = Lake(spark, tmp_path / "lake", BARE)
    assert run_all(lake, folder).row_count == 1
    record(folder, [emitter.update(Buoy(id=1, text="later"))], Buoy)
    reads: Counter[str] = Counter()
    read = Table.log

    def counted(table: Table) -> DeltaTable | None:
        reads[table.name] += 1
        return read(table)

    monkeypatch.setattr(Table, "log", counted)
    assert run_all(lake, folder).row_count == 1
    assert reads["latest/Buoy"] == reads["updates/Buoy"] == 2
    assert reads["history/Buoy"] == 3, "it is new, and has to be read once it is there"
    assert max(reads.values()) == 3
    assert (tmp_path / "lake/_skerry/cleaned").exists(), "jobs keep in mind when they cleaned up"


@pytest.mark.slow
def test_follow_merges_new_segments_until_it_is_stopped(spark: Any, tmp_path: Path) -> None:
    emitter = Emitter()
    folder = record(tmp_path / "recordings", [emitter.create(Buoy(id=1))], Buoy)
    waiting = [[emitter.update(Buoy(id=1, text="later"))]]
    rows: list[int] = []

    def watch(progress: Progress) -> None:
        rows.append(progress.row_count)
        if progress.row_count == 1 and waiting:
            record(folder, waiting.pop(), Buoy)

    lake = Lake(spark, tmp_path / "lake", BARE)
    done = follow(
        lake, folder, on_progress=watch, is_stopping=lambda: rows[-1:] == [2], interval_s=0.2
    )
    assert (done.row_count, done.batch_count) == (2, 2)
    assert [
        row.text for row in BothTables(spark, tmp_path / "lake").frame("latest/Buoy").collect()
    ] == ["later"]
    files = len(lake.table("updates/Buoy").files())
    assert compact(lake)["updates/Buoy"] == (files, 1)
    assert vacuum(lake, 0).file_count >= files
    assert BothTables(spark, tmp_path / "lake").frame("updates/Buoy").count() == 2


@pytest.mark.slow
def test_a_full_disk_is_an_error_and_leaves_no_partial_batch(spark: Any, tmp_path: Path) -> None:
    emitter = Emitter()
    folder = tmp_path / "recordings"
    texts = [f"{n:05}" * 40 for n in range(2000)]
    record(folder, [emitter.create(Buoy(id=n, text=t)) for n, t in enumerate(texts)], Buoy)
    pipeline = Pipeline(spark, folder, tmp_path / "lake")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # No file may grow beyond this, which for a writer is as good as a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))
    try:
        with pytest.raises(PipelineError, match="no space left") as caught:
            pipeline.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "free disk space" in str(caught.value.hint)
    assert pipeline.lake.names() == []
    assert not list((tmp_path / "lake").rglob("*.parquet"))
    assert pipeline.run().row_count == len(texts)
    assert BothTables(spark, tmp_path / "lake").frame("latest/Buoy").count() == len(texts)


ON_THE_WAY = (
    *("id_kind", "id_node", "id_sender", "id_block", "id_number", "number_before"),
    *("is_placed", "block_number", "before_ns", "first_position", "order_before_ns"),
    *("order_now_ns", "since_ns", "file_path", "lives", "standing", "key", "time_ns", "valid_to"),
)


def named(name: str, *fields: str) -> Any:
    """A class of a type with this name and such fields, as a stranger may describe it."""
    text = ScalarType(Kind.STRING)
    key = Field(tag=1, name="number", type=ScalarType(Kind.UINT8), is_key=True)
    others = (Field(tag=tag, name=field, type=text) for tag, field in enumerate(fields, 2))
    return class_of(StructType(name=name, fields=(key, *others)))


@pytest.mark.slow
def test_types_and_fields_may_have_any_name(spark: Any, tmp_path: Path) -> None:
    """Also in the longer way that late rows go; one odd name must not stop all tables."""
    cls = named("a%20/ \u00fc", *ON_THE_WAY)
    emitter = Emitter()
    objects = [build(cls, [1, *(f"{name} {turn}" for name in ON_THE_WAY)]) for turn in range(3)]
    created, late, last = (emitter.update(obj) for obj in objects)
    hidden = emitter.create(build(named("_hidden", "x"), [1, "y"]))
    strange = [
        hidden.replace(type_name=name, fingerprint=77, position=90 + place, sequence=90 + place)
        for place, name in enumerate(["a\0b", "x" * 1000, "\u00fc" * 100, "..", "day=1/x"])
    ]
    recordings = tmp_path / "recordings"
    pipeline = Pipeline(spark, recordings, tmp_path / "lake")
    record(recordings, [created, last, hidden, *strange], cls, named("_hidden", "x"))
    assert pipeline.run().row_count == 8
    record(recordings, [late.replace(time_ns=last.time_ns + HOUR_NS)], cls)
    assert pipeline.run().row_count == 1
    tables = BothTables(spark, tmp_path / "lake", BARE)
    assert tables.types() == ["a~2520~2f~20~c3~bc", "~5fhidden"]
    (row,) = tables.asof("a~2520~2f~20~c3~bc", last.time_ns + 2 * HOUR_NS).collect()
    fields = row.asDict()
    assert [value for value in fields.values() if str(value).endswith(" 2")] == [
        f"{name} 2" for name in ON_THE_WAY
    ]
    assert tables.frame("history/a~2520~2f~20~c3~bc").count() == 2
    assert tables.frame("raw").count() == len(strange)
    assert tables.asof("_hidden", last.time_ns + HOUR_NS).count() == 1


async def record_group_with_loss(folder: Path) -> None:
    """A hundred datagrams on a real socket, of which three in ten come only when asked for."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        group = f"239.255.77.34:{probe.getsockname()[1]}"
    recorder = Recorder(folder)
    wishes = GroupOptions(group=group, interface="127.0.0.1")
    recorder.add(
        GroupSource(recorder.queue, wishes, space=recorder.writer.space, report=lambda _text: None)
    )
    started = asyncio.Event()
    running = asyncio.create_task(
        recorder.run(lambda: False, seconds=30, count=100, on_started=started.set)
    )
    await started.wait()
    async with await aio.open(
        group,
        interface="127.0.0.1",
        application="feed",
        heartbeat_interval_ms=100,
        fake_send_loss_permille=300,
    ) as connection:
        with connection.publisher() as publisher:
            for number in range(100):
                publisher.publish("/n", b"%d" % number)
                publisher.flush()
            assert (await running).updates == 100


@pytest.mark.slow
def test_retransmissions_are_counted_in_links(spark: Any, tmp_path: Path) -> None:
    asyncio.run(record_group_with_loss(tmp_path / "recording"))
    run_all(Lake(spark, tmp_path / "lake"), tmp_path / "recording")
    tables = BothTables(spark, tmp_path / "lake")
    links = tables.frame("links").where("source = 'distributor'")
    sums = "sum(updates) updates, sum(datagrams) datagrams, sum(retransmissions) again"
    (row,) = links.selectExpr(*sums.split(", "), "max(round_trip_ms) took").collect()
    assert (row.updates, row.datagrams) == (100, 100)
    assert row.again > 0
    assert row.took > 0
    lives = [(life.kind, life.updates) for life in tables.frame("sessions").collect()]
    assert lives == [("multicast", 100)]
    assert "nagging" in {alarm.kind for alarm in tables.frame("alarms").collect()}
