"""Places that are not folders of this computer: object stores, and file systems of clusters.

A place has a URI, as `s3a://bucket/recordings`. Spark, Delta and Arrow each have a way of their own
to such places; here is that of Arrow, which recordings are read by, and the small files of tables
written. What a store says of a failure is long and for its own authors; people are told the one
thing that matters, and what to do about it.
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

__all__ = ["RemotePath", "Version", "file_system", "first_line", "place_of", "told"]

Version = tuple[int, str]
"""How many bytes a file has, and what is another when the file is."""

_URI: Final = re.compile(r"([a-z][a-z0-9+.-]*)(:/*)(.*)", re.IGNORECASE | re.DOTALL)
_BUCKETS: Final = frozenset({"s3", "s3a", "gs", "gcs"})
"""Schemes whose first part is a bucket."""
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
"""How long a store may be silent before it is asked again."""
_ATTEMPTS: Final = 5

_CREDENTIALS_HINT: Final = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; the executors of a cluster"
    " need them, too"
)
_UNREACHABLE_HINT: Final = (
    "is the name right, and the store up? AWS_ENDPOINT_URL names one that is not Amazon's"
)
_HDFS_HINT: Final = (
    "install Hadoop, and set JAVA_HOME, HADOOP_HOME and CLASSPATH, the last to what"
    " `hadoop classpath --glob` says; on the executors, too"
)


@dataclass(frozen=True, slots=True)
class RemotePath:
    """A folder or a file that is elsewhere."""

    uri: str
    """Without a slash at its end."""

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self.uri}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.uri.rpartition("/")[2]

    @property
    def files(self) -> FileSystem:
        """The file system that it is in."""
        return file_system(self._root)[0]

    @property
    def path(self) -> str:
        """What it is called in its file system."""
        base = file_system(self._root)[1].rstrip("/")
        return f"{base}{self.uri[len(self._root) :]}" or "/"

    def exists(self) -> bool:
        """Whether there is such a file."""
        return bool(self._info().is_file)

    def version(self) -> Version | None:
        """How the file is now; None if there is none."""
        try:
            with self.files.open_input_file(self.path) as file:
                # A store tells of what is in the file; others when it was written.
                tag = (file.metadata() or {}).get("ETag", b"")
                size = int(file.size())
        except FileNotFoundError:
            return None
        return size, bytes(tag).decode() or str(self._info().mtime_ns)

    def read(self, first: int = 0, stop: int | None = None) -> bytes:
        """The bytes of the file from one up to another, as far as it has them."""
        with self.files.open_input_file(self.path) as file:
            size = file.size()
            end = size if stop is None else min(stop, size)
            first = max(first, 0)
            return bytes(file.read_at(end - first, first)) if end > first else b""

    def write(self, data: bytes) -> None:
        """Make it a file with this content, whatever it was."""
        with self.files.open_output_stream(self.path) as stream:
            stream.write(data)

    def sizes(self, names: Sequence[str] | None = None) -> dict[str, int]:
        """How many bytes files have that are directly in it: all, or those of these names."""
        if names is None:
            found = self._listed()
        else:
            found = self.files.get_file_info([(self / name).path for name in names])
        return {info.base_name: info.size for info in found if info.is_file}

    def folders(self) -> list[RemotePath]:
        """Those that are directly in it, by name; FileNotFoundError if there is no such place."""
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


def place_of(path: str | os.PathLike[str]) -> Path | RemotePath:
    """What somebody means by a path or a URI: a folder of this computer, or a place elsewhere.

    RecordingError for a URI that names neither.
    """
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
        # Elsewhere than in a bucket, one slash is the root of a host that is not named.
        whole = f"{scheme}://{'' if scheme in _BUCKETS else '/'}{rest}"
        raise _unnamed(f"{text} is no URI", f"write {whole}")
    if "://" not in found[2]:
        return Path(text)
    # What stands after two slashes is a host or a bucket, which not every place has.
    inside = f"{found[2][3:]}{rest}".rstrip("/")
    _check_inside(text, scheme, inside)
    return RemotePath(f"{scheme}://{inside}")


def _folder_of(text: str, slashes: int, rest: str) -> Path:
    if slashes == 2 and rest:
        raise _unnamed(f"{text} names a host", f"write file:///{rest} for a folder of this one")
    return Path(f"{'/' if slashes else ''}{rest}")


def _check_inside(text: str, scheme: str, inside: str) -> None:
    """RecordingError if there can be no such place."""
    first, _, path = inside.partition("/")
    user, at, host = first.rpartition("@")
    if at and ":" in user:
        # Not with the text itself, which would be shown and kept.
        raise _unnamed(f"{scheme}://{host} has credentials in its name", _CREDENTIALS_HINT)
    if scheme in _BUCKETS and not first:
        raise _unnamed(f"{text} names no bucket", f"write {scheme}://bucket/recordings")
    if "?" in inside:
        is_s3 = scheme in ("s3", "s3a")
        names = "AWS_ENDPOINT_URL names the store, and AWS_REGION its region"
        raise _unnamed(
            f"{text.partition('?')[0]} has settings behind its name",
            names if is_s3 else "leave them out; a store is told them by its own variables",
        )
    if path.startswith("/") or "//" in path:
        plain = re.sub("/+", "/", path).strip("/")
        raise _unnamed(
            f"{text} has a part without a name", f"write one slash: {scheme}://{first}/{plain}"
        )


def _unnamed(what: str, hint: str) -> RecordingError:
    error = RecordingError(what)
    error.hint = hint
    return error


@lru_cache(maxsize=16)
def file_system(root: str) -> tuple[FileSystem, str]:
    """The file system of a scheme and a host or bucket, and what the root is called in it.

    Kept, since to make one takes as long as to read a small file.
    """
    from pyarrow.fs import FileSystem

    found: FileSystem
    found, base = FileSystem.from_uri(re.sub("^s3a://", "s3://", root) + "/")
    return _impatient(found) if found.type_name == "s3" else found, base


def _impatient(files: FileSystem) -> FileSystem:
    """The same, which tells after about a minute that a store does not answer."""
    from pyarrow.fs import AwsStandardS3RetryStrategy

    # What the URI and the environment said is only told to who copies it.
    make, (options,) = files.__reduce__()
    tries = {"retry_strategy": AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS)}
    times = {"connect_timeout": _ANSWER_S, "request_timeout": _ANSWER_S}
    made: FileSystem = make({**options, **times, **tries})
    return made


@contextmanager
def told(what: str, place: RemotePath | str, kind: type[SkerryError]) -> Iterator[None]:
    """Inside, a failure of a store becomes an error of this kind; that nothing is there does not.

    `what` could not be done, as in "cannot read".
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        reason, hint = _reason(str(place), error)
        fault = kind(f"{what} {place}: {reason}")
        fault.hint = hint
        raise fault from error


def first_line(error: BaseException) -> str:
    """What an error says, without what a library adds for its own authors."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _reason(uri: str, error: Exception) -> tuple[str, str]:
    """What happened, and what to do about it."""
    text = str(error)
    scheme, _, rest = uri.partition("://")
    if _NO_KIND.search(text):
        return f"nothing is known of {scheme}://", "s3a, s3, hdfs, gs, abfs and file are known"
    if scheme == "hdfs" and _NO_HDFS.search(text):
        return "the library of HDFS (libhdfs) is not there, or finds no Java", _HDFS_HINT
    if _NO_BUCKET.search(text):
        return f"there is no bucket {rest.partition('/')[0]}", "make it, or name another"
    if _CREDENTIALS.search(text):
        reason = "the store does not take these credentials, or does not let them do this"
        return reason, _CREDENTIALS_HINT if scheme in ("s3", "s3a") else "get permission to use it"
    if _UNREACHABLE.search(text):
        return "it cannot be reached", _UNREACHABLE_HINT
    return first_line(error), "look at the store with its own tools"
