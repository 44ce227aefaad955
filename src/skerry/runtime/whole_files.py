"""Reads whole files up to a size limit, and replaces files atomically."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from skerry.errors import LimitExceeded


def once_each(paths: Iterable[str]) -> list[str]:
    """The paths without those that lead to the same file as an earlier one, as links do."""
    by_file: dict[str, str] = {}
    for path in paths:
        by_file.setdefault(os.path.realpath(path), path)
    return list(by_file.values())


def read_whole(path: str | os.PathLike[str], *, bytes_max: int) -> bytes:
    """The content of a file; LimitExceeded if it is larger than `bytes_max`."""
    with Path(path).open("rb") as file:
        # The size in the file status is not used: a pipe or a device has none and may never end.
        content = file.read(bytes_max + 1)
        if len(content) > bytes_max:
            size = max(len(content), os.fstat(file.fileno()).st_size)
            raise LimitExceeded(what=f"size of {path} in bytes", value=size, limit=bytes_max)
    return content


def replace_files(contents: Mapping[Path, bytes], *, mode: int = 0o666) -> None:
    """Replace files so that each has its old content or the new one, never a part of it.

    All new files are written and synced before the first is renamed: without disk space or
    permission, nothing changes. For a link, the file it leads to is replaced. A new file gets
    `mode` as far as the umask allows; an existing one keeps its mode.
    """
    drafts: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            target = Path(os.path.realpath(path))
            if target in drafts:
                raise OSError(errno.EEXIST, "two of the paths lead to the same file", str(path))
            drafts[target] = _write_draft(target, content, mode, named=path)
        for target, draft in drafts.items():
            draft.replace(target)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def _write_draft(target: Path, content: bytes, mode: int, *, named: Path) -> Path:
    path = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    # Errors name the file to be written, not the draft.
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
    """The error number of replacing `target`; 0 if it can be replaced."""
    if target.is_symlink():
        # The path is already resolved, so a remaining link is part of a cycle.
        return errno.ELOOP
    return errno.EISDIR if target.is_dir() else 0
