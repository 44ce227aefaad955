"""Remote paths, on a store with the S3 protocol."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from skerry.errors import PipelineError, RecordingError
from skerry.runtime.recordings.files.remote_paths import (
    RemotePath,
    file_system,
    first_line,
    resolve_path,
    store_errors,
)
from tests.object_store import ObjectStore, refusing_port


@pytest.mark.parametrize(
    "text", ["/a/b", "a/b", "file:///a/b", "file:/a/b", "FILE:///a", "a:b", "s3:b", "./s3://y"]
)
def test_local_text_is_a_path(text: str) -> None:
    assert isinstance(resolve_path(text), Path)


def test_a_folder_may_be_named_by_a_uri() -> None:
    assert (
        resolve_path("file:///a/b")
        == resolve_path("/a/b")
        == resolve_path(Path("/a/b"))
        == Path("/a/b")
    )


@pytest.mark.parametrize("text", ["s3://b/r/", "s3a://b/r", "hdfs:///r", "hdfs://n:8020/r"])
def test_uri_is_a_remote_path(text: str) -> None:
    remote = resolve_path(text)
    assert isinstance(remote, RemotePath)
    assert str(remote) == text.rstrip("/")
    assert str(remote / "x") == f"{text.rstrip('/')}/x"
    assert (remote.name, (remote / "x").name) == ("r", "x")
    assert pickle.loads(pickle.dumps(remote)) == remote


@pytest.mark.parametrize(
    ("text", "meant"),
    [("S3A://b/r", "s3a://b/r"), ("s3://b//", "s3://b"), ("hdfs:///", "hdfs://")],
)
def test_remote_path_is_normalized(text: str, meant: str) -> None:
    assert str(resolve_path(text)) == meant


@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        ("s3a:/b/x", "is not a URI", "write s3a://b/x"),
        ("hdfs:/data/r", "is not a URI", "write hdfs:///data/r"),
        ("gs://b/x?y", "followed by settings", "remove them"),
        ("s3a://", "has no bucket", "s3a://bucket/"),
        ("s3:///x", "has no bucket", "s3://bucket/"),
        ("s3a://b//x", "an empty part", "one slash: s3a://b/x"),
        ("s3a://b/x//y", "an empty part", "one slash: s3a://b/x/y"),
        ("s3://b/x?endpoint_override=h", "followed by settings", "AWS_ENDPOINT_URL"),
        ("file://tmp/x", "names a host", "file:///tmp/x"),
    ],
)
def test_invalid_uri_is_an_error(text: str, reason: str, hint: str) -> None:
    shown = re.escape(text.partition("?")[0])
    with pytest.raises(RecordingError, match=f"^{shown} .*{reason}") as caught:
        resolve_path(text)
    assert hint in str(caught.value.hint)


def test_credentials_in_a_uri_are_rejected_and_not_repeated() -> None:
    with pytest.raises(RecordingError, match=r"^s3://b has credentials in its name") as caught:
        resolve_path("s3://key:sesame@b/x")
    assert "AWS_ACCESS_KEY_ID" in str(caught.value.hint)
    with pytest.raises(RecordingError, match="followed by settings") as caught:
        resolve_path("s3://b/x?secret_key=sesame")
    assert "sesame" not in str(caught.value)


def test_requests_to_a_store_time_out(bucket: str) -> None:
    _, (options,) = RemotePath(bucket).files.__reduce__()
    assert options["connect_timeout"] == options["request_timeout"] == 10


def test_both_names_of_a_store_mean_the_same(bucket: str) -> None:
    (RemotePath(bucket) / "a").write(b"abc")
    assert (RemotePath(bucket.replace("s3://", "s3a://")) / "a").read() == b"abc"
    assert (RemotePath(bucket) / "a").path == f"{bucket.removeprefix('s3://')}/a"


def test_file_is_read_completely_or_in_part(bucket: str) -> None:
    remote = RemotePath(bucket) / "folder" / "file"
    remote.write(b"0123456789")
    assert remote.exists()
    assert remote.read() == b"0123456789"
    assert remote.read(2, 5) == b"234"
    assert remote.read(8, 99) == b"89"
    assert remote.read(-5, 2) == b"01"
    assert remote.read(10, 12) == remote.read(99, 3) == b""


def test_changed_file_has_another_version(bucket: str) -> None:
    remote = RemotePath(bucket) / "file"
    assert remote.version() is None
    versions = []
    for content in (b"a", b"b", b"bc"):
        remote.write(content)
        versions.append(remote.version())
        assert remote.version() == versions[-1]
    assert len(set(versions)) == 3
    assert [version[0] for version in versions if version is not None] == [1, 1, 2]


def test_content_of_a_folder_is_listed(bucket: str) -> None:
    remote = RemotePath(bucket) / "all"
    for name in ("b/x", "a/y", "one", "two"):
        (remote / name).write(name.encode())
    assert remote.folders() == [remote / "a", remote / "b"]
    assert remote.sizes() == {"one": 3, "two": 3}
    assert remote.sizes(["one", "none"]) == {"one": 3}
    with pytest.raises(FileNotFoundError):
        (RemotePath(bucket) / "none").folders()
    assert not (remote / "a").exists(), "a folder is not a file"


def test_missing_file_is_left_to_the_caller(bucket: str) -> None:
    with pytest.raises(FileNotFoundError), store_errors("cannot read", bucket, RecordingError):
        (RemotePath(bucket) / "none").read()


def test_missing_bucket_is_an_error(bucket: str) -> None:
    remote = RemotePath("s3://nobody-made-this/lake")
    with (
        pytest.raises(PipelineError, match="there is no bucket nobody-made-this") as caught,
        store_errors("cannot use", remote, PipelineError),
    ):
        remote.folders()
    assert str(caught.value).startswith("cannot use s3://nobody-made-this/lake: ")
    assert caught.value.hint == "create it, or name another"


def test_wrong_credentials_are_an_error(bucket: str, object_store: ObjectStore) -> None:
    remote = RemotePath(bucket) / "lake"
    refused = pytest.raises(RecordingError, match="rejects these credentials")
    with (
        object_store.locked(),
        refused as caught,
        store_errors("cannot read", remote, RecordingError),
    ):
        remote.folders()
    assert "AWS_ACCESS_KEY_ID" in str(caught.value.hint)


@pytest.mark.slow
def test_unreachable_store_is_an_error(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file_system.cache_clear()
    with (
        refusing_port() as port,
        monkeypatch.context() as patched,
        pytest.raises(RecordingError, match="cannot be reached") as caught,
        store_errors("cannot read", bucket, RecordingError),
    ):
        patched.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        (RemotePath(bucket) / "file").exists()
    assert "AWS_ENDPOINT_URL" in str(caught.value.hint)


def test_hdfs_without_its_library_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HADOOP_HOME", "ARROW_LIBHDFS_DIR", "JAVA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    with (
        pytest.raises(RecordingError, match="libhdfs") as caught,
        store_errors("cannot read", "hdfs://127.0.0.1:1/r", RecordingError),
    ):
        RemotePath("hdfs://127.0.0.1:1/r").folders()
    assert "hadoop classpath --glob" in str(caught.value.hint)


def test_unknown_scheme_is_an_error() -> None:
    with (
        pytest.raises(RecordingError, match="ftp:// is not supported") as caught,
        store_errors("cannot read", "ftp://host/r", RecordingError),
    ):
        RemotePath("ftp://host/r").folders()
    assert "s3a" in str(caught.value.hint)


def test_missing_permission_of_other_stores_has_its_own_hint() -> None:
    with (
        pytest.raises(RecordingError, match="does not permit this with them") as caught,
        store_errors("cannot read", "hdfs://name/r", RecordingError),
    ):
        raise PermissionError("Permission denied: user=nobody")
    assert caught.value.hint == "get permission to use it"


def test_other_errors_keep_their_message() -> None:
    with (
        pytest.raises(RecordingError, match=r"cannot read s3://b/x: the disk burns$") as caught,
        store_errors("cannot read", "s3://b/x", RecordingError),
    ):
        raise OSError("the disk burns\nat line 7")
    assert caught.value.hint


def test_only_the_first_line_of_an_error_is_shown() -> None:
    assert first_line(ValueError("\nit broke\n  0: backtrace")) == "it broke"
    assert first_line(ValueError()) == "ValueError"
