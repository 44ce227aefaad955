"""Which program has a port: asked of the files in which Linux tells about its processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["port_user"]

_PROC: Final = Path("/proc")
_LISTENS: Final = "0A"
_WORD_CHAR_COUNT_MAX: Final = 80


def port_user(port: int, proc: Path = _PROC) -> str | None:
    """Number and command line of the program that listens at a TCP port, if we may know."""
    inodes = {f"socket:[{inode}]" for inode in _listening(port, proc)}
    if not inodes:
        return None
    for process in proc.iterdir():
        if process.name.isdigit() and _has_one(process, inodes):
            return f"process {process.name} ({_command(process)})"
    return None


def _listening(port: int, proc: Path) -> Iterator[str]:
    """Numbers of the sockets that listen at a port."""
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            # 1 is the address with the port in hexadecimal digits, 3 the state, 9 the number.
            if words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == port:
                yield words[9]


def _has_one(process: Path, sockets: set[str]) -> bool:
    try:
        return any(_target(file) in sockets for file in (process / "fd").iterdir())
    except OSError:
        return False  # it is another user's, or is gone


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:
        return ""


def _command(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return "gone"
    return words.decode(errors="replace").strip()[:_WORD_CHAR_COUNT_MAX]
