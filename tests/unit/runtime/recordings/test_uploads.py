"""Recordings that are copied to a bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skerry.codec.envelope import Update
from skerry.errors import RecordingError
from skerry.runtime.recordings.manifest import MANIFEST_NAME, Manifest
from skerry.runtime.recordings.places import Place
from skerry.runtime.recordings.reader import Recording
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
def place(bucket: str) -> Place:
    return Place(bucket) / "all" / "r"


def test_a_copy_is_the_recording(recording: Recording, place: Place) -> None:
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
    recording: Recording, place: Place, recorded: Recorded, update_of: UpdateOf
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
    place: Place,
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
    recording: Recording, place: Place, object_store: ObjectStore
) -> None:
    first = recording.segments()[0]
    object_store.put(f"{place}/{first.name}", b"half")
    whole = (recording.folder / MANIFEST_NAME).read_bytes()
    (recording.folder / MANIFEST_NAME).write_bytes(whole + b'{"sealed": {"na')
    assert upload_recording(recording.folder, place).segments == 3
    assert object_store.get(f"{place}/{MANIFEST_NAME}") == whole
    assert object_store.get(f"{place}/{first.name}") == first.path.read_bytes()


def test_a_segment_that_is_dropped_meanwhile_is_left_out(
    recording: Recording, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second, _ = recording.segments()
    sizes = _Upload._sizes

    def drop_and_look(upload: _Upload) -> dict[str, int]:
        if second.path.exists():
            manifest = Manifest(recording.folder)
            with manifest.locked():
                manifest.add_dropped(second.name, "age", sync=False)
            second.path.unlink()
        return sizes(upload)

    monkeypatch.setattr(_Upload, "_sizes", drop_and_look)
    assert upload_recording(recording.folder, place).segments == 2
    copy = Recording(str(place))
    assert len(copy.arrived()) == 2
    assert copy.dropped == {second.name: "age"}


def test_a_segment_that_is_gone_is_an_error(recording: Recording, place: Place) -> None:
    _, second, _ = recording.segments()
    second.path.unlink()
    with pytest.raises(RecordingError, match="is gone, and its manifest names it") as caught:
        upload_recording(recording.folder, place)
    assert "verify" in str(caught.value.hint)
    assert not (place / MANIFEST_NAME).exists()


def test_a_place_that_has_another_recording_is_refused(
    recording: Recording, place: Place, recorded: Recorded, update_of: UpdateOf
) -> None:
    upload_recording(recording.folder, place)
    other = recorded(recording.folder.parent / "other", [update_of(1)])
    with pytest.raises(RecordingError, match=f"has another recording: {recording.id}") as caught:
        upload_recording(other.folder, place)
    assert "place of its own" in str(caught.value.hint)


def test_a_store_that_does_not_take_it_is_said(
    recording: Recording, place: Place, object_store: ObjectStore
) -> None:
    with pytest.raises(RecordingError, match="there is no bucket nobody-made-it"):
        upload_recording(recording.folder, Place("s3://nobody-made-it/r"))
    with object_store.locked(), pytest.raises(RecordingError, match="credentials"):
        upload_recording(recording.folder, place)
