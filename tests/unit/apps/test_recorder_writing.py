"""The thread that writes: to the end, and on after trouble."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.apps.recorder_queue import RowQueue
from skerry.apps.recorder_writing import WritingThread
from skerry.codec.envelope import CREATE
from skerry.errors import RecordingError
from skerry.runtime.recordings.reader import open_recordings
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
            raise RecordingError("no room")
        super().append_columns(columns)


def rows_in(folder: Path) -> dict[str, int]:
    (recording,) = open_recordings(folder)
    (segment,) = recording.segments()
    return dict(segment.types)


def test_all_that_was_handed_over_is_written_and_sealed(tmp_path: Path) -> None:
    queue = RowQueue(space="local", row_count_max=10)
    writing = WritingThread(queue, RecordingWriter(tmp_path, space="local"))
    writing.start()
    was_alive = writing.is_alive
    queue.describe(TYPE)
    for position in (1, 2, 3):
        append(queue, position)
    queue.close()
    writing.stop()
    assert was_alive
    assert not writing.is_alive
    assert rows_in(tmp_path) == {"StructDescriptorData": 1, "Vessel": 3}


def test_trouble_is_told_once_and_it_goes_on_by_itself(tmp_path: Path) -> None:
    queue = RowQueue(space="local", row_count_max=10)
    writer = Failing(tmp_path, space="local")
    writer.fault_count = 2
    said: list[str] = []
    writing = WritingThread(queue, writer, tell=said.append, patience_s=0.0)
    for position in (1, 2, 3):
        append(queue, position)
    queue.close()
    writing.start()
    writing.stop()
    assert [text.partition(";")[0] for text in said] == ["no room", "the recording goes on"]
    assert rows_in(tmp_path)["Vessel"] == 1


def test_rows_that_can_be_written_do_not_prove_that_a_segment_can_be_sealed(tmp_path: Path) -> None:
    queue = RowQueue(space="local", row_count_max=10)
    writer = Failing(tmp_path, space="local")
    writer.seal_fault_count = 3
    said: list[str] = []
    writing = WritingThread(queue, writer, tell=said.append, patience_s=0.0)
    for position in (1, 2, 3, 4):
        append(queue, position)
    queue.close()
    writing.start()
    writing.stop()
    assert [text.partition(";")[0] for text in said] == ["cannot seal", "the recording goes on"]


def test_trouble_that_is_over_at_the_end_is_no_error(tmp_path: Path) -> None:
    queue = RowQueue(space="local", row_count_max=10)
    writer = Failing(tmp_path, space="local")
    writer.fault_count = 1
    writing = WritingThread(queue, writer, patience_s=0.0)
    append(queue, 1)
    queue.close()
    writing.start()
    writing.stop()
    assert writing.trouble == ""


def test_trouble_at_the_end_is_an_error(tmp_path: Path) -> None:
    queue = RowQueue(space="local", row_count_max=10)
    writer = Failing(tmp_path, space="local")
    writer.cannot_close = True
    writing = WritingThread(queue, writer, patience_s=0.0)
    append(queue, 1)
    queue.close()
    writing.start()
    with pytest.raises(RecordingError, match="no room"):
        writing.stop()


def test_a_fault_of_ours_ends_the_thread_and_is_told_to_who_stops_it(
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
    assert "cannot write any more" in writing.trouble
    assert "cannot write any more" in caplog.text
    writer.close()
