"""Copying recordings to a bucket."""

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
from skerry.runtime.recordings.files.manifest import MANIFEST_NAME, Manifest
from skerry.runtime.recordings.files.remote_paths import RemotePath
from skerry.runtime.recordings.reader import Recording, open_recordings
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
def target(bucket: str) -> RemotePath:
    return RemotePath(bucket) / "all" / "r"


def drop(folder: Path, name: str) -> None:
    """As retention does."""
    manifest = Manifest(folder)
    with manifest.locked():
        manifest.add_dropped(name, "age", sync=False)
    (folder / name).unlink()


def test_copy_is_the_recording(recording: Recording, target: RemotePath) -> None:
    reported: list[tuple[int, int]] = []
    segments = recording.segments()
    size = sum(segment.byte_count for segment in segments)
    done = upload_recording(recording.folder, target, on_progress=lambda *now: reported.append(now))
    assert done == Uploaded(segments=3, byte_count=size, skipped=0)
    assert reported[-1] == (size, size)
    copy = Recording(str(target))
    assert (copy.id, copy.space) == (recording.id, recording.space)
    assert [segment.name for segment in copy.segments()] == [s.name for s in segments]
    report = verify_recording(copy)
    assert (report.is_sound, report.row_count) == (True, verify_recording(recording).row_count)


def test_copied_segments_are_not_copied_again(
    recording: Recording, target: RemotePath, recorded: Recorded, update_of: UpdateOf
) -> None:
    upload_recording(recording.folder, target)
    copy = Recording(str(target))
    assert len(copy.segments()) == 3
    assert upload_recording(recording.folder, target) == Uploaded(
        segments=0, byte_count=0, skipped=3
    )
    recorded(recording.folder, [update_of(99)])
    assert upload_recording(recording.folder, target).segments == 1
    assert len(copy.segments()) == len(copy.arrived()) == 4


def test_manifest_is_copied_last_and_names_only_copied_segments(
    recording: Recording,
    target: RemotePath,
    recorded: Recorded,
    update_of: UpdateOf,
    object_store: ObjectStore,
) -> None:
    names: list[list[str]] = []

    def look_and_go_on(_done: int, _total: int) -> None:
        names.append(object_store.names(str(target)))
        if len(names) == 1:
            recorded(recording.folder, [update_of(99)])

    upload_recording(recording.folder, target, on_progress=look_and_go_on)
    assert all(name.endswith(".arrow") for listed in names for name in listed)
    assert len(Recording(str(target)).segments()) == 3, (
        "what was sealed meanwhile goes the next time"
    )
    assert len(recording.segments()) == 4


def test_incomplete_line_is_left_out_and_incomplete_segment_copied_again(
    recording: Recording, target: RemotePath, object_store: ObjectStore
) -> None:
    first = recording.segments()[0]
    object_store.put(f"{target}/{first.name}", b"half")
    whole = (recording.folder / MANIFEST_NAME).read_bytes()
    (recording.folder / MANIFEST_NAME).write_bytes(whole + b'{"sealed": {"na')
    assert upload_recording(recording.folder, target).segments == 3
    assert object_store.get(f"{target}/{MANIFEST_NAME}") == whole
    assert object_store.get(f"{target}/{first.name}") == first.path.read_bytes()


def test_segment_that_is_dropped_meanwhile_is_left_out(
    recording: Recording, target: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second, _ = recording.segments()
    sizes = _Upload._sizes

    def drop_and_look(upload: _Upload) -> dict[str, int]:
        if second.path.exists():
            drop(recording.folder, second.name)
        return sizes(upload)

    monkeypatch.setattr(_Upload, "_sizes", drop_and_look)
    assert upload_recording(recording.folder, target).segments == 2
    copy = Recording(str(target))
    assert len(copy.arrived()) == 2
    assert copy.lines.dropped == {second.name: "age"}


def test_segment_that_is_dropped_just_before_it_is_opened_is_left_out(
    recording: Recording, target: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second, _ = recording.segments()
    opened = Path.open

    def drop_and_open(path: Path, *args: Any, **options: Any) -> Any:
        if path == second.path and path.exists():
            drop(recording.folder, second.name)
        return opened(path, *args, **options)

    monkeypatch.setattr(Path, "open", drop_and_open)
    done = upload_recording(recording.folder, target)
    assert (done.segments, done.warnings) == (2, ())


def test_copy_ends_though_a_recorder_drops_segments_faster(
    recording: Recording,
    target: RemotePath,
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
    done = upload_recording(recording.folder, target)
    (warning,) = done.warnings
    assert "is missing" in warning
    copy = Recording(str(target))
    assert len(copy.arrived()) == len(copy.segments()), "nothing is waited for"
    assert len(copy.lines.dropped) == uploads._ROUNDS - 1


def test_lost_bytes_of_a_segment_are_a_gap_in_the_copy_too(
    recording: Recording, target: RemotePath
) -> None:
    """One is gone, one is short, one has more than is its own."""
    gone, short, long = recording.segments()
    size = sum(segment.byte_count for segment in (short, long)) - 100
    gone.path.unlink()
    short.path.write_bytes(short.path.read_bytes()[:-100])
    long.path.write_bytes(long.path.read_bytes() + b"more")
    done = upload_recording(recording.folder, target)
    assert (done.segments, done.byte_count) == (3, size)
    assert [text.partition(" ")[0] for text in done.warnings] == [gone.name, short.name, long.name]
    copy = Recording(str(target))
    assert len(copy.arrived()) == 3
    assert verify_recording(copy).row_count == verify_recording(recording).row_count == 14
    again = upload_recording(recording.folder, target)
    assert again == Uploaded(segments=0, byte_count=0, skipped=3)


def test_empty_file_gives_a_warning(recording: Recording, target: RemotePath) -> None:
    segment = recording.segments()[1]
    segment.path.write_bytes(b"")
    (warning,) = upload_recording(recording.folder, target).warnings
    assert warning.startswith(f"{segment.name} is missing or empty; zeros were copied")


def test_unreadable_file_is_not_reported_as_an_error_of_the_store(
    recording: Recording, target: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = recording.segments()[1]
    opened = Path.open

    def refuse(path: Path, *args: Any, **options: Any) -> Any:
        if path == segment.path:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **options)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(RecordingError, match=f"cannot read {segment.path}: Perm") as caught:
        upload_recording(recording.folder, target)
    assert "verify" in str(caught.value.hint)


def test_segment_without_a_line_is_left_out_until_it_has_one(
    recording: Recording,
    target: RemotePath,
    recorded: Recorded,
    update_of: UpdateOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = recorded(recording.folder.parent / "other", [update_of(99)])
    unlisted = other.segments()[0].path
    shutil.copy2(unlisted, recording.folder)
    (recording.folder / "half-0000000001.arrow").write_bytes(b"half")
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda *_: False)
        done = upload_recording(recording.folder, target)
    assert done.segments == 3
    assert [warning.partition(",")[0] for warning in done.warnings] == [
        f"{unlisted.name} is not in the manifest",
        "half-0000000001.arrow is not a segment",
    ]
    copy = Recording(str(target))
    assert len(copy.segments()) == 3
    # Now the folder is writable, and the segment gets its line.
    assert upload_recording(recording.folder, target).segments == 1
    assert [segment.line for segment in copy.segments()] == [0, 1, 2, 3]
    assert copy.segments()[3].name == unlisted.name
    assert verify_recording(copy).is_sound


def test_shortened_manifest_replaces_the_copy(recording: Recording, target: RemotePath) -> None:
    upload_recording(recording.folder, target)
    copy = Recording(str(target))
    first, *others = copy.segments()
    manifest = Manifest(recording.folder)
    with manifest.locked():
        manifest.add_dropped(first.name, "age", sync=False)
        (recording.folder / first.name).unlink()
        manifest.shorten(kept=0)
    upload_recording(recording.folder, target)
    assert copy.segments() == others
    assert copy.lines.forgotten.segments == {"age": 1}


def test_segment_that_was_dropped_and_copied_back_is_listed_again(
    recording: Recording, target: RemotePath
) -> None:
    upload_recording(recording.folder, target)
    first = recording.segments()[0]
    content = first.path.read_bytes()
    drop(recording.folder, first.name)
    upload_recording(recording.folder, target)
    first.path.write_bytes(content)
    manifest = Manifest(recording.folder)
    with manifest.locked():
        manifest.add_sealed(first, sync=False)
    upload_recording(recording.folder, target)
    assert [segment.line for segment in Recording(str(target)).segments()] == [1, 2, 4]


@pytest.mark.parametrize("is_longer", [False, True])
def test_manifest_that_numbers_segments_in_another_way_is_rejected(
    recording: Recording,
    target: RemotePath,
    recorded: Recorded,
    update_of: UpdateOf,
    is_longer: bool,
) -> None:
    drop(recording.folder, recording.segments()[0].name)
    upload_recording(recording.folder, target)
    (recording.folder / MANIFEST_NAME).unlink()
    for number in range(3 if is_longer else 0):
        recorded(recording.folder, [update_of(100 + number)])
    with pytest.raises(RecordingError, match="does not continue the one at") as caught:
        upload_recording(recording.folder, target)
    assert caught.value.hint == "copy the recording to another remote path"
    assert len(Recording(str(target)).segments()) == 2


def test_slower_copy_does_not_replace_the_manifest_of_a_faster_one(
    recording: Recording, target: RemotePath, recorded: Recorded, update_of: UpdateOf
) -> None:
    def be_overtaken(done: int, total: int) -> None:
        if done == total:
            recorded(recording.folder, [update_of(99)])
            upload_recording(recording.folder, target)

    upload_recording(recording.folder, target, on_progress=be_overtaken)
    assert len(Recording(str(target)).segments()) == 4


def test_interrupted_copy_is_not_a_recording(
    recording: Recording, target: RemotePath, monkeypatch: pytest.MonkeyPatch
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
        upload_recording(recording.folder, target)
    assert written == [MANIFEST_NAME, "recording.json"]
    with pytest.raises(RecordingError, match="not a recording"):
        open_recordings(str(target))
    assert upload_recording(recording.folder, target).skipped == 3
    assert len(open_recordings(str(target))) == 1


def test_target_that_contains_recordings_is_rejected(
    recording: Recording, target: RemotePath
) -> None:
    upload_recording(recording.folder, target)
    above = RemotePath(str(target).removesuffix("/r"))
    with pytest.raises(RecordingError, match=f"{above} contains recordings, such as r") as caught:
        upload_recording(recording.folder, above)
    assert caught.value.hint == f"copy it to a remote path of its own: {target}"
    assert len(open_recordings(str(above))) == 1


def test_target_that_is_another_recording_is_rejected(
    recording: Recording, target: RemotePath, recorded: Recorded, update_of: UpdateOf
) -> None:
    upload_recording(recording.folder, target)
    other = recorded(recording.folder.parent / "other", [update_of(1)])
    with pytest.raises(RecordingError, match=f"has another recording: {recording.id}") as caught:
        upload_recording(other.folder, target)
    assert "remote path of its own" in str(caught.value.hint)


def test_rejection_by_the_store_is_reported(
    recording: Recording, target: RemotePath, object_store: ObjectStore
) -> None:
    with pytest.raises(RecordingError, match="there is no bucket nobody-made-it"):
        upload_recording(recording.folder, RemotePath("s3://nobody-made-it/r"))
    with object_store.locked(), pytest.raises(RecordingError, match="credentials"):
        upload_recording(recording.folder, target)


def test_impossible_size_of_a_segment_is_an_error(recording: Recording, target: RemotePath) -> None:
    path = recording.folder / MANIFEST_NAME
    size = recording.segments()[1].byte_count
    text = path.read_text()
    assert text.count(f'"bytes":{size},') >= 1
    path.write_text(text.replace(f'"bytes":{size},', f'"bytes":{10**15},'))
    with pytest.raises(RecordingError, match=f"states {10**15} bytes for") as caught:
        upload_recording(recording.folder, target)
    assert "remove that line" in str(caught.value.hint)
    assert not (target / MANIFEST_NAME).exists()
