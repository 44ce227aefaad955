"""Recordings that are copied to a bucket."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.codec.envelope import Update
from skerry.errors import RecordingError
from skerry.runtime.recordings import uploads
from skerry.runtime.recordings.manifest import MANIFEST_NAME, Manifest
from skerry.runtime.recordings.reader import Recording, open_recordings
from skerry.runtime.recordings.remote_paths import RemotePath
from skerry.runtime.recordings.repairs import index_file
from skerry.runtime.recordings.uploads import Uploaded, _Upload, upload_recording
from skerry.runtime.recordings.verify import verify_recording
from tests.object_store import ObjectStore

Recorded = Callable[..., Recording]
UpdateOf = Callable[..., Update]


@pytest.fixture
def recording(tmp_path: Path, recorded: Recorded, update_of: UpdateOf) -> Recording:
    """Three segments of a batch of ten rows, the first with descriptions."""
    updates = [update_of(number) for number in range(1, 31)]
    return recorded(tmp_path / "r", updates, batches_per_segment=1)


@pytest.fixture
def place(bucket: str) -> RemotePath:
    return RemotePath(bucket) / "all" / "r"


def drop(folder: Path, name: str) -> None:
    """As retention does."""
    manifest = Manifest(folder)
    with manifest.locked():
        manifest.add_dropped(name, "age", sync=False)
    (folder / name).unlink()


def test_a_copy_is_the_recording(recording: Recording, place: RemotePath) -> None:
    told: list[tuple[int, int]] = []
    segments = recording.segments()
    size = sum(segment.byte_count for segment in segments)
    done = upload_recording(recording.folder, place, on_progress=lambda *now: told.append(now))
    assert done == Uploaded(segments=3, byte_count=size, skipped=0)
    assert told[-1] == (size, size)
    copy = Recording(str(place))
    assert (copy.id, copy.space) == (recording.id, recording.space)
    assert [segment.name for segment in copy.segments()] == [s.name for s in segments]
    report = verify_recording(copy)
    assert (report.is_sound, report.row_count) == (True, verify_recording(recording).row_count)


def test_what_is_there_is_not_copied_again(
    recording: Recording, place: RemotePath, recorded: Recorded, update_of: UpdateOf
) -> None:
    upload_recording(recording.folder, place)
    copy = Recording(str(place))
    assert len(copy.segments()) == 3
    assert upload_recording(recording.folder, place) == Uploaded(
        segments=0, byte_count=0, skipped=3
    )
    recorded(recording.folder, [update_of(99)])
    assert upload_recording(recording.folder, place).segments == 1
    assert len(copy.segments()) == len(copy.arrived()) == 4


def test_the_manifest_comes_last_and_names_only_what_is_there(
    recording: Recording,
    place: RemotePath,
    recorded: Recorded,
    update_of: UpdateOf,
    object_store: ObjectStore,
) -> None:
    names: list[list[str]] = []

    def look_and_go_on(_done: int, _total: int) -> None:
        names.append(object_store.names(str(place)))
        if len(names) == 1:
            recorded(recording.folder, [update_of(99)])

    upload_recording(recording.folder, place, on_progress=look_and_go_on)
    assert all(name.endswith(".arrow") for listed in names for name in listed)
    assert len(Recording(str(place)).segments()) == 3, (
        "what was sealed meanwhile goes the next time"
    )
    assert len(recording.segments()) == 4


def test_half_a_line_and_half_a_segment_are_not_taken(
    recording: Recording, place: RemotePath, object_store: ObjectStore
) -> None:
    first = recording.segments()[0]
    object_store.put(f"{place}/{first.name}", b"half")
    whole = (recording.folder / MANIFEST_NAME).read_bytes()
    (recording.folder / MANIFEST_NAME).write_bytes(whole + b'{"sealed": {"na')
    assert upload_recording(recording.folder, place).segments == 3
    assert object_store.get(f"{place}/{MANIFEST_NAME}") == whole
    assert object_store.get(f"{place}/{first.name}") == first.path.read_bytes()


def test_a_segment_that_is_dropped_meanwhile_is_left_out(
    recording: Recording, place: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second, _ = recording.segments()
    sizes = _Upload._sizes

    def drop_and_look(upload: _Upload) -> dict[str, int]:
        if second.path.exists():
            drop(recording.folder, second.name)
        return sizes(upload)

    monkeypatch.setattr(_Upload, "_sizes", drop_and_look)
    assert upload_recording(recording.folder, place).segments == 2
    copy = Recording(str(place))
    assert len(copy.arrived()) == 2
    assert copy.dropped == {second.name: "age"}


def test_a_segment_that_was_just_dropped_when_it_is_opened_is_left_out(
    recording: Recording, place: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second, _ = recording.segments()
    opened = Path.open

    def drop_and_open(path: Path, *args: Any, **options: Any) -> Any:
        if path == second.path and path.exists():
            drop(recording.folder, second.name)
        return opened(path, *args, **options)

    monkeypatch.setattr(Path, "open", drop_and_open)
    done = upload_recording(recording.folder, place)
    assert (done.segments, done.warnings) == (2, ())


def test_a_copy_ends_though_a_recorder_drops_faster(
    recording: Recording,
    place: RemotePath,
    recorded: Recorded,
    update_of: UpdateOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = _Upload._sizes

    def drop_and_go_on(upload: _Upload) -> dict[str, int]:
        drop(recording.folder, next(iter(Recording(recording.folder).segments())).name)
        recorded(recording.folder, [update_of(99)])
        return sizes(upload)

    monkeypatch.setattr(_Upload, "_sizes", drop_and_go_on)
    done = upload_recording(recording.folder, place)
    (warning,) = done.warnings
    assert "is gone" in warning
    copy = Recording(str(place))
    assert len(copy.arrived()) == len(copy.segments()), "nothing is waited for"
    assert len(copy.dropped) == uploads._ROUNDS - 1


def test_what_is_lost_of_a_segment_is_a_gap_in_the_copy_too(
    recording: Recording, place: RemotePath
) -> None:
    """One is gone, one is short, one has more than is its own."""
    gone, short, long = recording.segments()
    size = sum(segment.byte_count for segment in (short, long)) - 100
    gone.path.unlink()
    short.path.write_bytes(short.path.read_bytes()[:-100])
    long.path.write_bytes(long.path.read_bytes() + b"more")
    done = upload_recording(recording.folder, place)
    assert (done.segments, done.byte_count) == (3, size)
    assert [text.partition(" ")[0] for text in done.warnings] == [gone.name, short.name, long.name]
    copy = Recording(str(place))
    assert len(copy.arrived()) == 3
    assert verify_recording(copy).row_count == verify_recording(recording).row_count == 14
    again = upload_recording(recording.folder, place)
    assert again == Uploaded(segments=0, byte_count=0, skipped=3)


def test_an_empty_file_is_warned_of(recording: Recording, place: RemotePath) -> None:
    segment = recording.segments()[1]
    segment.path.write_bytes(b"")
    (warning,) = upload_recording(recording.folder, place).warnings
    assert warning.startswith(f"{segment.name} is gone, or empty; zeros were copied")


def test_a_file_that_cannot_be_read_is_no_failure_of_the_store(
    recording: Recording, place: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = recording.segments()[1]
    opened = Path.open

    def refuse(path: Path, *args: Any, **options: Any) -> Any:
        if path == segment.path:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **options)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(RecordingError, match=f"cannot read {segment.path}: Perm") as caught:
        upload_recording(recording.folder, place)
    assert "verify" in str(caught.value.hint)


def test_segments_without_a_line_go_too_where_one_may_not_give_them_one(
    recording: Recording,
    place: RemotePath,
    recorded: Recorded,
    update_of: UpdateOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = recorded(recording.folder.parent / "other", [update_of(99)])
    stray = other.segments()[0].path
    shutil.copy2(stray, recording.folder)
    (recording.folder / "half-0000000001.arrow").write_bytes(b"half")
    monkeypatch.setattr(os, "access", lambda *_: False)
    done = upload_recording(recording.folder, place)
    assert (done.segments, len(done.warnings)) == (4, 1)
    assert done.warnings[0].startswith("half-0000000001.arrow is no segment")
    copy = Recording(str(place))
    found = copy.segments()
    assert [(segment.name, segment.line) for segment in found[3:]] == [(stray.name, 3)]
    assert verify_recording(copy).is_sound
    # What its recorder seals next has that line there. In the copy it follows.
    later = recorded(recording.folder.parent / "later", [update_of(100)]).segments()[0].path
    shutil.copy2(later, recording.folder)
    segment = index_file(recording.folder, later.name)
    manifest = Manifest(recording.folder)
    with manifest.locked():
        assert segment is not None
        assert manifest.add_sealed(segment, sync=False).line == 3
    done = upload_recording(recording.folder, place)
    assert done.segments == 1
    assert [segment.line for segment in copy.segments()] == [0, 1, 2, 3, 4]
    assert copy.segments()[3].name == stray.name
    assert copy.unreadable_lines == ()
    assert verify_recording(Recording(str(place))).is_sound


def test_a_slower_copy_does_not_take_back_what_a_faster_one_brought(
    recording: Recording, place: RemotePath, recorded: Recorded, update_of: UpdateOf
) -> None:
    def be_overtaken(done: int, total: int) -> None:
        if done == total:
            recorded(recording.folder, [update_of(99)])
            upload_recording(recording.folder, place)

    upload_recording(recording.folder, place, on_progress=be_overtaken)
    assert len(Recording(str(place)).segments()) == 4


def test_a_copy_that_is_killed_leaves_no_recording(
    recording: Recording, place: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    write = RemotePath.write

    def die_at_the_end(target: RemotePath, data: bytes) -> None:
        written.append(target.name)
        if len(written) == 2:
            raise KeyboardInterrupt
        write(target, data)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(RemotePath, "write", die_at_the_end)
        upload_recording(recording.folder, place)
    assert written == [MANIFEST_NAME, "recording.json"]
    with pytest.raises(RecordingError, match="no recording"):
        open_recordings(str(place))
    assert upload_recording(recording.folder, place).skipped == 3
    assert len(open_recordings(str(place))) == 1


def test_a_place_that_has_recordings_in_it_is_refused(
    recording: Recording, place: RemotePath
) -> None:
    upload_recording(recording.folder, place)
    above = RemotePath(str(place).removesuffix("/r"))
    with pytest.raises(RecordingError, match=f"{above} has recordings in it, as r") as caught:
        upload_recording(recording.folder, above)
    assert caught.value.hint == f"name a place of its own: {place}"
    assert len(open_recordings(str(above))) == 1


def test_a_place_that_has_another_recording_is_refused(
    recording: Recording, place: RemotePath, recorded: Recorded, update_of: UpdateOf
) -> None:
    upload_recording(recording.folder, place)
    other = recorded(recording.folder.parent / "other", [update_of(1)])
    with pytest.raises(RecordingError, match=f"has another recording: {recording.id}") as caught:
        upload_recording(other.folder, place)
    assert "place of its own" in str(caught.value.hint)


def test_a_store_that_does_not_take_it_is_said(
    recording: Recording, place: RemotePath, object_store: ObjectStore
) -> None:
    with pytest.raises(RecordingError, match="there is no bucket nobody-made-it"):
        upload_recording(recording.folder, RemotePath("s3://nobody-made-it/r"))
    with object_store.locked(), pytest.raises(RecordingError, match="credentials"):
        upload_recording(recording.folder, place)


def test_a_size_that_no_segment_has_is_an_error(recording: Recording, place: RemotePath) -> None:
    path = recording.folder / MANIFEST_NAME
    size = recording.segments()[1].byte_count
    text = path.read_text()
    assert text.count(f'"bytes":{size},') >= 1
    path.write_text(text.replace(f'"bytes":{size},', f'"bytes":{10**15},'))
    with pytest.raises(RecordingError, match=f"has {10**15} bytes, and none has") as caught:
        upload_recording(recording.folder, place)
    assert "remove that line" in str(caught.value.hint)
    assert not (place / MANIFEST_NAME).exists()
