from __future__ import annotations

import errno
from pathlib import Path

import pytest

from skerry.errors import PipelineError
from skerry.spark.store import Store, StoredFile, disk_error, first_line


def test_one_place_has_a_name_for_each_library(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.spark_path("a/b") == f"file://{tmp_path}/a/b"
    assert store.delta_path("a/b") == store.arrow_path("a/b") == f"{tmp_path}/a/b"
    assert Store(f"file://{tmp_path}/").root == str(tmp_path)


def test_text_is_written_whole_and_read_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.read_text("x/y.json") is None
    store.write_text("x/y.json", "ä")
    store.write_text("x/y.json", "b")
    assert store.read_text("x/y.json") == "b"
    assert [file.path for file in store.listed("x")] == ["x/y.json"]
    assert isinstance(store.listed("x")[0], StoredFile)
    assert store.folders("") == ["x"]
    store.delete("x/y.json")
    store.delete("x/y.json")
    store.delete_folder("x")
    store.delete_folder("x")
    assert store.listed("x") == []


def test_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.write_text("plan", "old")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(PipelineError, match="cannot write plan") as caught:
        store.write_text("plan", "new")
    assert "make room" in str(caught.value.hint)
    assert store.read_text("plan") == "old"
    assert [file.path for file in store.listed("")] == ["plan"]


def test_second_writer_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    store = Store(tmp_path)
    other = Store(tmp_path)
    refused = pytest.raises(PipelineError, match="another job is writing")
    with store.lock("own/lock"), refused, other.lock("own/lock"):
        pass
    with store.lock("own/lock"):
        pass


def test_error_about_the_disk_says_what_to_do() -> None:
    error = disk_error("cannot write x", "/lake", "there is no room")
    assert str(error) == "cannot write x in /lake: there is no room"
    assert "start again" in str(error.hint)


def test_a_place_that_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (Path("/proc/lake"), tmp_path / "file" / "lake"):
        with pytest.raises(PipelineError, match=f"cannot write tables in {place}: ") as caught:
            Store(place).lock("own/lock").__enter__()
        assert "may write to" in str(caught.value.hint)


def test_only_the_first_line_of_an_error_is_for_people() -> None:
    assert first_line(ValueError("\nit broke\n  0: backtrace")) == "it broke"
    assert first_line(ValueError()) == "ValueError"
