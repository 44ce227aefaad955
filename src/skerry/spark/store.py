"""The folder that holds the tables, on this computer or wherever driver and executors reach it.

Spark, Delta and Arrow each name such places in a way of their own; here one name serves all. Small
files of the pipeline itself are written whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skerry.errors import PipelineError
from skerry.runtime.clock import wall_ns

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = ["Store", "StoredFile", "disk_error", "first_line"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file below the folder."""

    path: str
    """Relative to the folder."""
    byte_count: int
    changed_ns: int


class Store:
    """One folder of tables."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        from pyarrow.fs import FileSystem, LocalFileSystem

        text = os.fspath(root).removeprefix("file://").rstrip("/") or "/"
        self.is_local = "://" not in text
        self.files: FileSystem
        if self.is_local:
            self.root = str(Path(text).absolute())
            self.files, self._base = LocalFileSystem(), self.root
        else:
            self.root = text
            self.files, self._base = FileSystem.from_uri(text.replace("s3a://", "s3://", 1))

    def spark_path(self, name: str) -> str:
        """What Spark calls it."""
        return f"{'file://' if self.is_local else ''}{self.root}/{name}"

    def delta_path(self, name: str) -> str:
        """What the Delta library calls it."""
        return f"{self.root.replace('s3a://', 's3://', 1)}/{name}"

    def arrow_path(self, name: str) -> str:
        """What Arrow calls it."""
        return f"{self._base}/{name}"

    def read_text(self, name: str) -> str | None:
        """What a file says, or None if there is none."""
        try:
            with self.files.open_input_stream(self.arrow_path(name)) as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return None

    def write_text(self, name: str, text: str) -> None:
        """Write a file, whole or not at all; PipelineError if that fails."""
        path = self.arrow_path(name)
        try:
            if self.is_local:
                _write_whole(Path(path), text.encode())
                return
            with self.files.open_output_stream(path) as stream:
                stream.write(text.encode())
        except OSError as error:
            raise disk_error(f"cannot write {name}", self.root, str(error)) from error

    def listed(self, name: str) -> list[StoredFile]:
        """All files below a folder, sorted; none if it is not there."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self.arrow_path(name), allow_not_found=True, recursive=True)
        skip = len(self._base) + 1
        found = [
            StoredFile(
                path=info.path[skip:], byte_count=info.size, changed_ns=info.mtime_ns or wall_ns()
            )
            for info in self.files.get_file_info(selector)
            if info.type == FileType.File
        ]
        return sorted(found, key=lambda file: file.path)

    def folders(self, name: str) -> list[str]:
        """Names of the folders in a folder, sorted."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self.arrow_path(name), allow_not_found=True)
        infos = self.files.get_file_info(selector)
        return sorted(info.base_name for info in infos if info.type == FileType.Directory)

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        with suppress(FileNotFoundError):
            self.files.delete_file(self.arrow_path(name))

    def delete_folder(self, name: str) -> None:
        """Delete a folder and all in it, if it is there."""
        with suppress(FileNotFoundError):
            self.files.delete_dir(self.arrow_path(name))

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Be the only one who writes; PipelineError if somebody else does.

        On storage without locks nothing keeps two writers apart but whoever starts them.
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
                busy.hint = "wait for it or stop it; `pipeline follow` also compacts by itself"
                raise busy from None
            yield


def disk_error(what: str, place: str, detail: str) -> PipelineError:
    """What to say when something cannot be written."""
    error = PipelineError(f"{what} in {place}: {detail}")
    error.hint = "make room and start again; what was complete is there, the rest is done anew"
    return error


def first_line(error: Exception) -> str:
    """What an error says, without what a library adds for its own authors."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _no_folder(place: str, cause: OSError) -> PipelineError:
    reason = cause.strerror or str(cause)
    error = PipelineError(f"cannot write tables in {place}: {reason} ({cause.filename})")
    error.hint = "name a folder that this user may write to; it is made if it is not there"
    return error


def _write_whole(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.part")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    # The name is durable only with its folder.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
