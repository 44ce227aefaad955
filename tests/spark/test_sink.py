"""Rows of Spark into a space: a frame, and a stream that is interrupted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.codec.envelope import Update
from skerry.engine.node import NodeCore
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import NodeServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

TYPES_TEXT = "struct Alarm { 1: [key] uint32 id; 2: string text; }"
Alarm: Any = skerry.define_types(TYPES_TEXT).Alarm
Note: Any = skerry.define_types("struct Note [cached=false] { 1: uint32 id; 2: string text; }").Note


@pytest.fixture
def node(tmp_path: Path) -> Iterator[str]:
    """A node in a thread; where it is."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> tuple[NodeServer, str]:
        server = NodeServer(NodeCore(name="harbour", wall_offset_ns=wall_ns() - monotonic_ns()))
        return server, await server.listen(parse_endpoint(f"uds:{tmp_path}/n.sock"))

    try:
        server, place = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
        yield place
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def types_file(tmp_path: Path, cls: Any) -> str:
    path = tmp_path / f"{cls.descriptor.name}.dots"
    path.write_text(skerry.to_dots(cls))
    return str(path)


def test_the_rows_of_a_frame_are_published_and_removed(
    spark: SparkSession, tmp_path: Path, node: str
) -> None:
    def publish(rows: str) -> None:
        (
            spark.sql(f"select * from values {rows} as t(id, text, operation)")
            .write.format("skerry")
            .options(node=node, type="Alarm", types=types_file(tmp_path, Alarm))
            .mode("append")
            .save()
        )

    with skerry.connect(node, preload=[Alarm]) as space:
        container = space.container(Alarm)
        publish("(1, 'fire', 'create'), (2, 'flood', 'create'), (3, null, 'create')")
        space.flush()
        assert {alarm.id: alarm.text for alarm in container.values()} == {
            1: "fire",
            2: "flood",
            3: None,
        }
        publish("(2, null, 'remove')")
        space.flush()
        assert sorted(alarm.id for alarm in container.values()) == [1, 3]


def test_a_batch_of_a_stream_that_is_repeated_is_published_once(
    spark: SparkSession,
    tmp_path: Path,
    node: str,
    record: Callable[..., Path],
    update_of: Callable[..., Update],
) -> None:
    folder, checkpoint = tmp_path / "r", tmp_path / "checkpoint"

    def catch_up() -> None:
        frame = spark.readStream.format("skerry").options(type="Note", columns="id,text")
        query = (
            frame.load(str(folder))
            .writeStream.format("skerry")
            .options(node=node, type="Note", types=types_file(tmp_path, Note))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    with skerry.connect(node, types=[Note]) as space:
        seen: list[int] = []
        space.subscribe(Note, lambda event: seen.append(event.object.id))
        record(folder, [update_of(Note(id=1)), update_of(Note(id=2))], types=[Note])
        catch_up()
        space.flush()
        assert sorted(seen) == [1, 2]
        # As a crash leaves it that came when all was published and Spark had not noted it.
        for name in ("0", ".0.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=True)
        record(folder, [update_of(Note(id=3))], types=[Note])
        catch_up()
        space.flush()
        assert (checkpoint / "commits" / "0").exists()
        assert sorted(seen) == [1, 2, 3]
