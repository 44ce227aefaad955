"""Remote paths: files and folders in object stores and cluster file systems.

A remote path is a URI such as `s3a://bucket/recordings`. Spark, Delta and Arrow each have their own
file systems. This module uses that of Arrow, by which recordings are read and the small files of
tables written. The error messages of stores are long and written for their developers, so they are
reduced to the cause and what to do about it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from skerry.errors import RecordingError, SkerryError

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem


Version = tuple[int, str]
"""Size of a file in bytes, and its ETag or time of change."""

_URI: Final = re.compile(r"([a-z][a-z0-9+.-]*)(:/*)(.*)", re.IGNORECASE | re.DOTALL)
_BUCKETS: Final = frozenset({"s3", "s3a", "gs", "gcs"})
"""Schemes in which the first part of the path is a bucket."""
_KNOWN: Final = _BUCKETS | {"hdfs", "viewfs", "abfs", "abfss"}
_CREDENTIALS: Final = re.compile(
    r"ACCESS_DENIED|AccessDenied|Access ?Key|SIGNATURE|Signature|EXPIRED_TOKEN|INVALID_CLIENT_TOKEN"
    r"|UNRECOGNIZED_CLIENT|HTTP status (?:401|403)|credential|[Pp]ermission denied"
)
_NO_BUCKET: Final = re.compile(r"NO_SUCH_BUCKET|NoSuchBucket|bucket does not exist")
_UNREACHABLE: Final = re.compile(
    r"NETWORK_CONNECTION|curlCode|Connection refused|tcp connect error|error sending request"
    r"|dns error|timed? ?out",
    re.IGNORECASE,
)
_NO_HDFS: Final = re.compile(r"libjvm|libhdfs|HdfsFileSystem|hdfsBuilder", re.IGNORECASE)
_NO_KIND: Final = re.compile(r"Unrecognized filesystem type|without .* support|not compiled")

_ANSWER_S: Final = 10.0
"""Time without an answer after which a request to a store is repeated."""
_ATTEMPTS: Final = 5

_CREDENTIALS_HINT: Final = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; the executors of a cluster"
    " need them, too"
)
_UNREACHABLE_HINT: Final = (
    "check the name and whether the store runs;"
    " AWS_ENDPOINT_URL selects a store other than Amazon's"
)
_HDFS_HINT: Final = (
    "install Hadoop, and set JAVA_HOME, HADOOP_HOME and CLASSPATH, the last to the output of"
    " `hadoop classpath --glob`; on the executors, too"
)


@dataclass(frozen=True, slots=True)
class RemotePath:
    uri: str
    """Without a trailing slash."""

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self.uri}/{name}")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.uri.rpartition("/")[2]

    @property
    def files(self) -> FileSystem:
        """The file system of the scheme and host."""
        return file_system(self._root)[0]

    @property
    def path(self) -> str:
        """The path within the file system."""
        base = file_system(self._root)[1].rstrip("/")
        return f"{base}{self.uri[len(self._root) :]}" or "/"

    def exists(self) -> bool:
        """Whether the path is a file."""
        return bool(self._info().is_file)

    def version(self) -> Version | None:
        """The present version of the file; None if it does not exist."""
        try:
            with self.files.open_input_file(self.path) as file:
                # Object stores have an ETag, other file systems only a time of change.
                tag = (file.metadata() or {}).get("ETag", b"")
                size = int(file.size())
        except FileNotFoundError:
            return None
        return size, bytes(tag).decode() or str(self._info().mtime_ns)

    def read(self, first: int = 0, stop: int | None = None) -> bytes:
        """The bytes from `first` up to `stop`, or up to the end of the file if that is earlier."""
        with self.files.open_input_file(self.path) as file:
            size = file.size()
            end = size if stop is None else min(stop, size)
            first = max(first, 0)
            return bytes(file.read_at(end - first, first)) if end > first else b""

    def write(self, data: bytes) -> None:
        """Create or replace the file with this content."""
        with self.files.open_output_stream(self.path) as stream:
            stream.write(data)

    def sizes(self, names: Sequence[str] | None = None) -> dict[str, int]:
        """Sizes of the files directly in the folder: of all, or of these names."""
        if names is None:
            found = self._listed()
        else:
            found = self.files.get_file_info([(self / name).path for name in names])
        return {info.base_name: info.size for info in found if info.is_file}

    def folders(self) -> list[RemotePath]:
        """The folders directly in it, sorted by name; FileNotFoundError if it does not exist."""
        from pyarrow.fs import FileType

        found = (info.base_name for info in self._listed() if info.type == FileType.Directory)
        return [self / name for name in sorted(found)]

    def _listed(self) -> list[FileInfo]:
        from pyarrow.fs import FileSelector

        return list(self.files.get_file_info(FileSelector(self.path)))

    def _info(self) -> FileInfo:
        return self.files.get_file_info(self.path)

    @property
    def _root(self) -> str:
        scheme, _, rest = self.uri.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}"


def resolve_path(path: str | os.PathLike[str]) -> Path | RemotePath:
    """The local path or the remote path that a text names; RecordingError for an invalid URI."""
    if isinstance(path, Path):
        return path
    text = os.fspath(path)
    found = _URI.fullmatch(text)
    if found is None:
        return Path(text)
    scheme, rest = found[1].lower(), found[3]
    if scheme == "file":
        return _folder_of(text, len(found[2]) - 1, rest)
    if scheme in _KNOWN and found[2] == ":/":
        # Without a bucket, the path begins at the root of an unnamed host.
        uri = f"{scheme}://{'' if scheme in _BUCKETS else '/'}{rest}"
        raise _invalid(f"{text} is not a URI", f"write {uri}")
    if "://" not in found[2]:
        return Path(text)
    # Two slashes are followed by a host or a bucket, which may be empty.
    inside = f"{found[2][3:]}{rest}".rstrip("/")
    _check_inside(text, scheme, inside)
    return RemotePath(f"{scheme}://{inside}")


def _folder_of(text: str, slashes: int, rest: str) -> Path:
    if slashes == 2 and rest:
        raise _invalid(f"{text} names a host", f"write file:///{rest} for a local folder")
    return Path(f"{'/' if slashes else ''}{rest}")


def _check_inside(text: str, scheme: str, inside: str) -> None:
    """RecordingError for a path that cannot exist."""
    first, _, path = inside.partition("/")
    user, at, host = first.rpartition("@")
    if at and ":" in user:
        # The message must not contain the credentials: it is shown and logged.
        raise _invalid(f"{scheme}://{host} has credentials in its name", _CREDENTIALS_HINT)
    if scheme in _BUCKETS and not first:
        raise _invalid(f"{text} has no bucket", f"write {scheme}://bucket/recordings")
    if "?" in inside:
        is_s3 = scheme in ("s3", "s3a")
        names = "set AWS_ENDPOINT_URL for the store and AWS_REGION for its region"
        raise _invalid(
            f"{text.partition('?')[0]} is followed by settings",
            names if is_s3 else "remove them; a store is configured by its own variables",
        )
    if path.startswith("/") or "//" in path:
        normal = re.sub("/+", "/", path).strip("/")
        raise _invalid(f"{text} has an empty part", f"write one slash: {scheme}://{first}/{normal}")


def _invalid(what: str, hint: str) -> RecordingError:
    error = RecordingError(what)
    error.hint = hint
    return error


@lru_cache(maxsize=16)
def file_system(root: str) -> tuple[FileSystem, str]:
    """The file system of a scheme and a host or bucket, and the path of its root.

    Cached: creating a file system takes as long as reading a small file.
    """
    from pyarrow.fs import FileSystem

    found: FileSystem
    found, base = FileSystem.from_uri(re.sub("^s3a://", "s3://", root) + "/")
    return _with_timeouts(found) if found.type_name == "s3" else found, base


def _with_timeouts(files: FileSystem) -> FileSystem:
    """The same file system, which fails after about a minute if the store does not answer."""
    from pyarrow.fs import AwsStandardS3RetryStrategy

    # The options from the URI and the environment are only available by copying.
    make, (options,) = files.__reduce__()
    tries = {"retry_strategy": AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS)}
    times = {"connect_timeout": _ANSWER_S, "request_timeout": _ANSWER_S}
    made: FileSystem = make({**options, **times, **tries})
    return made


@contextmanager
def store_errors(what: str, path: RemotePath | str, kind: type[SkerryError]) -> Iterator[None]:
    """Turn errors of a store into errors of `kind`, except FileNotFoundError.

    `what` is the attempted action, such as "cannot read".
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        reason, hint = _reason(str(path), error)
        failure = kind(f"{what} {path}: {reason}")
        failure.hint = hint
        raise failure from error


def first_line(error: BaseException) -> str:
    """The first line of an error message, without the details that a library adds."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _reason(uri: str, error: Exception) -> tuple[str, str]:
    """The cause of an error, and a hint."""
    text = str(error)
    scheme, _, rest = uri.partition("://")
    if _NO_KIND.search(text):
        return f"{scheme}:// is not supported", "use s3a, s3, hdfs, gs, abfs or file"
    if scheme == "hdfs" and _NO_HDFS.search(text):
        return "the HDFS library (libhdfs) is missing, or does not find Java", _HDFS_HINT
    if _NO_BUCKET.search(text):
        return f"there is no bucket {rest.partition('/')[0]}", "create it, or name another"
    if _CREDENTIALS.search(text):
        reason = "the store rejects these credentials, or does not permit this with them"
        return reason, _CREDENTIALS_HINT if scheme in ("s3", "s3a") else "get permission to use it"
    if _UNREACHABLE.search(text):
        return "it cannot be reached", _UNREACHABLE_HINT
    return first_line(error), "check the store with its own tools"
