"""Followers of a recording."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skerry.errors import RecordingError
from skerry.runtime.clock import wall_ns
from skerry.runtime.recordings.files.followers import (
    FOLLOWED_NS,
    FOLLOWERS_NAME,
    RECORDING_FOLLOWER_COUNT_MAX,
    is_followed,
    remove_follower,
    remove_stale_followers,
    touch_follower,
)


def test_follower_counts_for_ten_seconds_after_a_touch(tmp_path: Path) -> None:
    assert not is_followed(tmp_path)
    touch_follower(tmp_path, "spark-1")
    now_ns = (tmp_path / FOLLOWERS_NAME / "spark-1").stat().st_mtime_ns
    assert is_followed(tmp_path)
    assert is_followed(tmp_path, now_ns=now_ns + FOLLOWED_NS)
    assert not is_followed(tmp_path, now_ns=now_ns + FOLLOWED_NS + 1)


def test_follower_can_be_removed(tmp_path: Path) -> None:
    touch_follower(tmp_path, "a")
    touch_follower(tmp_path, "b")
    remove_follower(tmp_path, "a")
    assert is_followed(tmp_path)
    remove_follower(tmp_path, "b")
    remove_follower(tmp_path, "b")
    assert not is_followed(tmp_path)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 200])
def test_name_that_leads_out_of_the_folder_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecordingError, match="name of a follower"):
        touch_follower(tmp_path, name)


def test_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / FOLLOWERS_NAME).write_text("not a folder")
    with pytest.raises(RecordingError, match="cannot register follower"):
        touch_follower(tmp_path, "a")


def test_stale_files_are_removed(tmp_path: Path) -> None:
    touch_follower(tmp_path, "old")
    touch_follower(tmp_path, "new")
    hours_ago = wall_ns() / 1e9 - 2 * 3600
    os.utime(tmp_path / FOLLOWERS_NAME / "old", (hours_ago, hours_ago))
    remove_stale_followers(tmp_path)
    assert [path.name for path in (tmp_path / FOLLOWERS_NAME).iterdir()] == ["new"]
    remove_stale_followers(tmp_path / "nothing")


def test_number_of_checked_files_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / FOLLOWERS_NAME
    folder.mkdir()
    for number in range(RECORDING_FOLLOWER_COUNT_MAX + 50):
        (folder / f"f{number}").touch()
        os.utime(folder / f"f{number}", (0, 0))
    looked: list[str] = []
    scandir = os.scandir

    def look(entry: os.DirEntry[str]) -> os.DirEntry[str]:
        looked.append(entry.name)
        return entry

    @contextmanager
    def noted(path: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scandir(path) as entries:
            yield map(look, entries)

    monkeypatch.setattr(os, "scandir", noted)
    assert not is_followed(tmp_path)
    assert len(looked) == RECORDING_FOLLOWER_COUNT_MAX


@pytest.mark.parametrize("kind", ["file", "loop"])
def test_unreadable_folder_has_no_followers(tmp_path: Path, kind: str) -> None:
    place = tmp_path / FOLLOWERS_NAME
    if kind == "file":
        place.write_text("no folder")
    else:
        place.symlink_to(place)
    assert not is_followed(tmp_path)
    remove_stale_followers(tmp_path)


def test_file_that_is_removed_meanwhile_hides_no_other(tmp_path: Path) -> None:
    folder = tmp_path / FOLLOWERS_NAME
    folder.mkdir()
    (folder / "gone").symlink_to(folder / "nothing")
    touch_follower(tmp_path, "here")
    assert is_followed(tmp_path)


def test_folder_among_the_files_of_followers_is_ignored(tmp_path: Path) -> None:
    strange = tmp_path / FOLLOWERS_NAME / "folder"
    strange.mkdir(parents=True)
    os.utime(strange, (0, 0))
    remove_stale_followers(tmp_path)
    assert strange.is_dir()
