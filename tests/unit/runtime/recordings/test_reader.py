"""Reading recordings: segments in order, intact batches, gaps for damaged ones."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

from skerry.codec.envelope import GAP, Update
from skerry.errors import RecordingError
from skerry.recording.gaps import gap_of
from skerry.recording.index import Segment
from skerry.runtime.recordings.config import RecordingConfig
from skerry.runtime.recordings.files import segment_files, unlisted_segments
from skerry.runtime.recordings.files.manifest import Manifest
from skerry.runtime.recordings.files.remote_paths import RemotePath
from skerry.runtime.recordings.files.segment_files import map_file
from skerry.runtime.recordings.files.unlisted_segments import UnlistedSegments
from skerry.runtime.recordings.reader import (
    Recording,
    is_intact,
    open_recordings,
    read_batch,
    read_block,
    read_types,
)
from skerry.runtime.recordings.uploads import upload_recording
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.model import StructType
from tests.object_store import ObjectStore

Recorded = Callable[..., Recording]
UpdateOf = Callable[..., Update]
SECOND = 1_000_000_000


def read_batches(segment: Segment) -> list[pa.RecordBatch]:
    """The rows of a segment, batch by batch."""
    return [rows for _, rows in Recording(segment.folder).batches(segment)]


@pytest.fixture
def recording(tmp_path: Path, recorded: Recorded, update_of: UpdateOf) -> Recording:
    """Two segments, each of a batch of descriptions and two of ten rows."""
    updates = [update_of(number) for number in range(1, 41)]
    return recorded(tmp_path / "r", updates, batches_per_segment=2)


def positions(batches: Any) -> list[int]:
    return [p for batch in batches for p in batch.column("position").to_pylist() if p]


def test_recordings_are_opened_by_their_folder_or_its_parent(recording: Recording) -> None:
    for path in (recording.folder, recording.folder.parent, str(recording.folder)):
        (found,) = open_recordings(path)
        assert (found.id, found.space) == (recording.id, "local")
    with pytest.raises(RecordingError):
        open_recordings(recording.folder / "missing")


def test_segments_have_an_index(recording: Recording) -> None:
    first, second = recording.segments()
    assert (first.rows, first.types["Vessel"], first.line, second.line) == (22, 20, 0, 1)
    assert first.byte_count == first.path.stat().st_size
    assert second.time_min_ns - first.time_max_ns == SECOND
    assert [batch.rows for batch in first.batches] == [2, 10, 10]
    assert pickle.loads(pickle.dumps(first)) == first
    assert recording.lines.count == 2


def test_batches_that_are_not_wanted_are_not_read(recording: Recording) -> None:
    first, _ = recording.segments()
    wanted = first.batches[2]
    (found,) = recording.batches(first, lambda batch: batch == wanted)
    assert found[0] == wanted
    assert positions([found[1]]) == list(range(11, 21))
    first.path.unlink()
    assert list(recording.batches(first, lambda _batch: False)) == []


def test_missing_segment_is_a_gap_per_batch(recording: Recording) -> None:
    first, _ = recording.segments()
    first.path.unlink()
    found = list(recording.batches(first))
    assert [batch for batch, _ in found] == list(first.batches)
    assert [rows.column("operation").to_pylist() for _, rows in found] == [[GAP]] * 3
    assert recording.types(first) == {}


def test_segment_that_was_dropped_since_it_was_listed_has_no_batches(recording: Recording) -> None:
    first, _ = recording.segments()
    manifest = Manifest(recording.folder)
    with manifest.locked():
        manifest.add_dropped(first.name, "age", sync=False)
    first.path.unlink()
    assert list(recording.batches(first)) == []
    assert recording.types(first) == {}
    (gone,) = recording.dropped_between(0, 1)
    assert (gone.name, gone.rows, gone.time_min_ns) == (first.name, first.rows, first.time_min_ns)
    assert recording.dropped_between(1, 9) == []


def test_segment_that_was_sealed_since_it_was_listed_is_still_read(
    tmp_path: Path, update_of: UpdateOf
) -> None:
    with RecordingWriter(tmp_path, space="local") as writer:
        writer.append(update_of(1))
        writer.flush()
        recording = Recording(tmp_path)
        (segment,) = recording.segments(include_open=True)
        writer.seal()
        assert not segment.path.exists()
        assert positions(rows for _, rows in recording.batches(segment)) == [1]


def test_segment_that_is_sealed_during_the_listing_is_listed_once(
    tmp_path: Path, update_of: UpdateOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RecordingWriter(tmp_path, space="local") as writer:
        writer.append(update_of(1))
        writer.flush()
        recording = Recording(tmp_path)
        refresh = UnlistedSegments.refresh

        def seal_and_refresh(found: UnlistedSegments) -> None:
            writer.seal()
            refresh(found)

        def refresh_and_seal(found: UnlistedSegments) -> None:
            refresh(found)
            writer.seal()

        with monkeypatch.context() as patched:
            patched.setattr(UnlistedSegments, "refresh", seal_and_refresh)
            assert len(recording.segments(include_open=True)) == 1
        writer.append(update_of(2))
        writer.flush()
        with monkeypatch.context() as patched:
            patched.setattr(UnlistedSegments, "refresh", refresh_and_seal)
            assert [segment.line for segment in recording.segments(include_open=True)] == [0, 1]


def test_unreadable_segment_is_an_error_with_a_hint(recording: Recording) -> None:
    first, _ = recording.segments()
    first.path.unlink()
    first.path.mkdir()
    with pytest.raises(RecordingError, match="cannot read") as caught:
        list(recording.batches(first))
    assert "verify" in (caught.value.hint or "")


def test_types_are_found_by_fingerprint(recording: Recording) -> None:
    segment = recording.segments()[1]
    (number,) = segment.fingerprints["Vessel"]
    found = read_types(segment)
    assert isinstance(found[number], StructType)
    assert [field.name for field in found[number].fields] == ["mmsi", "lat", "color"]


def test_damaged_batch_is_a_gap_and_the_rest_is_read(
    recording: Recording, damaged: Callable[..., None]
) -> None:
    segment = recording.segments()[0]
    noted = segment.batches[1]
    damaged(segment.path, noted.offset + noted.size // 2)
    batches = list(read_batches(segment))
    assert positions(batches) == list(range(11, 21))
    gap_batch = batches[1]
    assert gap_batch.column("operation").to_pylist() == [GAP]
    assert gap_batch.column("time_ns").to_pylist() == [noted.time_min_ns]
    gap = gap_of(gap_batch.column("payload")[0].as_py())
    assert (gap.count, gap.first, gap.stop) == (10, 1, 11)
    assert (gap.first_ns, gap.last_ns) == (noted.time_min_ns, noted.time_max_ns)


def test_batch_of_another_segment_is_damage(recording: Recording) -> None:
    first, second = recording.segments()
    (first.path).write_bytes(second.path.read_bytes())
    assert [batch.column("operation").to_pylist() for batch in read_batches(first)] == [[GAP]] * 3


def test_shortened_file_is_damage_and_no_crash(recording: Recording) -> None:
    segment = recording.segments()[0]
    os.truncate(segment.path, segment.batches[1].stop + 5)
    batches = list(read_batches(segment))
    assert [batch.num_rows for batch in batches] == [2, 10, 1]
    os.truncate(segment.path, 0)
    assert [batch.num_rows for batch in read_batches(segment)] == [1, 1, 1]


def test_gap_of_a_damaged_batch_can_name_the_space(recording: Recording) -> None:
    segment = recording.segments()[0]
    data = bytearray(map_file(segment.path))
    data[segment.batches[1].offset] ^= 1
    batch = read_batch(memoryview(data), segment.batches[1], space="local")
    assert batch.column("space").to_pylist() == ["local"]


def test_open_segment_is_read_up_to_its_last_complete_batch(
    tmp_path: Path, update_of: UpdateOf
) -> None:
    with RecordingWriter(tmp_path, RecordingConfig(), space="local") as writer:
        writer.append(update_of(1))
        writer.flush()
        recording = Recording(tmp_path)
        assert recording.segments() == []
        (segment,) = recording.segments(include_open=True)
        assert positions(read_batches(segment)) == [1]
        with segment.path.open("ab") as file:
            file.write(b"half a batch")
        (segment,) = recording.segments(include_open=True)
        assert positions(read_batches(segment)) == [1]
        os.truncate(segment.path, segment.byte_count - len(b"half a batch"))


def test_growing_recording_lists_segments_sealed_since(tmp_path: Path, update_of: UpdateOf) -> None:
    with RecordingWriter(tmp_path, RecordingConfig(), space="local") as writer:
        recording = Recording(tmp_path)
        for number in (1, 2, 3):
            writer.append(update_of(number))
            writer.seal()
            assert len(recording.segments()) == number == recording.lines.count


def test_unlisted_segments_of_a_read_only_folder_come_last(
    recording: Recording, recorded: Recorded, update_of: UpdateOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = recorded(recording.folder.parent / "o", [update_of(90, node=4)])
    (theirs,) = other.segments()
    (recording.folder / theirs.name).write_bytes(theirs.path.read_bytes())
    # Root may write everywhere, so the question itself is answered for it.
    monkeypatch.setattr(os, "access", lambda *_: False)
    read_only = Recording(recording.folder)
    assert [segment.line for segment in read_only.segments()] == [0, 1, 2]
    assert read_only.lines.count == 2
    assert positions(read_batches(read_only.segments()[2])) == [90]
    monkeypatch.undo()
    assert [segment.line for segment in Recording(recording.folder).segments()] == [0, 1, 2]


def test_partly_copied_segment_is_listed_when_it_is_complete(
    recording: Recording, recorded: Recorded, update_of: UpdateOf
) -> None:
    other = recorded(recording.folder.parent / "o", [update_of(90, node=4)])
    (theirs,) = other.segments()
    content = theirs.path.read_bytes()
    target = recording.folder / theirs.name
    target.write_bytes(content[:1500])
    assert len(recording.segments()) == 2
    assert list(recording.unindexed) == [theirs.name]
    target.write_bytes(content)
    assert len(recording.segments()) == 3
    assert list(recording.unindexed) == []


def test_segment_sealed_while_the_folder_is_listed_comes_once(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    manifest = recording.folder / "manifest.jsonl"
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.write_text(lines[0])
    reader = Recording(recording.folder)
    assert [segment.line for segment in reader.segments()] == [0, 1]
    manifest.write_text("".join(lines))
    assert [segment.line for segment in reader.segments()] == [0, 1]


def test_folder_that_has_been_quiet_is_not_listed_again(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(recording.folder, (1, 1))
    assert len(recording.segments()) == 2
    monkeypatch.setattr(Path, "iterdir", lambda _: pytest.fail("it was listed"))
    assert len(recording.segments()) == 2


# -- other tools


def test_pyarrow_alone_reads_a_segment(recording: Recording) -> None:
    with pa.ipc.open_stream(recording.segments()[0].path) as reader:
        table = reader.read_all()
    assert [p for p in table.column("position").to_pylist() if p] == list(range(1, 21))


def test_polars_reads_a_segment(recording: Recording) -> None:
    frame = polars.read_ipc_stream(recording.segments()[0].path)
    vessels = frame.filter(polars.col("type").cast(polars.String) == "Vessel")
    assert vessels["position"].to_list() == list(range(1, 21))
    assert frame["type"].cast(polars.String).to_list()[:2] == [
        "EnumDescriptorData",
        "StructDescriptorData",
    ]


def test_duckdb_reads_a_segment(recording: Recording) -> None:
    with pa.ipc.open_stream(recording.segments()[0].path) as rows, duckdb.connect() as base:
        base.register("rows", rows)
        query = "SELECT type, count(*), max(position) FROM rows GROUP BY type ORDER BY type"
        assert base.sql(query).fetchall() == [
            ("EnumDescriptorData", 1, 0),
            ("StructDescriptorData", 1, 0),
            ("Vessel", 20, 20),
        ]


def forget(recording: Recording, *segments: Segment, kept: int = 0) -> None:
    """Drop segments, and forget all but the newest."""
    manifest = Manifest(recording.folder)
    with manifest.locked():
        for segment in segments:
            manifest.add_dropped(segment.name, "age", sync=False)
            segment.path.unlink()
        manifest.shorten(kept=kept)


def test_segment_that_was_dropped_and_forgotten_since_it_was_listed_has_no_batches(
    recording: Recording,
) -> None:
    first, second = recording.segments()
    forget(recording, first)
    assert recording.data(first) is None
    assert list(recording.batches(first)) == []
    assert (recording.lines.dropped, recording.lines.forgotten.segments) == ({}, {"age": 1})
    assert recording.segments() == [second]
    # Also where it was listed while it was being written.
    being_written = replace(first, name=f"{first.name}.open")
    assert recording.data(being_written) is None


def test_missing_segment_among_forgotten_ones_is_damaged(recording: Recording) -> None:
    first, second = recording.segments()
    forget(recording, second)
    first.path.unlink()
    assert recording.data(first) == memoryview(b"")


def test_range_that_overlaps_forgotten_lines_is_known(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    updates = [update_of(number) for number in range(60)]
    recording = recorded(tmp_path, updates, rows_per_batch=10, batches_per_segment=1)
    segments = recording.segments()
    forget(recording, *segments[1:5], kept=1)
    recording.segments()
    forgotten = recording.lines.forgotten
    assert (forgotten.first_line, forgotten.last_line) == (1, 3)
    assert forgotten.rows == sum(segment.rows for segment in segments[1:4])
    reached = [(0, 1), (0, 2), (1, 2), (3, 9), (4, 9)]
    found = [recording.forgotten_between(*span) is forgotten for span in reached]
    assert found == [False, True, True, True, False]
    assert [gone.line for gone in recording.dropped_between(0, 9)] == [4]
    assert recording.lines.count == 10


def test_nothing_is_forgotten_unless_rows_are(recording: Recording) -> None:
    assert recording.forgotten_between(0, 99) is None
    forget(recording)
    recording.segments()
    assert recording.lines.forgotten.times == 1
    assert recording.forgotten_between(0, 99) is None


def test_segment_that_is_dropped_while_it_is_indexed_is_not_listed(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = recording.segments()
    other = recording.folder / "76543210-0000000001.arrow"
    other.write_bytes(first.path.read_bytes())
    index_file = unlisted_segments.index_file

    def index_late(folder: Path, name: str, *, line: int = -1) -> Segment | None:
        found = index_file(folder, name, line=line)
        # Meanwhile another one adopted it, and retention took it.
        other.unlink()
        return found

    monkeypatch.setattr(unlisted_segments, "index_file", index_late)
    assert unlisted_segments.list_unlisted(recording.folder, Manifest(recording.folder)) == []
    assert len(recording.segments()) == 2


# -- elsewhere


@pytest.fixture
def copied(recording: Recording, bucket: str) -> Recording:
    """A copy of the recording in a bucket."""
    upload_recording(recording.folder, RemotePath(bucket) / "all" / "r")
    return Recording(f"{bucket}/all/r")


def test_remote_recording_has_the_content_of_the_local_one(
    recording: Recording, copied: Recording, bucket: str
) -> None:
    for path in (f"{bucket}/all/r", f"{bucket}/all", f"{bucket.replace('s3:', 's3a:')}/all/"):
        assert [found.id for found in open_recordings(path)] == [recording.id]
    ours, theirs = recording.segments(), copied.segments(include_open=True)
    assert theirs == [replace(segment, folder=str(copied.path)) for segment in ours]
    assert copied.arrived() == theirs
    for here, there in zip(ours, theirs, strict=True):
        assert list(recording.batches(here)) == list(copied.batches(there))
        assert recording.data(here) == copied.data(there)
        assert recording.types(here) == copied.types(there) == read_types(there)
    assert (copied.is_being_written, copied.open_names, copied.unindexed) == (False, [], ())
    assert copied.path.name == "r"


def test_remote_segment_without_a_line_is_ignored(copied: Recording) -> None:
    assert isinstance(copied.path, RemotePath)
    other = "76543210-0000000001.arrow"
    (copied.path / other).write(bytes(copied.data(copied.segments()[0]) or b""))
    assert other not in [segment.name for segment in copied.segments()]


def test_missing_remote_segment_is_damaged_unless_it_was_dropped(
    recording: Recording, copied: Recording, object_store: ObjectStore
) -> None:
    first, second = copied.segments()
    object_store.delete(first.uri)
    # It was seen before, and what was seen may be read.
    assert copied.data(first) == memoryview(b"")
    gaps = [rows.column("operation").to_pylist() for _, rows in copied.batches(first)]
    assert gaps == [[GAP]] * 3
    assert Recording(str(copied.path)).arrived() == []
    forget(recording, recording.segments()[0])
    object_store.put(f"{copied.path}/manifest.jsonl", manifest_of(recording))
    assert copied.data(first) is None
    assert list(copied.batches(first)) == []
    assert copied.arrived() == [second]


def test_remote_segment_that_is_removed_while_it_is_read_is_damaged_from_there_on(
    copied: Recording, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_files, "_FETCH_BYTES_MAX", 1)
    first = copied.segments()[0]
    found = copied.batches(first)
    rows = [next(found)[1].num_rows]
    object_store.delete(first.uri)
    rest = [batch.column("operation").to_pylist() for _, batch in found]
    assert (rows, rest) == ([2], [[GAP], [GAP]])


def manifest_of(recording: Recording) -> bytes:
    return (recording.folder / "manifest.jsonl").read_bytes()


def test_remote_path_that_is_not_a_recording_is_an_error(
    bucket: str, object_store: ObjectStore
) -> None:
    with pytest.raises(RecordingError, match=f"there is no folder {bucket}/none"):
        open_recordings(f"{bucket}/none")
    object_store.put(f"{bucket}/some/thing", b"")
    with pytest.raises(RecordingError, match="is not a recording and contains none"):
        open_recordings(f"{bucket}/some")
    object_store.put(f"{bucket}/bad/recording.json", b"{}")
    with pytest.raises(RecordingError, match="does not identify a recording"):
        open_recordings(f"{bucket}/bad")


def test_remote_recording_has_no_folder(copied: Recording) -> None:
    with pytest.raises(AssertionError, match="is remote"):
        _ = copied.folder
    with pytest.raises(AssertionError, match="is remote"):
        _ = copied.segments()[0].path


def test_batch_is_intact_only_as_it_was_written(recording: Recording) -> None:
    segment = recording.segments()[0]
    batch = segment.batches[1]
    block = bytearray(map_file(segment.path)[batch.offset : batch.stop])
    assert is_intact(memoryview(block), batch)
    assert read_block(memoryview(block), batch).num_rows == 10
    assert not is_intact(memoryview(block)[:-1], batch)
    assert not is_intact(memoryview(block), replace(batch, crc=batch.crc ^ 1))
    block[-1] ^= 1
    assert not is_intact(memoryview(block), batch)
    assert read_block(memoryview(block), batch).column("operation").to_pylist() == [GAP]
