"""The thread that writes: to the end, and on after trouble."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.apps.recorder.row_queue import RowQueue
from skerry.apps.recorder.writing_thread import WritingThread
from skerry.codec.envelope import CREATE
from skerry.errors import RecordingError
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.updates import read_updates
from skerry.runtime.recordings.verify import verify_recording
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint

TYPE = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; }").Vessel.descriptor


def append(queue: RowQueue, position: int) -> None:
    queue.rows.append(
        "Vessel",
        f"/Vessel/{position}",
        CREATE,
        2,
        b"\x81\x01",
        b"\xa1\x01\x01",
        "local",
        fingerprint(TYPE),
        2,
        7,
        position,
        position,
        -1,
        position,
        "access",
    )
    queue.hand_over()


class Failing(RecordingWriter):
    """A writer on a disk that has no room for some time."""

    fault_count = 0
    seal_fault_count = 0
    cannot_close = False

    def close(self) -> None:
        super().close()
        if self.cannot_close:
            raise RecordingError("no room")

    def flush_if_due(self, now_ns: int) -> None:
        if self.seal_fault_count:
            self.seal_fault_count -= 1
            raise RecordingError("cannot seal")
        super().flush_if_due(now_ns)

    def append_columns(self, columns: Any) -> None:
        if self.fault_count:
            self.fault_count -= 1
            error = RecordingError("no room")
            raise error from OSError(errno.ENOSPC, "No space left on device")
        super().append_columns(columns)


class Heard:
    """Collects the messages of a thread, and waits for its recovery."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._has_recovered = threading.Event()

    def __call__(self, text: str) -> None:
        self.texts.append(text.partition(";")[0])
        if "continues" in text:
            self._has_recovered.set()

    def wait_for_recovery(self) -> None:
        assert self._has_recovered.wait(30)


AT_ONCE = (0.0, 0.0)


def rows_in(folder: Path) -> dict[str, int]:
    (recording,) = open_recordings(folder)
    (segment,) = recording.segments()
    return dict(segment.types)


def positions_in(folder: Path) -> list[int]:
    return [u.position for u in read_updates(open_recordings(folder)) if u.position]


def test_all_that_was_handed_over_is_written_and_sealed(tmp_path: Path) -> None:
    queue = RowQueue(space="local", row_count_max=10)
    writing = WritingThread(queue, RecordingWriter(tmp_path, space="local"))
    writing.start()
    was_alive = writing.thread.is_alive()
    queue.describe(TYPE)
    for position in (1, 2, 3):
        append(queue, position)
    queue.close()
    writing.stop()
    assert was_alive
    assert not writing.thread.is_alive()
    assert rows_in(tmp_path) == {"StructDescriptorData": 1, "Vessel": 3}


def test_a_failed_batch_is_retried_in_order_until_it_is_written(tmp_path: Path) -> None:
    queue = RowQueue(space="local", row_count_max=10)
    writer = Failing(tmp_path, space="local")
    writer.fault_count = 5
    received = Heard()
    writing = WritingThread(queue, writer, report=received, retry_s=AT_ONCE)
    for position in (1, 2, 3):
        append(queue, position)
    writing.start()
    received.wait_for_recovery()
    queue.close()
    writing.stop()
    assert received.texts == ["no room", "the recording continues"]
    assert writing.trouble == ""
    assert positions_in(tmp_path) == [1, 2, 3]
    (recording,) = open_recordings(tmp_path)
    assert verify_recording(recording).is_sound


def test_past_the_bound_the_newest_are_dropped_and_verify_names_the_gap(tmp_path: Path) -> None:
    queue = RowQueue(space="local", row_count_max=10, waiting_bytes_max=250)
    writer = Failing(tmp_path, space="local")
    # Batches 1 and 2 wait while 3 and 4 arrive, which do not fit into the queue.
    writer.fault_count = 3
    received = Heard()
    writing = WritingThread(queue, writer, report=received, retry_s=AT_ONCE)
    append(queue, 1)
    append(queue, 2)
    writing._turn()
    append(queue, 3)
    append(queue, 4)
    writing._turn()
    assert queue.lost_count == 2
    writing.start()
    received.wait_for_recovery()
    queue.close()
    writing.stop()
    assert received.texts == [
        "no room",
        "the queue of the recorder is full: new updates are dropped",
        "the recording continues",
        "2 updates were dropped, and a gap row states which",
    ]
    assert positions_in(tmp_path) == [1, 2]
    (recording,) = open_recordings(tmp_path)
    report = verify_recording(recording)
    assert (report.is_sound, report.lost_row_count) == (False, 2)
    assert "the recorder could not write: No space left on device" in str(report.findings[0])


def test_dropped_rows_are_reported_if_the_disk_is_only_slow(tmp_path: Path) -> None:
    queue = RowQueue(space="local", row_count_max=10, waiting_bytes_max=1)
    writer = RecordingWriter(tmp_path, space="local")
    received = Heard()
    writing = WritingThread(queue, writer, report=received, retry_s=AT_ONCE)
    for position in (1, 2, 3):
        append(queue, position)
    writing._turn()
    append(queue, 4)
    queue.close()
    writing.start()
    writing.stop()
    assert received.texts == [
        "the queue of the recorder is full: new updates are dropped",
        "2 updates were dropped, and a gap row states which",
    ]


def test_pauses_between_attempts_grow_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = RowQueue(space="local", row_count_max=10)
    writer = Failing(tmp_path, space="local")
    writer.fault_count = 4
    writing = WritingThread(queue, writer, retry_s=(1.0, 3.0))
    pauses: list[float] = []
    monkeypatch.setattr(writing._is_stopping, "wait", pauses.append)
    monkeypatch.setattr("skerry.apps.recorder.writing_thread.monotonic_ns", lambda: 0)
    append(queue, 1)
    for _ in range(5):
        writing._turn()
    assert pauses == [1.0, 2.0, 3.0, 3.0]
    writer.fault_count = 1
    append(queue, 2)
    writing._turn()
    assert pauses[4:] == [1.0]
    writer.close()


def test_rows_are_written_on_while_a_segment_cannot_be_sealed(tmp_path: Path) -> None:
    queue = RowQueue(space="local", row_count_max=10)
    writer = Failing(tmp_path, space="local")
    writer.seal_fault_count = 10
    writing = WritingThread(queue, writer, retry_s=(600.0, 600.0))
    for position in range(1, 6):
        append(queue, position)
        writing._turn()
    assert queue.waiting_bytes == 0
    assert writer.seal_fault_count == 9, "to seal is attempted again after its own pause"
    writer.close()
    assert positions_in(tmp_path) == [1, 2, 3, 4, 5]


def test_a_stop_drops_rows_that_cannot_be_written_and_counts_them(tmp_path: Path) -> None:
    queue = RowQueue(space="local", row_count_max=10)
    writer = Failing(tmp_path, space="local")
    writer.fault_count = 2
    writing = WritingThread(queue, writer, retry_s=AT_ONCE)
    for position in (1, 2):
        append(queue, position)
    queue.close()
    writing._is_stopping.set()
    writing.start()
    with pytest.raises(RecordingError, match="no room; 2 queued rows are lost"):
        writing.stop()
    (recording,) = open_recordings(tmp_path)
    report = verify_recording(recording)
    assert (report.fault_count, report.lost_row_count) == (1, 2)


def test_rows_that_can_be_written_do_not_prove_that_a_segment_can_be_sealed(tmp_path: Path) -> None:
    queue = RowQueue(space="local", row_count_max=10)
    writer = Failing(tmp_path, space="local")
    writer.seal_fault_count = 3
    received = Heard()
    writing = WritingThread(queue, writer, report=received, retry_s=AT_ONCE)
    for position in (1, 2, 3, 4):
        append(queue, position)
    queue.close()
    writing.start()
    writing.stop()
    assert received.texts == ["cannot seal", "the recording continues"]


def test_trouble_at_the_end_is_an_error(tmp_path: Path) -> None:
    queue = RowQueue(space="local", row_count_max=10)
    writer = Failing(tmp_path, space="local")
    writer.cannot_close = True
    writing = WritingThread(queue, writer, retry_s=AT_ONCE)
    append(queue, 1)
    queue.close()
    writing.start()
    with pytest.raises(RecordingError, match="no room"):
        writing.stop()


def test_a_bug_ends_the_thread_and_is_raised_by_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue = RowQueue(space="local", row_count_max=10)
    writer = RecordingWriter(tmp_path, space="local")
    writing = WritingThread(queue, writer)
    writer.flush_if_due = None  # type: ignore[method-assign,assignment]
    append(queue, 1)
    queue.close()
    writing.start()
    with pytest.raises(TypeError):
        writing.stop()
    assert "writing thread of the recorder failed" in writing.trouble
    assert "writing thread of the recorder failed" in caplog.text
    writer.close()
