"""The folder of a recording."""

from __future__ import annotations

import fcntl
import json
import threading
from pathlib import Path

import pytest

from skerry.errors import RecordingError
from skerry.runtime.recordings.files.folders import (
    IDENTITY_NAME,
    RECORDING_RESERVE_BYTES,
    create_identity,
    find_recordings,
    hold_reserve,
    is_being_written,
    is_recording,
    make_folder,
    open_names,
    read_identity,
    reject_foreign_folder,
    release_reserve,
    sealed_names,
    segment_name,
    segment_number,
    sync_folder,
    writer_lock,
)


def test_identity_does_not_change(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    made = create_identity(folder, space="fleet")
    assert read_identity(folder) == made == create_identity(folder, space="fleet")
    assert len(made.id) == 16
    assert json.loads((folder / IDENTITY_NAME).read_text())["format"] == 1


def test_folders_that_are_made_are_private_and_others_stay_as_they_are(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path, *sorted(tmp_path.rglob("*")))]
    assert modes == [0o755, 0o700, 0o700]


def test_recording_of_another_space_is_not_continued(tmp_path: Path) -> None:
    create_identity(tmp_path, space="fleet")
    with pytest.raises(RecordingError, match="recording of fleet, not of local") as caught:
        create_identity(tmp_path, space="local")
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": 2, "id": "0123456789abcdef", "space": "a", "created_ns": 1}',
        '{"format": 1, "id": "../../../etc/xxx", "space": "a", "created_ns": 1}',
        '{"format": 1, "id": 7, "space": "a", "created_ns": 1}',
        '{"format": 1, "id": "0123456789abcdef", "space": 3, "created_ns": 1}',
        '{"format": 1, "id": "0123456789abcdef", "space": "a", "created_ns": "x"}',
    ],
)
def test_invalid_identity_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / IDENTITY_NAME).write_text(text)
    with pytest.raises(RecordingError):
        read_identity(tmp_path)


def test_recordings_are_the_folder_or_those_in_it(tmp_path: Path) -> None:
    for name in ("b", "a"):
        create_identity(tmp_path / name, space="local")
    (tmp_path / "other").mkdir()
    assert find_recordings(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert find_recordings(tmp_path / "a") == [tmp_path / "a"]
    assert is_recording(tmp_path / "a")
    assert not is_recording(tmp_path)


def test_missing_recording_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="is not a recording") as caught:
        find_recordings(tmp_path)
    assert caught.value.hint
    with pytest.raises(RecordingError, match="no folder"):
        find_recordings(tmp_path / "missing")


def test_folder_without_permission_is_an_error_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(_path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", denied)
    with pytest.raises(RecordingError, match="cannot look into") as caught:
        find_recordings(tmp_path)
    assert "as the user of the recorder" in (caught.value.hint or "")


def test_reserve_uses_disk_space_until_it_is_released(tmp_path: Path) -> None:
    for _ in range(2):
        hold_reserve(tmp_path)
        (found,) = tmp_path.iterdir()
        stat = found.stat()
        assert stat.st_size == RECORDING_RESERVE_BYTES
        assert stat.st_blocks * 512 >= RECORDING_RESERVE_BYTES
    reject_foreign_folder(tmp_path)
    release_reserve(tmp_path)
    release_reserve(tmp_path)
    assert list(tmp_path.iterdir()) == []
    hold_reserve(tmp_path / "not there")


def test_names_tell_the_number_of_their_own_recording_only() -> None:
    name = segment_name("0123456789abcdef", 12)
    assert name == "01234567-0000000012.arrow"
    assert segment_number("0123456789abcdef", name) == 12
    assert segment_number("0123456789abcdef", name + ".open") == 12
    assert segment_number("ffff456789abcdef", name) == -1
    assert segment_number("0123456789abcdef", "notes.txt") == -1


def test_only_segments_are_listed(tmp_path: Path) -> None:
    for name in ("a-0000000002.arrow", "a-0000000001.arrow", "a-0000000003.arrow.open", "x.arrow"):
        (tmp_path / name).touch()
    assert sealed_names(tmp_path) == ["a-0000000001.arrow", "a-0000000002.arrow"]
    assert open_names(tmp_path) == ["a-0000000003.arrow.open"]


def test_only_one_writer_holds_the_lock(tmp_path: Path) -> None:
    assert not is_being_written(tmp_path)
    with writer_lock(tmp_path):
        assert is_being_written(tmp_path)
        with (
            pytest.raises(RecordingError, match="another recorder") as caught,
            writer_lock(tmp_path),
        ):
            pass
        assert caught.value.hint
    assert not is_being_written(tmp_path)
    sync_folder(tmp_path)


def test_foreign_folder_does_not_become_a_recording(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RecordingError, match=r"not empty: it has thesis\.txt") as caught:
        create_identity(tmp_path, space="fleet")
    assert "empty" in (caught.value.hint or "")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_folder_with_segments_of_others_may_become_a_recording(tmp_path: Path) -> None:
    for name in (
        "01234567-0000000001.arrow",
        ".hidden",
        "recorder.lock",
        "manifest.jsonl",
        "manifest.jsonl.new",
    ):
        (tmp_path / name).touch()
    (tmp_path / "lost+found").mkdir()
    create_identity(tmp_path, space="fleet")
    assert is_recording(tmp_path)


def test_identity_that_is_too_long_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / IDENTITY_NAME).write_text(" " * 100_000)
    with pytest.raises(RecordingError, match="does not identify a recording") as caught:
        read_identity(tmp_path)
    assert "copy" in (caught.value.hint or "")


def test_check_for_a_recorder_does_not_count_as_one(tmp_path: Path) -> None:
    with writer_lock(tmp_path):
        assert is_being_written(tmp_path)
    with (tmp_path / "recorder.lock").open("rb") as looked_at:
        fcntl.flock(looked_at, fcntl.LOCK_SH)
        assert not is_being_written(tmp_path)
        done = threading.Timer(0.02, lambda: fcntl.flock(looked_at, fcntl.LOCK_UN))
        done.start()
        with writer_lock(tmp_path):
            assert is_being_written(tmp_path)
        done.join()
