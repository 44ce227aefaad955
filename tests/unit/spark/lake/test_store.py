from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from skerry.errors import PipelineError
from skerry.spark.lake.store import StoredFile, TableStore, disk_error
from tests.object_store import ObjectStore


def test_a_local_folder_has_a_path_for_each_library(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    assert store.spark_path("a/b") == f"file://{tmp_path}/a/b"
    assert store.delta_path("a/b") == store.arrow_path("a/b") == f"{tmp_path}/a/b"
    assert TableStore(f"file://{tmp_path}/").root == str(tmp_path)


def test_text_is_written_whole_and_read_back(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
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


def test_a_full_disk_keeps_the_previous_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = TableStore(tmp_path)
    store.write_text("plan", "old")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(PipelineError, match="cannot write plan") as caught:
        store.write_text("plan", "new")
    assert "free disk space" in str(caught.value.hint)
    assert store.read_text("plan") == "old"
    assert [file.path for file in store.listed("")] == ["plan"]


def test_a_second_writer_is_rejected_until_the_first_has_ended(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    other = TableStore(tmp_path)
    refused = pytest.raises(PipelineError, match="another job is writing")
    with store.lock("own/lock"), refused, other.lock("own/lock"):
        pass
    with store.lock("own/lock"):
        pass


def test_error_about_the_disk_has_a_hint() -> None:
    error = disk_error("cannot write x", "/lake", "no space left")
    assert str(error) == "cannot write x in /lake: no space left"
    assert "start again" in str(error.hint)


def test_a_remote_path_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (Path("/proc/lake"), tmp_path / "file" / "lake"):
        with pytest.raises(PipelineError, match=f"cannot write tables in {place}: ") as caught:
            TableStore(place).lock("own/lock").__enter__()
        assert "may write to" in str(caught.value.hint)


# -- elsewhere


def test_a_remote_path_has_a_uri_for_each_library(bucket: str) -> None:
    name = bucket.removeprefix("s3://")
    for root in (f"s3://{name}/lake/", f"s3a://{name}/lake"):
        store = TableStore(root)
        assert not store.is_local
        assert store.root == root.rstrip("/")
        assert store.spark_path("a/b") == f"s3a://{name}/lake/a/b"
        assert store.delta_path("a/b") == f"s3://{name}/lake/a/b"
        assert store.arrow_path("a/b") == f"{name}/lake/a/b"
        assert store.delta_options() == {"allow_http": "true"}


def test_the_delta_library_gets_no_option_without_an_http_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for endpoint in ("", "https://127.0.0.1:1"):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        assert TableStore(tmp_path).delta_options() == {}


def test_text_is_written_and_read_at_a_remote_path(bucket: str, object_store: ObjectStore) -> None:
    store = TableStore(f"{bucket}/lake")
    assert store.read_text("x/y.json") is None
    store.write_text("x/y.json", "ä")
    store.write_text("x/y.json", "b")
    assert store.read_text("x/y.json") == "b"
    assert object_store.get(f"{bucket}/lake/x/y.json") == b"b"
    (file,) = store.listed("x")
    assert (file.path, file.byte_count) == ("x/y.json", 1)
    assert file.changed_ns > 0
    assert (store.folders(""), store.folders("none")) == (["x"], [])
    store.delete("x/y.json")
    store.delete("x/y.json")
    store.delete_folder("x")
    store.delete_folder("x")
    assert store.listed("") == []


def test_a_remote_path_exists_if_it_has_files(bucket: str, tmp_path: Path) -> None:
    store = TableStore(f"{bucket}/lake")
    assert not store.require()
    store.write_text("x", "y")
    assert store.require()
    assert TableStore(tmp_path).require()
    assert not TableStore(tmp_path / "none").require()


def test_a_failing_store_is_an_error(bucket: str, object_store: ObjectStore) -> None:
    with pytest.raises(PipelineError, match="there is no bucket nobody-made-it") as caught:
        TableStore("s3://nobody-made-it/lake").require()
    assert caught.value.hint == "create it, or name another"
    with pytest.raises(PipelineError, match="ftp:// is not supported"):
        TableStore("ftp://host/lake")
    store = TableStore(f"{bucket}/lake")
    actions: list[Callable[[], object]] = [
        store.require,
        lambda: store.read_text("x"),
        lambda: store.write_text("x", "y"),
        lambda: store.listed(""),
        lambda: store.folders(""),
        lambda: store.delete("x"),
        lambda: store.delete_folder("x"),
    ]
    with object_store.locked():
        for act in actions:
            with pytest.raises(PipelineError, match="rejects these credentials"):
                act()


def test_remote_paths_have_no_lock(bucket: str) -> None:
    with TableStore(bucket).lock("lock"), TableStore(bucket).lock("lock"):
        assert TableStore(bucket).listed("") == []
