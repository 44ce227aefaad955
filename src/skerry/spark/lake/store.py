"""The folder that holds the tables, on this computer or wherever driver and executors reach it.

Spark, Delta and Arrow each name such places in a way of their own; here one name serves all. Small
files of the pipeline itself are written whole or not at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skerry.errors import PipelineError
from skerry.runtime.clock import wall_ns
from skerry.runtime.recordings.files.remote_paths import RemotePath, resolve_path, store_errors

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = ["StoredFile", "TableStore", "disk_error", "is_no_room"]

_NO_ROOM: Final = re.compile(
    r"No space left|Disk quota exceeded|not enough space|File too large", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file below the folder."""

    path: str
    """Relative to the folder."""
    byte_count: int
    changed_ns: int


class TableStore:
    """One folder of tables."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        from pyarrow.fs import LocalFileSystem

        place = resolve_path(os.fspath(root))
        self.place = place if isinstance(place, RemotePath) else None
        """Where it is, if that is not this computer."""
        self.files: FileSystem
        if isinstance(place, RemotePath):
            self.root = place.uri
            # Spark knows stores of Amazon's kind by another name than all others.
            self._spark_root = re.sub("^s3://", "s3a://", self.root)
            self._delta_root = re.sub("^s3a://", "s3://", self.root)
            with store_errors("cannot use", place, PipelineError):
                self.files, self._base = place.files, place.path
        else:
            self.root = self._delta_root = str(place.absolute())
            self._spark_root = f"file://{self.root}"
            self.files, self._base = LocalFileSystem(), self.root

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this computer."""
        return self.place is None

    def spark_path(self, name: str) -> str:
        """What Spark calls it."""
        return f"{self._spark_root}/{name}"

    def delta_path(self, name: str) -> str:
        """What the Delta library calls it."""
        return f"{self._delta_root}/{name}"

    def delta_options(self) -> dict[str, str]:
        """What the Delta library has to be told besides."""
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
        # It takes nothing that is not encrypted unless it is told so.
        return {"allow_http": "true"} if endpoint.startswith("http://") else {}

    def arrow_path(self, name: str) -> str:
        """What Arrow calls it."""
        return f"{self._base}/{name}"

    def require(self) -> bool:
        """Whether there is anything yet; PipelineError if the place can never have any."""
        if self.place is None:
            return Path(self.root).is_dir()
        try:
            with store_errors("cannot use", self.place, PipelineError):
                self.place.folders()
        except FileNotFoundError:
            return False
        return True

    def read_text(self, name: str) -> str | None:
        """What a file says, or None if there is none."""
        try:
            with self._told(), self.files.open_input_stream(self.arrow_path(name)) as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return None

    def write_text(self, name: str, text: str) -> None:
        """Write a file, whole or not at all; PipelineError if that fails."""
        if self.place is not None:
            # A store shows a file when it has all of it.
            with store_errors("cannot write", self.place / name, PipelineError):
                (self.place / name).write(text.encode())
            return
        try:
            _write_whole(Path(self.arrow_path(name)), text.encode())
        except OSError as error:
            raise disk_error(f"cannot write {name}", self.root, str(error)) from error

    def listed(self, name: str) -> list[StoredFile]:
        """All files below a folder, sorted; none if it is not there."""
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
        """Names of the folders in a folder, sorted."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self.arrow_path(name), allow_not_found=True)
        with self._told():
            infos = self.files.get_file_info(selector)
        return sorted(info.base_name for info in infos if info.type == FileType.Directory)

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        with suppress(FileNotFoundError), self._told("cannot delete in"):
            self.files.delete_file(self.arrow_path(name))

    def delete_folder(self, name: str) -> None:
        """Delete a folder and all in it, if it is there."""
        with suppress(FileNotFoundError), self._told("cannot delete in"):
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

    @contextmanager
    def _told(self, what: str = "cannot read") -> Iterator[None]:
        """Inside, what goes wrong elsewhere is a PipelineError."""
        if self.place is None:
            yield
            return
        with store_errors(what, self.place, PipelineError):
            yield


def is_no_room(text: str) -> bool:
    """Whether an error says that the disk is full."""
    return _NO_ROOM.search(text) is not None


def disk_error(what: str, place: str, detail: str) -> PipelineError:
    """What to say when something cannot be written."""
    error = PipelineError(f"{what} in {place}: {detail}")
    error.hint = "make room and start again; what was complete is there, the rest is done anew"
    return error


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
