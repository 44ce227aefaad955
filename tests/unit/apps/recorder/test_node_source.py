"""A node as a source: all updates or a part, and lost connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import skerry
import skerry.aio
from skerry.apps.recorder.node_source import NodeOptions, NodeSource
from skerry.apps.recorder.row_queue import RowQueue
from skerry.client.io.loop_thread import LoopThread
from skerry.codec.envelope import CREATE, GAP, REMOVE, SNAPSHOT
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.node import NodeCore
from skerry.errors import ConnectFailed, Disconnected, Refused
from skerry.objects.internal import internal_class
from skerry.recording.format import to_record_batch
from skerry.recording.gaps import gap_of
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import NodeServer

TYPES = skerry.define_types(
    """
    struct Vessel { 1: [key] uint32 mmsi; 2: string name; }
    struct Leg { 3: [key] string a; 1: [key] uint32 b; 2: string text; }
    struct Hail [cached=false] { 1: string text; }
    """
)
Vessel = TYPES.Vessel


class Stage:
    """A node, a publisher and a source on one loop."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self.place = f"uds:{folder}/node.sock"
        self.queue = RowQueue(space="local", row_count_max=10_000)
        self.messages: list[str] = []
        self.source = NodeSource(
            self.queue,
            NodeOptions(endpoint=self.place, **options),
            space="local",
            report=self.messages.append,
        )
        self._server: NodeServer | None = None
        self._taken: list[dict[str, Any]] = []

    async def start_node(self, node_id: int, admission: Admission | None = None) -> None:
        core = NodeCore(
            wall_offset_ns=wall_ns() - monotonic_ns(), node_id=node_id, admission=admission
        )
        self._server = NodeServer(core)
        await self._server.listen(parse_endpoint(self.place))

    async def stop_node(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    def rows(self, type_name: str = "Vessel") -> list[dict[str, Any]]:
        """Rows of a type, and gaps, in order."""
        if self.queue.rows.count:
            self._taken += to_record_batch(self.queue.rows.take()).to_pylist()
        return [row for row in self._taken if row["type"] in (type_name, "")]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition while the loop receives."""
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110  it is on the other side of a socket
                await asyncio.sleep(0.005)


@asynccontextmanager
async def on_stage(folder: Path, **options: Any) -> AsyncIterator[Stage]:
    stage = Stage(folder, options)
    try:
        yield stage
    finally:
        await stage.source.stop()
        await stage.stop_node()


def operations(rows: list[dict[str, Any]]) -> list[tuple[int, bytes]]:
    return [(row["operation"], row["key"][1:]) for row in rows]


def test_existing_objects_come_first_and_then_each_update(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path) as stage:
            await stage.start_node(5)
            async with await skerry.aio.connect(stage.place, types=TYPES) as space:
                space.publish(Vessel(mmsi=1))
                await space.flush()
                assert not stage.source.is_complete
                await stage.source.start()
                await stage.until(lambda: stage.source.is_complete)
                space.publish(Vessel(mmsi=2))
                space.publish(TYPES.Hail(text="ahoy"))
                await space.flush()
                await stage.until(lambda: len(stage.rows("Hail")) == 1)
            assert operations(stage.rows()) == [(SNAPSHOT, b"\x01"), (CREATE, b"\x02")]
            assert {row["node"] for row in stage.rows()} == {5}
            stage.source.check()
            assert stage.source.received_count > 3
            assert stage.rows("DotsClient")

    asyncio.run(play())


def test_stop_waits_for_all_updates_that_the_node_has_sent(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {})
    node = LoopThread("node")

    async def play() -> None:
        await stage.source.start()
        await stage.until(lambda: stage.source.is_complete)
        # This loop is blocked meanwhile, so received data stays unread.
        with skerry.connect(stage.place, types=TYPES) as space:
            for mmsi in range(100):
                space.publish(Vessel(mmsi=mmsi))
            space.flush()
        await stage.source.stop()

    try:
        node.run(stage.start_node(5))
        asyncio.run(play())
        assert len(stage.rows()) == 100
        assert stage.messages == []
    finally:
        node.run(stage.stop_node())
        node.end()


def test_end_does_not_wait_for_a_node_that_is_away(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path) as stage:
            await stage.start_node(5)
            await stage.source.start()
            await stage.until(lambda: stage.source.is_complete)
            await stage.stop_node()
            await stage.until(lambda: stage.source.lost_count == 1)
            async with asyncio.timeout(1):
                await stage.source.stop()
            assert gap_of(stage.rows()[-1]["payload"]).reason.endswith("until the recording ended")

    asyncio.run(play())


def test_only_selected_types_and_subjects_are_recorded(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, types=("Vessel",), subjects=("/odd/*",)) as stage:
            await stage.start_node(5)
            await stage.source.start()
            async with await skerry.aio.connect(stage.place, types=TYPES) as space:
                space.publish(TYPES.Leg(a="x", b=1))
                space.publish(TYPES.Leg(a="x", b=2), subject="/odd/2")
                space.publish(Vessel(mmsi=1))
                await space.flush()
                await stage.until(lambda: len(stage.rows()) == 1)
            assert [row["subject"] for row in stage.rows("Leg")] == ["/odd/2"]
            assert not stage.rows("DotsClient")

    asyncio.run(play())


@pytest.mark.slow
def test_after_a_lost_connection_a_gap_counts_the_missing_updates(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, subjects=("/Vessel/*",)) as stage:
            await stage.start_node(5)
            async with await skerry.aio.connect(stage.place, types=TYPES) as space:
                await stage.source.start()
                space.publish(Vessel(mmsi=1))
                await space.flush()
                await stage.until(lambda: len(stage.rows()) == 1)
                first = stage.rows()[0]["position"]
                # The stream breaks, and meanwhile others go on.
                session = stage.source._session
                assert session is not None
                assert session._stream is not None
                session._stream.transport.abort()
                await stage.until(lambda: stage.source.lost_count == 1)
                space.remove(Vessel(mmsi=1))
                space.publish(Vessel(mmsi=2))
                await space.flush()
                await stage.until(lambda: "reconnected" in stage.messages)
                await stage.until(lambda: stage.source.is_complete)
                space.publish(Vessel(mmsi=3))
                await space.flush()
                await stage.until(lambda: stage.rows()[-1]["key"] == b"\x81\x03")
            rows = stage.rows()
            gap = gap_of(next(row for row in rows if row["operation"] == GAP)["payload"])
            assert gap.first == first + 1
            assert gap.stop == rows[-1]["position"]
            assert gap.count == gap.stop - gap.first
            assert gap.reason.startswith("the connection to the node was lost")
            found = operations([row for row in rows if row["operation"] != GAP])
            assert found[1] == (SNAPSHOT, b"\x02")
            assert (REMOVE, b"\x01") in found
            assert found[-1] == (CREATE, b"\x03")
            gone = next(row for row in rows if row["operation"] == REMOVE)
            assert (gone["sequence"], gone["sender"], gone["subject"]) == (0, 1, "/Vessel/1")
            assert gone["payload"] == Vessel(mmsi=1).encode()

    asyncio.run(play())


@pytest.mark.slow
def test_a_restarted_node_leaves_a_gap_of_unknown_size(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path) as stage:
            await stage.start_node(5)
            await stage.source.start()
            await stage.until(lambda: stage.source.is_complete)
            await stage.stop_node()
            await stage.until(lambda: stage.source.lost_count == 1)
            await stage.start_node(6)
            await stage.until(lambda: bool(stage.rows("none")))
            (row,) = stage.rows("none")
            gap = gap_of(row["payload"])
            assert (row["node"], gap.count, gap.stop) == (5, 0, 0)
            assert gap.reason.endswith("the node was restarted")

    asyncio.run(play())


@pytest.mark.slow
def test_a_recording_that_ends_without_its_node_ends_with_a_gap(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path) as stage:
            await stage.start_node(5)
            await stage.source.start()
            await stage.until(lambda: stage.source.is_complete)
            await stage.stop_node()
            await stage.until(lambda: stage.source.lost_count == 1)
            await stage.source.stop()
            (row,) = stage.rows("none")
            assert gap_of(row["payload"]).reason.endswith("until the recording ended")
            stage.source.intake.is_resuming = False

    asyncio.run(play())


def test_without_a_node_it_cannot_begin(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path) as stage:
            with pytest.raises(ConnectFailed):
                await stage.source.start()

    asyncio.run(play())


def test_a_refused_subscription_is_an_error(tmp_path: Path) -> None:
    async def play() -> None:
        rule = PermissionRule(subjects=("/DotsClient/...",), verbs=("subscribe",))
        async with on_stage(tmp_path, types=("Vessel",)) as stage:
            await stage.start_node(5, Admission(AdmissionConfig(permission=(rule,))))
            await stage.source.start()
            await stage.until(lambda: stage.source._failure is not None)
            with pytest.raises(Refused, match="Vessel"):
                stage.source.check()

    asyncio.run(play())


def test_a_recorder_with_few_rights_ends_in_order(tmp_path: Path) -> None:
    async def play() -> None:
        rule = PermissionRule(subjects=("/Vessel/...",), verbs=("subscribe",))
        async with on_stage(tmp_path, types=("Vessel",)) as stage:
            await stage.start_node(5, Admission(AdmissionConfig(permission=(rule,))))
            await stage.source.start()
            await stage.until(lambda: stage.source.is_complete)
            # The space's own subscription was refused, which a flush reports.
            stage.source.check()
            await stage.source.stop()

    asyncio.run(play())


def test_a_node_that_ends_it_for_good_is_an_error(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path) as stage:
            await stage.start_node(5)
            await stage.source.start()
            session = stage.source._session
            assert session is not None
            session.core.close(monotonic_ns(), reason="enough")
            session.write_output()
            with pytest.raises(Disconnected, match="enough"):
                stage.source.check()

    asyncio.run(play())


def test_round_trip_time_of_the_node_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with on_stage(tmp_path) as stage:
            await stage.start_node(5)
            await stage.source.start()
            await stage.until(lambda: stage.source.is_complete)
            stage.source.check()
            assert stage.rows("SkerryLink") == [], "it is not time yet"
            monkeypatch.setattr(stage.source._links, "is_due", lambda: True)
            stage.source.check()
            await stage.until(lambda: len(stage.rows("SkerryLink")) == 1)
            await stage.source.stop()
            reported = stage.rows("SkerryLink")
            assert len(reported) == 2, "the last answer is timed, too"
            session = stage.source._session
            assert session is not None
            for row in reported:
                link: Any = internal_class("SkerryLink").decode(row["payload"])
                assert (link.carrier, link.roundTrips) == ("access", 1)
                assert link.senderNumber == row["sender"] == session.core.connection.client_id
                assert 0 < link.roundTripTime < 30
                assert row["node"] == 5

    asyncio.run(play())


def test_a_partial_recording_has_no_rows_of_links(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, types=("Vessel",)) as stage:
            await stage.start_node(5)
            await stage.source.start()
            await stage.source.stop()
            assert stage.rows("SkerryLink") == []

    asyncio.run(play())


def test_everything_is_all_subjects_and_types_sent_by_name_only() -> None:
    assert NodeOptions().groups == ("/...", "SkerryLedger", "SkerryLink")
    assert NodeOptions(types=("A",), subjects=("/b/*",)).groups == ("A", "/b/*")
    assert NodeSource(
        RowQueue(space="x", row_count_max=1), NodeOptions(), space="x", report=print
    ).name.startswith("the node")
