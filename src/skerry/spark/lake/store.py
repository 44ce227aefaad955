"""The folder of a lake, on this computer or at a remote path that all executors can reach.

Spark, Delta and Arrow use different URIs for the same folder; `TableStore` translates. Small files
of the pipeline itself are written atomically.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skerry.errors import PipelineError
from skerry.runtime.clock import wall_ns
from skerry.runtime.recordings.files.folders import sync_folder
from skerry.runtime.recordings.files.remote_paths import RemotePath, resolve_path, store_errors
from skerry.runtime.whole_files import replace_files

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyspark.sql import SparkSession


_DISK_FULL: Final = re.compile(
    r"No space left|Disk quota exceeded|not enough space|File too large", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    path: str
    """Relative to the lake."""
    byte_count: int
    changed_ns: int


class TableStore:
    """The folder of one lake: paths for each library, small files, listing and locking."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        from pyarrow.fs import LocalFileSystem

        path = resolve_path(os.fspath(root))
        self.remote_path = path if isinstance(path, RemotePath) else None
        """None for a folder of this computer."""
        self.files: FileSystem
        if isinstance(path, RemotePath):
            self.root = path.uri
            # Spark uses the scheme s3a, all other libraries s3.
            self._spark_root = re.sub("^s3://", "s3a://", self.root)
            self._delta_root = re.sub("^s3a://", "s3://", self.root)
            with store_errors("cannot use", path, PipelineError):
                self.files, self._base = path.files, path.path
        else:
            self.root = self._delta_root = str(path.absolute())
            self._spark_root = f"file://{self.root}"
            self.files, self._base = LocalFileSystem(), self.root

    @property
    def is_local(self) -> bool:
        return self.remote_path is None

    def spark_path(self, name: str) -> str:
        return f"{self._spark_root}/{name}"

    def delta_path(self, name: str) -> str:
        return f"{self._delta_root}/{name}"

    def delta_options(self) -> dict[str, str]:
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
        # Without this option it rejects unencrypted connections.
        return {"allow_http": "true"} if endpoint.startswith("http://") else {}

    def arrow_path(self, name: str) -> str:
        return f"{self._base}/{name}"

    def require(self) -> bool:
        """Whether the folder exists; PipelineError if the remote path cannot be used."""
        if self.remote_path is None:
            return Path(self.root).is_dir()
        try:
            with store_errors("cannot use", self.remote_path, PipelineError):
                self.remote_path.folders()
        except FileNotFoundError:
            return False
        return True

    def read_text(self, name: str) -> str | None:
        """The content of a file, or None if it does not exist."""
        try:
            with self._told(), self.files.open_input_stream(self.arrow_path(name)) as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return None

    def write_text(self, name: str, text: str) -> None:
        """Write a file atomically and durably; PipelineError if that fails."""
        if self.remote_path is not None:
            # An object store shows a file only when all of it is written.
            with store_errors("cannot write", self.remote_path / name, PipelineError):
                (self.remote_path / name).write(text.encode())
            return
        try:
            path = Path(self.arrow_path(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_files({path: text.encode()})
            # The rename is durable only after a sync of the folder.
            sync_folder(path.parent)
        except OSError as error:
            raise disk_error(f"cannot write {name}", self.root, str(error)) from error

    def listed(self, name: str) -> list[StoredFile]:
        """All files below a folder, sorted by path; empty if it does not exist."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self.arrow_path(name), allow_not_found=True, recursive=True)
        skip = len(self._base) + 1
        with self._told():
            infos = self.files.get_file_info(selector)
        found = [
            StoredFile(
                path=info.path[skip:], byte_count=info.size, changed_ns=info.mtime_ns or wall_ns()
            )
            for info in infos
            if info.type == FileType.File
        ]
        return sorted(found, key=lambda file: file.path)

    def folders(self, name: str) -> list[str]:
        """Names of the folders directly in a folder, sorted."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self.arrow_path(name), allow_not_found=True)
        with self._told():
            infos = self.files.get_file_info(selector)
        return sorted(info.base_name for info in infos if info.type == FileType.Directory)

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        with suppress(FileNotFoundError), self._told("cannot delete in"):
            self.files.delete_file(self.arrow_path(name))

    def delete_folder(self, name: str) -> None:
        """Delete a folder and its content if it exists."""
        with suppress(FileNotFoundError), self._told("cannot delete in"):
            self.files.delete_dir(self.arrow_path(name))

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold an exclusive lock; PipelineError if another process holds it.

        A remote path has no locks: there, the user must not start two writers.
        """
        if not self.is_local:
            yield
            return
        import fcntl

        path = Path(self.arrow_path(name))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            opened = path.open("a+b")
        except OSError as error:
            raise _no_folder(self.root, error) from error
        with opened as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                busy = PipelineError(f"another job is writing to {self.root}")
                busy.hint = "wait for it or stop it; `pipeline follow` compacts its tables itself"
                raise busy from None
            yield

    @contextmanager
    def _told(self, what: str = "cannot read") -> Iterator[None]:
        """Within the context, errors of a remote path are raised as PipelineError."""
        if self.remote_path is None:
            yield
            return
        with store_errors(what, self.remote_path, PipelineError):
            yield


def is_disk_full(text: str) -> bool:
    return _DISK_FULL.search(text) is not None


def disk_error(what: str, root: str, detail: str) -> PipelineError:
    error = PipelineError(f"{what} in {root}: {detail}")
    error.hint = "free disk space and start again; complete batches are kept, the rest is repeated"
    return error


def _no_folder(root: str, cause: OSError) -> PipelineError:
    reason = cause.strerror or str(cause)
    error = PipelineError(f"cannot write tables in {root}: {reason} ({cause.filename})")
    error.hint = "give a folder that this user may write to; it is created if it does not exist"
    return error


# -- the file system of Spark


def require_file_system(spark: SparkSession, store: TableStore) -> None:
    """PipelineError if Spark, which does not use Arrow's, has no file system for the tables.

    Checked before anything is written, because the error of the JVM is hard to read.
    """
    from py4j.protocol import Py4JJavaError

    if store.remote_path is None:
        return
    scheme = store.spark_path("").partition("://")[0]
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the only access to Hadoop
    hadoop = jvm.org.apache.hadoop
    configuration = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    try:
        hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration)
    except Py4JJavaError as error:
        fault = PipelineError(f"Spark cannot use {store.root}: no file system for {scheme}://")
        fault.hint = _hint(scheme, str(hadoop.util.VersionInfo.getVersion()))
        raise fault from error


def _hint(scheme: str, version: str) -> str:
    if scheme == "s3a":
        package = f"org.apache.hadoop:hadoop-aws:{version}"
        return f"add the jars: --conf spark.jars.packages={package}"
    return f"add the jars for {scheme}://: --conf spark.jars.packages=GROUP:NAME:VERSION"
