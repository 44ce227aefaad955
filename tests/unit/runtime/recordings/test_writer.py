"""Writing a recording: batches, segments, durability, disks that are full, and crashes."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pytest

from skerry.codec.envelope import GAP, Update
from skerry.errors import RecordingError
from skerry.limits import RECORDING_BATCH_BYTES, TYPE_COUNT_MAX
from skerry.objects.typeset import TypeSet, define_types
from skerry.recording.gaps import Gap, gap_of
from skerry.recording.rows import Rows
from skerry.recording.updates import updates_of
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.recordings import writer as writer_module
from skerry.runtime.recordings.config import Durability, RecordingConfig
from skerry.runtime.recordings.files import retention
from skerry.runtime.recordings.files.followers import touch_follower
from skerry.runtime.recordings.files.manifest import Manifest
from skerry.runtime.recordings.files.segment_files import SegmentFile
from skerry.runtime.recordings.reader import Recording, read_types
from skerry.runtime.recordings.verify import verify_recording
from skerry.runtime.recordings.writer import RECORDING_BATCH_COUNT_MAX, RecordingWriter
from skerry.schema.fingerprint import fingerprint

UpdateOf = Callable[..., Update]
Limit = Callable[[int], AbstractContextManager[None]]
MS = 1_000_000
SECOND = 1000 * MS


def rows_of(folder: Path) -> list[Update]:
    return [
        update
        for segment in Recording(folder).segments()
        for _, batch in Recording(segment.folder).batches(segment)
        for update in updates_of(batch)
    ]


def positions(folder: Path) -> list[int]:
    return [update.position for update in rows_of(folder) if update.position]


def open_writer(folder: Path, **settings: object) -> RecordingWriter:
    return RecordingWriter(folder, RecordingConfig(**settings), space="local")  # type: ignore[arg-type]


def broken_disk(*_arguments: object, **_options: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


# -- batches


def test_rows_are_read_back_with_their_types(
    tmp_path: Path, update_of: UpdateOf, types: TypeSet
) -> None:
    with open_writer(tmp_path) as writer:
        writer.describe(types.Vessel.descriptor)
        writer.describe(types.Port.descriptor)
        for number in range(1, 6):
            writer.append(update_of(number))
    (segment,) = Recording(tmp_path).segments()
    assert [u for u in rows_of(tmp_path) if u.position] == [update_of(n) for n in range(1, 6)]
    described = read_types(segment)
    assert [type_.name for type_ in described.values()] == ["Vessel"], "Port was not needed"
    assert segment.fingerprints == {"Vessel": (fingerprint(types.Vessel.descriptor),)}


def test_batch_is_written_when_it_is_full(tmp_path: Path, update_of: UpdateOf) -> None:
    with open_writer(tmp_path, batch_rows=3) as writer:
        for number in range(1, 8):
            writer.append(update_of(number))
            writer.flush_if_due(SECOND)
        assert writer.row_count == 6
    (segment,) = Recording(tmp_path).segments()
    assert [batch.rows for batch in segment.batches] == [3, 3, 1]


def test_batch_is_written_after_its_time(tmp_path: Path, update_of: UpdateOf) -> None:
    with open_writer(tmp_path) as writer:
        assert writer.deadline_ns() is None
        now_ns = monotonic_ns()
        writer.append(update_of(1))
        assert writer.deadline_ns() == 0, "how long it waits is counted from the first look"
        writer.flush_if_due(now_ns)
        assert writer.deadline_ns() == now_ns + 200 * MS
        writer.flush_if_due(now_ns + 200 * MS - 1)
        assert writer.row_count == 0
        writer.flush_if_due(now_ns + 200 * MS)
        assert writer.row_count == 1


@pytest.mark.slow
def test_large_objects_make_a_batch_full(tmp_path: Path, update_of: UpdateOf) -> None:
    with open_writer(tmp_path) as writer:
        filling = []
        for number in (1, 2):
            writer.append(update_of(number, payload=bytes(RECORDING_BATCH_BYTES // 2)))
            filling.append(writer.is_full)
        assert filling == [False, True]
        writer.flush_if_due(1)
        assert writer.row_count == 2


def test_collected_rows_are_a_separate_batch(
    tmp_path: Path, update_of: UpdateOf, types: TypeSet
) -> None:
    rows = Rows()
    for number in (2, 3):
        rows.append_update(update_of(number))
    with open_writer(tmp_path) as writer:
        writer.describe(types.Vessel.descriptor)
        writer.append(update_of(1))
        writer.append_columns(rows.take())
        writer.append_columns(rows.take())
    (segment,) = Recording(tmp_path).segments()
    assert [batch.rows for batch in segment.batches] == [2, 1, 2]
    assert positions(tmp_path) == [1, 2, 3]


def test_types_are_bounded(tmp_path: Path) -> None:
    type_ = define_types("struct A { 1: string s; }").A.descriptor
    with open_writer(tmp_path) as writer:
        writer._types = dict.fromkeys(range(TYPE_COUNT_MAX - 1), type_)
        writer.describe(type_)
        writer.describe(type_)
        assert len(writer._types) == TYPE_COUNT_MAX
        assert 0 in writer._types
        writer.describe(define_types("struct B { 1: string s; }").B.descriptor)
        assert len(writer._types) == TYPE_COUNT_MAX
        assert 0 not in writer._types, "the one that was reported first goes"


def test_type_that_changes_is_described_twice(tmp_path: Path, update_of: UpdateOf) -> None:
    old = define_types("struct Vessel { 1: [key] uint32 mmsi; }").Vessel.descriptor
    new = define_types("struct Vessel { 1: [key] uint32 mmsi; 2: string name; }").Vessel.descriptor
    numbers = [fingerprint(old), fingerprint(new)]
    with open_writer(tmp_path) as writer:
        writer.describe(old)
        writer.append(update_of(1, fingerprint=numbers[0]))
        writer.flush()
        writer.describe(new)
        writer.append(update_of(2, fingerprint=numbers[1]))
        writer.append(update_of(3, fingerprint=numbers[0]))
    (segment,) = Recording(tmp_path).segments()
    assert [batch.has_descriptors for batch in segment.batches] == [True, False, True, False]
    assert set(read_types(segment)) == set(numbers)
    assert set(segment.fingerprints["Vessel"]) == set(numbers)


# -- segments


def test_segment_is_sealed_at_its_size_and_can_be_read_alone(
    tmp_path: Path, update_of: UpdateOf, types: TypeSet
) -> None:
    with open_writer(tmp_path, batch_rows=1, segment_bytes=8000) as writer:
        writer.describe(types.Vessel.descriptor)
        for number in range(1, 10):
            writer.append(update_of(number))
            writer.flush_if_due(1)
    segments = Recording(tmp_path).segments()
    assert len(segments) > 1
    assert [segment.line for segment in segments] == list(range(len(segments)))
    assert all(len(read_types(segment)) == 1 for segment in segments)
    assert positions(tmp_path) == list(range(1, 10))


def test_segment_is_sealed_at_its_age(tmp_path: Path, update_of: UpdateOf) -> None:
    with open_writer(tmp_path) as writer:
        writer.append(update_of(1))
        writer.flush()
        now_ns = monotonic_ns()
        writer.flush_if_due(now_ns + 59 * SECOND)
        assert Recording(tmp_path).segments() == []
        writer.flush_if_due(now_ns + 60 * SECOND)
        assert len(Recording(tmp_path).segments()) == 1
        assert writer.deadline_ns() is None


def test_segment_is_sealed_sooner_with_a_follower(tmp_path: Path, update_of: UpdateOf) -> None:
    with open_writer(tmp_path) as writer:
        writer.append(update_of(1))
        writer.flush()
        now_ns = monotonic_ns()
        writer.flush_if_due(now_ns + 3 * SECOND)
        touch_follower(tmp_path, "spark")
        due_ns = writer.deadline_ns()
        assert due_ns is not None
        assert due_ns <= now_ns + 4 * SECOND, "who comes is seen within a second"
        writer.flush_if_due(now_ns + 4 * SECOND)
        assert len(Recording(tmp_path).segments()) == 1


@pytest.mark.slow
def test_segment_of_many_small_batches_is_sealed(tmp_path: Path, update_of: UpdateOf) -> None:
    with open_writer(tmp_path, batch_rows=1, durability=Durability.NONE) as writer:
        writer.append(update_of(1))
        writer.flush_if_due(1)
        segment = writer._segment
        assert segment is not None
        segment.contents *= RECORDING_BATCH_COUNT_MAX - 2
        sealed_counts = []
        for number in (2, 3):
            writer.append(update_of(number))
            writer.flush_if_due(1)
            sealed_counts.append(len(Recording(tmp_path).segments()))
        assert sealed_counts == [0, 1]
    (sealed,) = Recording(tmp_path).segments()
    assert len(sealed.batches) == RECORDING_BATCH_COUNT_MAX


def test_segment_that_cannot_be_sealed_has_a_limited_number_of_batches(
    tmp_path: Path, update_of: UpdateOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "RECORDING_BATCH_COUNT_MAX", 2)
    with open_writer(tmp_path) as writer:
        for number in (1, 2):
            writer.append(update_of(number))
            writer.flush()
        writer.append(update_of(3))
        with monkeypatch.context() as patched:
            patched.setattr(SegmentFile, "seal", broken_disk)
            with pytest.raises(RecordingError, match="cannot seal"):
                writer.flush()
        writer.flush()
    assert [len(segment.batches) for segment in Recording(tmp_path).segments()] == [2, 1]
    assert positions(tmp_path) == [1, 2, 3]


def test_foreign_folder_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RecordingError, match="not empty"):
        open_writer(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_followers_file_instead_of_a_folder_is_ignored(tmp_path: Path, update_of: UpdateOf) -> None:
    (tmp_path / "followers").write_text("no folder")
    with open_writer(tmp_path) as writer:
        writer.append(update_of(1))
        writer.flush()
        writer.flush_if_due(monotonic_ns() + 2 * SECOND)
    assert positions(tmp_path) == [1]


def test_removed_manifest_is_written_again_with_all_segments(
    tmp_path: Path, update_of: UpdateOf
) -> None:
    with open_writer(tmp_path) as writer:
        for number in (1, 2):
            writer.append(update_of(number))
            writer.seal()
        (tmp_path / "manifest.jsonl").unlink()
        writer.append(update_of(3))
        writer.seal()
    assert positions(tmp_path) == [1, 2, 3]
    assert Recording(tmp_path).segments()[-1].line == 2


def test_interrupted_write_leaves_no_torn_rows_and_is_repeated(
    tmp_path: Path, update_of: UpdateOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite

    def interrupted(handle: int, data: memoryview, offset: int) -> int:
        real(handle, data[: len(data) // 2], offset)
        raise KeyboardInterrupt

    with open_writer(tmp_path) as writer:
        writer.append(update_of(1))
        writer.flush()
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", interrupted)
            writer.append(update_of(2))
            with pytest.raises(KeyboardInterrupt):
                writer.flush()
    (segment,) = Recording(tmp_path).segments()
    assert segment.path.stat().st_size == segment.byte_count
    with pa.ipc.open_stream(segment.path) as reader:
        assert reader.read_all().column("position").to_pylist() == [1, 2]


def test_name_of_a_new_segment_is_durable_before_its_rows(
    tmp_path: Path, update_of: UpdateOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(writer_module, "sync_folder", synced.append)
    with open_writer(tmp_path / "a", durability=Durability.BATCH) as writer:
        writer.append(update_of(1))
        writer.flush()
        assert synced == [tmp_path / "a"]
    synced.clear()
    with open_writer(tmp_path / "b", durability=Durability.NONE) as writer:
        writer.append(update_of(1))
        writer.flush()
        assert synced == []


def test_nothing_recorded_is_an_empty_recording(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        writer.flush_if_due(1)
        writer.seal()
    recording = Recording(tmp_path)
    assert (recording.segments(), recording.lines.count) == ([], 0)


def test_next_recorder_continues_with_new_numbers(tmp_path: Path, update_of: UpdateOf) -> None:
    for number in (1, 2, 3):
        with open_writer(tmp_path) as writer:
            writer.append(update_of(number))
    names = [segment.name for segment in Recording(tmp_path).segments()]
    assert [name[-16:-6] for name in names] == ["0000000001", "0000000002", "0000000003"]
    assert len({name[:8] for name in names}) == 1
    assert positions(tmp_path) == [1, 2, 3]


def test_files_of_a_recording_are_private_whatever_the_umask(
    tmp_path: Path, update_of: UpdateOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "RECORDING_DROPPED_KEPT", 1)
    before = os.umask(0)
    try:
        with open_writer(tmp_path / "r", keep_bytes=1) as writer:
            for number in range(1, 6):  # The manifest is shortened on the way.
                writer.append(update_of(number))
                writer.seal()
            assert writer._manifest.lines.forgotten.segments
            writer.append(update_of(6))
            writer.flush()
            modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "r").iterdir()}
    finally:
        os.umask(before)
    assert any(name.endswith(".open") for name in modes)
    assert set(modes.values()) == {0o600}
    assert (tmp_path / "r").stat().st_mode & 0o777 == 0o700


def test_second_recorder_is_rejected(tmp_path: Path) -> None:
    with open_writer(tmp_path), pytest.raises(RecordingError, match="another recorder"):
        open_writer(tmp_path)
    open_writer(tmp_path).close()


def test_old_segments_are_dropped_when_the_next_is_sealed(
    tmp_path: Path, update_of: UpdateOf
) -> None:
    with open_writer(tmp_path, keep_bytes=1) as writer:
        for number in (1, 2):
            writer.append(update_of(number))
            writer.seal()
        assert writer.dropped_count == 1
        writer.append(update_of(3))
        writer.flush()
        found = Recording(tmp_path).segments(include_open=True)
        assert len(found) == 2, "the last sealed one and the open one stay"


@pytest.mark.parametrize("durability", list(Durability))
def test_syncs_depend_on_the_durability(
    tmp_path: Path,
    update_of: UpdateOf,
    durability: Durability,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    synced: list[str] = []

    def noted(name: str, real: Callable[[int], None]) -> Callable[[int], None]:
        def sync(handle: int) -> None:
            synced.append(name)
            real(handle)

        return sync

    for name in ("fdatasync", "fsync"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    with open_writer(tmp_path, durability=durability, batch_rows=1) as writer:
        synced.clear()
        start_ns = monotonic_ns()
        for number, now_ns in [(1, start_ns), (2, start_ns), (3, start_ns + SECOND)]:
            writer.append(update_of(number))
            writer.flush_if_due(now_ns)
        written = synced.count("fdatasync")
        synced.clear()
    expected = {Durability.NONE: 0, Durability.INTERVAL: 2, Durability.BATCH: 3}
    assert written == expected[durability]
    # The segment, its new name, and its line.
    assert len(synced) == (0 if durability is Durability.NONE else 3)


# -- disks that are full


def test_rows_wait_for_a_full_disk_and_are_written_once(
    tmp_path: Path, update_of: UpdateOf, types: TypeSet, file_size_limit: Limit
) -> None:
    with open_writer(tmp_path, batch_rows=2, durability=Durability.BATCH) as writer:
        writer.describe(types.Vessel.descriptor)
        writer.append(update_of(1))
        writer.flush()
        with file_size_limit(4500):
            for first in (2, 4):
                writer.append(update_of(first))
                writer.append(update_of(first + 1))
                with pytest.raises(RecordingError, match="cannot write to") as caught:
                    writer.flush_if_due(1)
                assert caught.value.hint
        assert writer.lost_row_count == 0
        writer.append(update_of(6))
    assert positions(tmp_path) == [1, 2, 3, 4, 5, 6]
    assert verify_recording(Recording(tmp_path)).findings == []


def test_failed_batch_can_be_written_again(
    tmp_path: Path, update_of: UpdateOf, types: TypeSet, file_size_limit: Limit
) -> None:
    rows = Rows()
    for number in (2, 3):
        rows.append_update(update_of(number))
    columns = rows.take()
    with open_writer(tmp_path) as writer:
        writer.describe(types.Vessel.descriptor)
        writer.append(update_of(1))
        for size in (0, 1500, 4000, 6000):
            with file_size_limit(size), pytest.raises(RecordingError):
                writer.append_columns(columns)
        writer.append_columns(columns)
    assert positions(tmp_path) == [1, 2, 3]
    assert verify_recording(Recording(tmp_path)).findings == []


def test_written_batch_is_not_written_again_after_a_failed_sync(
    tmp_path: Path, update_of: UpdateOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Rows()
    rows.append_update(update_of(1))
    with open_writer(tmp_path, durability=Durability.BATCH) as writer:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", broken_disk)
            writer.append_columns(rows.take())
            assert writer.deadline_ns() == 0
            with pytest.raises(RecordingError, match="cannot sync"):
                writer.flush_if_due(1)
        writer.flush_if_due(1)
        assert writer.deadline_ns() != 0
    assert positions(tmp_path) == [1]


def test_rows_that_are_given_up_become_a_gap_per_node(
    tmp_path: Path, update_of: UpdateOf, file_size_limit: Limit
) -> None:
    with open_writer(tmp_path) as writer:
        writer.append(update_of(1))
        writer.flush()
        rows = Rows()
        for number, node in ((2, -9), (3, 8), (7, -9)):
            rows.append_update(update_of(number, node=node))
        columns = rows.take()
        with file_size_limit(writer.byte_count):
            with pytest.raises(RecordingError) as caught:
                writer.append_columns(columns)
            writer.leave_out(columns, "the disk is full")
        assert "free disk space" in (caught.value.hint or "")
        assert (writer.lost_row_count, writer.gap_count) == (3, 0)
        writer.append(update_of(9))
        writer.flush()
        assert writer.gap_count == 2
    gaps = {row.node: gap_of(row.payload) for row in rows_of(tmp_path) if row.operation == GAP}
    assert {node: (gap.count, gap.first, gap.stop) for node, gap in gaps.items()} == {
        -9: (2, 2, 8),
        8: (1, 3, 4),
    }
    assert {(gap.reason, gap.is_dropped) for gap in gaps.values()} == {("the disk is full", True)}


def test_gap_is_written_though_no_row_follows(tmp_path: Path, update_of: UpdateOf) -> None:
    rows = Rows()
    rows.append_update(update_of(1))
    with open_writer(tmp_path) as writer:
        writer.leave_out(rows.take(), "the disk is full")
    (gap,) = rows_of(tmp_path)
    assert gap_of(gap.payload).count == 1


def test_close_replaces_unwritable_rows_by_a_gap(
    tmp_path: Path, update_of: UpdateOf, file_size_limit: Limit
) -> None:
    writer = open_writer(tmp_path)
    writer.append(update_of(1))
    writer.flush()
    writer.append(update_of(2, payload=bytes(100_000)))
    with file_size_limit(50_000), pytest.raises(RecordingError, match="cannot write"):
        writer.close()
    assert [(row.position, row.operation == GAP) for row in rows_of(tmp_path)] == [
        (1, False),
        (0, True),
    ]
    report = verify_recording(Recording(tmp_path))
    assert (report.is_sound, report.lost_row_count) == (False, 1)


def test_segment_that_cannot_be_sealed_is_sealed_later(
    tmp_path: Path, update_of: UpdateOf, file_size_limit: Limit
) -> None:
    with open_writer(tmp_path) as writer:
        writer.append(update_of(1))
        writer.flush()
        segment = writer._segment
        assert segment is not None
        with file_size_limit(segment.size), pytest.raises(RecordingError, match="cannot seal"):
            writer.seal()
        writer.append(update_of(2))
        writer.seal()
    assert positions(tmp_path) == [1, 2]


def test_segment_without_space_for_its_line_is_listed_later(
    tmp_path: Path, update_of: UpdateOf, file_size_limit: Limit
) -> None:
    with open_writer(tmp_path) as writer:
        for number in range(1, 11):
            writer.append(update_of(number))
            writer.seal()
        line_size = (tmp_path / "manifest.jsonl").stat().st_size
        writer.append(update_of(11))
        writer.flush()
        segment = writer._segment
        assert segment is not None
        assert line_size + 8 > segment.size, "otherwise it could not be sealed at all"
        with file_size_limit(line_size + 8), pytest.raises(RecordingError, match="cannot seal"):
            writer.seal()
        writer.append(update_of(12))
    recording = Recording(tmp_path)
    assert len(recording.segments()) == 12
    assert recording.lines.unreadable == []
    assert positions(tmp_path) == list(range(1, 13))


_ON_A_SMALL_DISK = """
import sys
from pathlib import Path
from skerry.codec.envelope import Update
from skerry.errors import RecordingError
from skerry.runtime.recordings import writer as writer_module
from skerry.runtime.recordings.config import RecordingConfig
from skerry.runtime.recordings.writer import RecordingWriter

disk = Path(sys.argv[1])
writer = RecordingWriter(disk / "r", RecordingConfig(batch_rows=1), space="local")
ballast = disk / "ballast"
ballast.write_bytes(bytes(600_000))
refused = 0
for number in range(1, 61):
    writer.append(
        Update(type_name="T", subject="/T", operation=2, present=0, key=b"",
               payload=bytes(10_000), node=1, sender=2, sequence=number, position=number,
               time_ns=number)
    )
    try:
        writer.flush_if_due(1)
    except RecordingError as error:
        assert "No space left" in str(error), error
        refused += 1
        if refused == 5:
            ballast.unlink()
writer.close()
from skerry.codec.envelope import GAP
from skerry.recording.gaps import gap_of
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.updates import read_updates
from skerry.runtime.recordings.verify import verify_recording
recording = Recording(disk / "r")
updates = list(read_updates([recording]))
gaps = [gap_of(u.payload) for u in updates if u.operation == GAP]
assert verify_recording(recording).is_sound
print(refused, len(updates) - len(gaps), sum(gap.count for gap in gaps))
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None, reason="no disk can be made here")
def test_full_disk_that_is_freed_loses_nothing(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=1m tmpfs {tmp_path}"
    small = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    if subprocess.run([*small, mount], capture_output=True).returncode:
        pytest.skip("no disk can be made here")
    script = f'{mount} && exec "$0" -c "$1" {tmp_path}'
    done = subprocess.run(
        [*small, script, sys.executable, _ON_A_SMALL_DISK], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    refused, written, missed = map(int, done.stdout.split())
    assert refused == 5
    assert (written, missed) == (60, 0)


# -- crashes


_UNTIL_KILLED = """
import os, sys
from pathlib import Path
from skerry.codec.envelope import Update
from skerry.runtime.recordings import writer as writer_module
from skerry.runtime.recordings.config import Durability, RecordingConfig
from skerry.runtime.recordings.writer import RecordingWriter

config = RecordingConfig(batch_rows=50, segment_bytes=60_000, durability=Durability.NONE)
writer = RecordingWriter(Path(sys.argv[1]), config, space="local")
number = 0
while True:
    number += 1
    writer.append(
        Update(type_name="T", subject="/T", operation=2, present=0, key=b"",
               payload=bytes(number % 500), node=1, sender=2, sequence=number, position=number,
               time_ns=number)
    )
    writer.flush_if_due(1)
    if writer.rows.count == 0:
        # What this line tells is with the operating system.
        os.write(1, b"%d\\n" % number)
"""


@pytest.mark.slow
@pytest.mark.parametrize("batches", [1, 17, 60])
def test_killed_recorder_loses_no_written_batch(tmp_path: Path, batches: int) -> None:
    folder = tmp_path / "r"
    with subprocess.Popen(
        [sys.executable, "-c", _UNTIL_KILLED, str(folder)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            for _ in range(batches):
                reported = int(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGKILL)
        reported = max([reported, *map(int, process.stdout.read().split()[-1:])])
    # The open segment may end with half a batch, as after a power cut.
    for path in folder.glob("*.open"):
        with path.open("ab") as file:
            file.write(path.read_bytes()[1200:1900])
    with open_writer(folder) as writer:
        assert len(writer.repairs) <= 1
        writer.append_gap(Gap(count=0, reason="the recorder was killed"))
    found = positions(folder)
    assert found == list(range(1, len(found) + 1))
    assert reported <= len(found) <= reported + 50
    assert list(folder.glob("*.open")) == []


def test_repairs_after_a_crash_are_reported_to_the_next_writer(
    tmp_path: Path, update_of: UpdateOf
) -> None:
    writer = open_writer(tmp_path)
    writer.append(update_of(1))
    writer.flush()
    path = next(tmp_path.glob("*.open"))
    content = path.read_bytes()
    writer.close()
    (tmp_path / "manifest.jsonl").unlink()
    next(tmp_path.glob("*.arrow")).unlink()
    path.write_bytes(content + b"half a batch")
    with open_writer(tmp_path) as again:
        (repair,) = again.repairs
        assert (repair.name, repair.kept_rows, repair.lost_bytes) == (path.name, 1, 12)
    with open_writer(tmp_path) as third:
        assert third.repairs == ()
    assert positions(tmp_path) == [1]


def test_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RecordingError, match="cannot open"):
        open_writer(tmp_path / "file" / "r")


# -- odd cases


@pytest.mark.slow
def test_odd_objects_are_recorded_like_all_others(tmp_path: Path, update_of: UpdateOf) -> None:
    odd = [
        update_of(1, key=b"\x80", subject="/Clock", type_name="Clock"),
        update_of(2, payload=bytes(range(256)) * 40_000),
        update_of(3, subject="/" + "/".join(map(str, range(1000)))),
        update_of(4, subject="", payload=b"", key=b"", type_name="", present=0),
    ]
    with open_writer(tmp_path) as writer:
        for update in odd:
            writer.append(update)
    assert rows_of(tmp_path) == odd


# -- manifests that forget


@pytest.mark.slow
def test_follower_of_a_shortened_manifest_sees_each_segment_once(
    tmp_path: Path, update_of: UpdateOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "RECORDING_DROPPED_KEPT", 2)
    seen: list[int] = []
    with open_writer(tmp_path, keep_bytes=15_000) as writer:
        place, recording = 0, Recording(tmp_path)
        for number in range(1, 41):
            writer.append(update_of(number))
            writer.seal()
            if number % 2 == 0:
                for segment in recording.segments():
                    if segment.line >= place:
                        place = segment.line + 1
                        for _, rows in recording.batches(segment):
                            seen += [p for p in rows.column("position").to_pylist() if p]
        assert writer.dropped_count == 40 - len(recording.segments())
    assert seen == list(range(1, 41))
    forgotten = recording.lines.forgotten
    assert forgotten.times > 5
    assert forgotten.segments["size"] + len(recording.lines.dropped) == writer.dropped_count


def test_numbers_of_forgotten_segments_are_not_reused(tmp_path: Path, update_of: UpdateOf) -> None:
    with open_writer(tmp_path) as writer:
        writer.append(update_of(1))
    (segment,) = Recording(tmp_path).segments()
    manifest = Manifest(tmp_path)
    with manifest.locked():
        manifest.add_dropped(segment.name, "age", sync=False)
        segment.path.unlink()
        manifest.shorten(kept=0)
    with open_writer(tmp_path) as writer:
        writer.append(update_of(2))
    (again,) = Recording(tmp_path).segments()
    assert segment.name.endswith("-0000000001.arrow")
    assert again.name.endswith("-0000000002.arrow")
    assert again.line == 2


def test_unfinished_shorter_manifest_is_removed_by_the_next_writer(
    tmp_path: Path, update_of: UpdateOf
) -> None:
    with open_writer(tmp_path) as writer:
        writer.append(update_of(1))
    left_over = tmp_path / "manifest.jsonl.new"
    left_over.write_bytes(b'{"shortened":{"ti')
    assert positions(tmp_path) == [1]
    assert left_over.exists()
    open_writer(tmp_path).close()
    assert not left_over.exists()
    assert positions(tmp_path) == [1]
