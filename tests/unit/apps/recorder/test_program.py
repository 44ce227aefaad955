"""The recorder as a whole: sources, an orderly end, its numbers and its pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.apps.recorder.config import RecorderConfig
from skerry.apps.recorder.program import Recorder, RecordingSource
from skerry.apps.recorder.row_queue import RowQueue
from skerry.codec.envelope import GAP
from skerry.errors import ConnectFailed, Disconnected, RecordingError
from skerry.observe.number_metrics import RecorderStatistics
from skerry.recording.gaps import gap_of
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.updates import read_updates


class Numbers:
    """A source of rows that are numbered; each look at it brings some more."""

    name = "numbers"
    lost_count = 2

    def __init__(self, queue: RowQueue, *, burst: int = 10, fault: Exception | None = None) -> None:
        self.received_count = 0
        self.is_complete = False
        self._queue = queue
        self._burst = burst
        self._fault = fault
        self.is_stopped = False

    async def start(self) -> None:
        if isinstance(self._fault, ConnectFailed):
            raise self._fault
        self.is_complete = True

    async def stop(self) -> None:
        self.is_stopped = True
        self._put(1)

    def check(self) -> None:
        self._put(self._burst)
        if self._fault is not None:
            raise self._fault

    def _put(self, count: int) -> None:
        for _ in range(count):
            self.received_count += 1
            position = self.received_count
            self._queue.rows.append(
                "SkerryBytes",
                "/n",
                1,
                2,
                b"\x80",
                b"\xa1\x01\x41\x00",
                "local",
                0,
                2,
                7,
                position,
                position,
                -1,
                position,
                "access",
            )


def checked(source: RecordingSource) -> RecordingSource:
    return source


def rows_in(folder: Path) -> list[Any]:
    return list(read_updates(open_recordings(folder)))


def recorded(
    folder: Path, config: RecorderConfig | None = None, **options: Any
) -> tuple[Any, Numbers]:
    recorder = Recorder(folder, config or RecorderConfig(batch_ms=5))
    source = Numbers(recorder.queue)
    recorder.add(checked(source))
    is_stopped: Callable[[], bool] = options.pop("is_stopped", bool)
    return asyncio.run(recorder.run(is_stopped, **options)), source


def test_it_ends_after_so_many_updates_with_all_of_them_sealed(tmp_path: Path) -> None:
    started: list[bool] = []
    shown: list[RecorderStatistics] = []
    summary, source = recorded(
        tmp_path / "r", count=35, on_started=lambda: started.append(True), show=shown.append
    )
    assert source.is_stopped
    assert started == [True]
    assert summary.updates == source.received_count >= 36
    found = rows_in(tmp_path / "r")
    assert [update.position for update in found] == list(range(1, source.received_count + 1))
    assert summary.rows == len(found)
    assert summary.disconnects == 2
    assert shown[-1].updates >= 35


def test_it_ends_after_some_time(tmp_path: Path) -> None:
    summary, _ = recorded(tmp_path / "r", seconds=0.02)
    assert 0.02 <= summary.seconds < 30


def test_it_ends_when_it_is_stopped(tmp_path: Path) -> None:
    summary, source = recorded(tmp_path / "r", is_stopped=lambda: True)
    assert summary.updates == source.received_count == 1


def test_a_source_that_cannot_begin_leaves_an_empty_recording(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    source = Numbers(recorder.queue, fault=ConnectFailed("no node"))
    recorder.add(source)
    with pytest.raises(ConnectFailed):
        asyncio.run(recorder.run(lambda: False))
    # The folder is not locked any more: it can be recorded to.
    recorder = Recorder(tmp_path / "r")
    asyncio.run(recorder.run(lambda: True))


def test_a_source_that_cannot_stop_does_not_keep_others_from_it(tmp_path: Path) -> None:
    class Stubborn(Numbers):
        async def stop(self) -> None:
            raise Disconnected("no way")

    recorder = Recorder(tmp_path / "r")
    before, after = Numbers(recorder.queue), Numbers(recorder.queue)
    for source in (before, Stubborn(recorder.queue), after):
        recorder.add(source)
    with pytest.raises(Disconnected, match="no way"):
        asyncio.run(recorder.run(lambda: True))
    assert before.is_stopped
    assert after.is_stopped
    assert len(rows_in(tmp_path / "r")) == 2, "and the last rows are written"


def test_updates_before_the_failure_of_a_source_are_kept(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    recorder.add(Numbers(recorder.queue, fault=Disconnected("gone")))
    with pytest.raises(Disconnected):
        asyncio.run(recorder.run(lambda: False))
    assert len(rows_in(tmp_path / "r")) == 11


def test_updates_that_a_slow_disk_cannot_write_are_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(
        tmp_path / "r", RecorderConfig(batch_ms=5, batch_rows=10, queue_bytes_max=2000)
    )
    queue = recorder.queue
    recorder.add(Numbers(queue))
    # The disk blocks until the queue is full.
    take = queue.take
    monkeypatch.setattr(
        queue, "take", lambda timeout_s: take(timeout_s) if queue.lost_count >= 100 else None
    )
    summary = asyncio.run(recorder.run(lambda: queue.lost_count >= 100))
    found = rows_in(tmp_path / "r")
    (gap,) = [gap_of(update.payload) for update in found if update.operation == GAP]
    assert summary.lost_rows == gap.count == gap.stop - gap.first >= 100
    positions = [update.position for update in found if update.operation != GAP]
    missing = set(range(gap.first, gap.stop))
    assert sorted({*positions, *missing}) == list(range(1, summary.updates + 1))
    assert not missing & set(positions)
    assert summary.gaps == 1


def test_two_recorders_cannot_write_to_one_folder(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    with pytest.raises(RecordingError, match="another recorder"):
        Recorder(tmp_path / "r")
    asyncio.run(recorder.run(lambda: True))


def test_the_space_of_a_recording_is_kept(tmp_path: Path) -> None:
    recorded(tmp_path / "r", RecorderConfig(space="harbour", batch_ms=5), count=1)
    with pytest.raises(RecordingError, match="harbour"):
        Recorder(tmp_path / "r", RecorderConfig(space="other"))
    recorder = Recorder(tmp_path / "r", RecorderConfig(space="harbour"))
    assert recorder.writer.space == "harbour"
    assert recorder.writer.repairs == ()
    asyncio.run(recorder.run(lambda: True))


def test_pages_show_metrics_and_health(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    pages = recorder._pages()
    assert pages["/healthz"]().body == b"ok\n"
    assert pages["/readyz"]().body == b"ready\n"
    assert b"skerry_recorder_rows_total 0.0" in pages["/metrics"]().body
    assert json.loads(pages["/status.json"]().body)["rows"] == 0
    recorder._writing._errors["writing"] = RecordingError("no room")
    assert pages["/readyz"]().status == 503
    recorder._writing._errors.clear()
    asyncio.run(recorder.run(lambda: True))


def test_metrics_are_served_where_they_are_asked_for(tmp_path: Path) -> None:
    messages: list[str] = []
    recorder = Recorder(
        tmp_path / "r", RecorderConfig(metrics="127.0.0.1:0"), report=messages.append
    )
    asyncio.run(recorder.run(lambda: True))
    assert messages[0].startswith("metrics at http://127.0.0.1:")
