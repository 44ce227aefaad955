"""Files that are read whole up to a bound, and written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from skerry.errors import LimitExceeded

__all__ = ["once_each", "read_whole", "replace_files"]


def once_each(paths: Iterable[str]) -> list[str]:
    """Each file by the first of the names it was given: links and detours lead to one file."""
    by_file: dict[str, str] = {}
    for path in paths:
        by_file.setdefault(os.path.realpath(path), path)
    return list(by_file.values())


def read_whole(path: str | os.PathLike[str], *, bytes_max: int) -> bytes:
    """The content of a file; LimitExceeded when it is longer than `bytes_max`."""
    with Path(path).open("rb") as file:
        # Not the size the system tells: a pipe or a device has none and may never end.
        content = file.read(bytes_max + 1)
        if len(content) > bytes_max:
            size = max(len(content), os.fstat(file.fileno()).st_size)
            raise LimitExceeded(what=f"size of {path} in bytes", value=size, limit=bytes_max)
    return content


def replace_files(contents: Mapping[Path, bytes], *, mode: int = 0o666) -> None:
    """Write files so that each has its old content or the new one, never a part of it.

    All are on the disk beside their targets before the first takes its place: where there is no
    room or no permission, nothing changes. A link stays, and what it leads to is replaced. A new
    file gets `mode` as far as the umask allows; an existing one keeps its own.
    """
    forerunners: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            target = Path(os.path.realpath(path))
            if target in forerunners:
                raise OSError(errno.EEXIST, "two of the files are one and the same", str(path))
            forerunners[target] = _write_beside(target, content, mode, named=path)
        for target, forerunner in forerunners.items():
            forerunner.replace(target)
    finally:
        for forerunner in forerunners.values():
            forerunner.unlink(missing_ok=True)


def _write_beside(target: Path, content: bytes, mode: int, *, named: Path) -> Path:
    path = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    # Who reads an error knows the file that was to be written, not its forerunner.
    if fault := _fault(target):
        raise OSError(fault, os.strerror(fault), str(named))
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(named)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if target.exists():
                os.fchmod(file.fileno(), target.stat().st_mode & 0o7777)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _fault(target: Path) -> int:
    """The number of the error that taking the place of `target` would be; 0 if it can be done."""
    if target.is_symlink():
        # What was followed to its end and is still a link leads in a circle.
        return errno.ELOOP
    return errno.EISDIR if target.is_dir() else 0
