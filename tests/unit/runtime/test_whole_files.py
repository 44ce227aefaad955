"""Reading whole files up to a limit, and replacing files atomically."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from skerry.errors import LimitExceeded
from skerry.runtime.whole_files import once_each, read_whole, replace_files


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_each_file_is_listed_once_by_its_first_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").touch()
    Path("link").symlink_to("a")
    given = ["link", "none", "a", str(tmp_path / "a"), "b", "./none"]
    assert once_each(given) == ["link", "none", "b"]


def test_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_whole(path, bytes_max=5) == b"12345"
    with pytest.raises(LimitExceeded) as caught:
        read_whole(path, bytes_max=4)
    assert (caught.value.value, caught.value.limit) == (5, 4)


def test_device_without_an_end_is_read_up_to_the_limit() -> None:
    with pytest.raises(LimitExceeded) as caught:
        read_whole("/dev/zero", bytes_max=1000)
    assert caught.value.value == 1001


def test_files_are_made_and_replaced(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_bytes(b"before")
    replace_files({new: b"1", old: b"2"})
    assert (new.read_bytes(), old.read_bytes()) == (b"1", b"2")
    assert names_in(tmp_path) == ["new", "old"]


def test_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    replace_files({tmp_path / "new": b""})
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_permissions_of_a_replaced_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"")
    path.chmod(0o755)
    replace_files({path: b"new"})
    assert path.stat().st_mode & 0o7777 == 0o755


def test_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    replace_files({tmp_path / "link": b"new"})
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_nothing_changes_when_one_file_cannot_be_written(tmp_path: Path) -> None:
    good, folder = tmp_path / "good", tmp_path / "folder"
    good.write_bytes(b"old")
    folder.mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        replace_files({good: b"new", folder: b"new"})
    assert caught.value.filename == str(folder)
    assert good.read_bytes() == b"old"
    assert names_in(tmp_path) == ["folder", "good"]


def test_error_names_the_file_that_was_to_be_written(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "a"
    with pytest.raises(FileNotFoundError) as caught:
        replace_files({path: b""})
    assert caught.value.filename == str(path)
    assert caught.value.errno == errno.ENOENT


def test_full_disk_keeps_the_old_file_and_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def no_room(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(OSError, match="No space left"):
        replace_files({path: b"new"})
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["a"]


def test_loop_of_links_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        replace_files({path: b""})
