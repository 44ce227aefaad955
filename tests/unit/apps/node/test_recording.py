"""A node that records itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import skerry
import skerry.aio
from skerry.apps.node.config import NodeRecordingConfig
from skerry.apps.node.recording import NodeRecorder
from skerry.codec.envelope import CREATE, GAP, REMOVE, SNAPSHOT, UPDATE, Update
from skerry.engine.node import NodeCore
from skerry.recording.gaps import gap_of
from skerry.recording.selection import selection_of
from skerry.recording.updates import is_description
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.updates import read_updates
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import NodeServer

TYPES = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; 2: string name; }")
Vessel = TYPES.Vessel


@asynccontextmanager
async def node_at(place: str, core: NodeCore | None = None) -> AsyncIterator[NodeServer]:
    core = core or NodeCore(wall_offset_ns=wall_ns() - monotonic_ns(), node_id=7)
    server = NodeServer(core)
    try:
        await server.listen(parse_endpoint(place))
        yield server
    finally:
        await server.close()


def recorded(folder: Path, type_name: str = "Vessel") -> list[Update]:
    found = read_updates(open_recordings(folder), selection_of(types=[type_name]))
    return [update for update in found if not is_description(update)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  a turn of the loop is what brings it
            await asyncio.sleep(0.005)


def config(folder: Path, **fields: Any) -> NodeRecordingConfig:
    return NodeRecordingConfig(folder=str(folder), batch_ms=5, **fields)


def test_all_that_crosses_the_node_is_recorded(tmp_path: Path) -> None:
    async def play() -> None:
        async with node_at(f"uds:{tmp_path}/n.sock") as server:
            async with await skerry.aio.connect(f"uds:{tmp_path}/n.sock", types=TYPES) as space:
                space.publish(Vessel(mmsi=1, name="old"))
                await space.flush()
                recorder = NodeRecorder(server, config(tmp_path / "r"), space="harbour")
                recorder.start()
                await until(lambda: recorder.received_count > 0)
                space.publish(Vessel(mmsi=1, name="new"))
                space.publish(Vessel(mmsi=2))
                space.remove(Vessel(mmsi=2))
                await space.flush()
            assert recorder.trouble == ""
            await recorder.close()

    asyncio.run(play())
    found = recorded(tmp_path / "r")
    assert [(u.operation, u.subject) for u in found] == [
        (SNAPSHOT, "/Vessel/1"),
        (UPDATE, "/Vessel/1"),
        (CREATE, "/Vessel/2"),
        (REMOVE, "/Vessel/2"),
    ]
    assert {(u.node, u.space) for u in found} == {(7, "harbour")}
    live = found[1:]
    assert [u.position for u in live] == list(range(live[0].position, live[0].position + 3))
    assert recorded(tmp_path / "r", "DotsClient")


@pytest.mark.slow
def test_recording_is_restarted_when_the_node_closes_it(tmp_path: Path) -> None:
    async def play() -> None:
        async with node_at(f"uds:{tmp_path}/n.sock") as server:
            async with await skerry.aio.connect(f"uds:{tmp_path}/n.sock", types=TYPES) as space:
                recorder = NodeRecorder(server, config(tmp_path / "r"), space="local")
                recorder.start()
                space.publish(Vessel(mmsi=1))
                space.publish(Vessel(mmsi=2))
                await space.flush()
                stream = recorder._stream
                assert stream is not None
                stream.abort()
                space.remove(Vessel(mmsi=1))
                await space.flush()
                await until(lambda: recorder._stream is not None)
                count = recorder.received_count
                await until(lambda: recorder.received_count > count)
                space.publish(Vessel(mmsi=3))
                await space.flush()
            await recorder.close()

    asyncio.run(play())
    found = recorded(tmp_path / "r")
    assert GAP in {u.operation for u in found}
    removed = [u.subject for u in found if u.operation == REMOVE]
    assert removed == ["/Vessel/1"]
    assert found[-1].subject == "/Vessel/3"


@pytest.mark.slow
def test_a_restarted_node_continues_its_recording_with_a_gap(tmp_path: Path) -> None:
    async def play(mmsi: int) -> None:
        async with node_at(f"uds:{tmp_path}/n.sock") as server:
            recorder = NodeRecorder(server, config(tmp_path / "r"), space="local")
            recorder.start()
            async with await skerry.aio.connect(f"uds:{tmp_path}/n.sock", types=TYPES) as space:
                space.publish(Vessel(mmsi=mmsi))
                await space.flush()
            await recorder.close()

    asyncio.run(play(1))
    asyncio.run(play(2))
    found = recorded(tmp_path / "r")
    assert [u.operation for u in found] == [CREATE, GAP, CREATE]
    gap = gap_of(found[1].payload)
    assert gap.reason == "the recorder was not running: the node was restarted"
    assert gap.first_ns <= gap.last_ns


def test_closing_at_once_leaves_a_sound_recording(tmp_path: Path) -> None:
    async def play() -> None:
        async with node_at(f"uds:{tmp_path}/n.sock") as server:
            recorder = NodeRecorder(server, config(tmp_path / "r"), space="local")
            recorder.start()
            await recorder.close()

    asyncio.run(play())
    assert open_recordings(tmp_path / "r")


def test_updates_that_are_delayed_for_a_batch_are_recorded_before_the_end(tmp_path: Path) -> None:
    core = NodeCore(wall_offset_ns=wall_ns() - monotonic_ns(), batch_delay_ns=60 * 10**9)
    published: list[int] = []

    async def play() -> None:
        async with node_at(f"uds:{tmp_path}/n.sock", core) as server:
            recorder = NodeRecorder(server, config(tmp_path / "r"), space="harbour")
            recorder.start()
            async with await skerry.aio.connect(f"uds:{tmp_path}/n.sock", types=TYPES) as space:
                async with asyncio.timeout(30):
                    while core.batch_due_ns() is None:
                        published.extend(range(len(published), len(published) + 20))
                        for number in published[-20:]:
                            space.publish(Vessel(mmsi=number))
                        await space.flush()
                await recorder.close()

    asyncio.run(play())
    assert [update.subject for update in recorded(tmp_path / "r")] == [
        f"/Vessel/{number}" for number in published
    ]
