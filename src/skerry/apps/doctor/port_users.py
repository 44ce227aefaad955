"""Finds the program that listens at a port, in the /proc files of Linux."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_LISTENS: Final = "0A"
_WORD_CHAR_COUNT_MAX: Final = 80


def port_user(port: int, proc: Path = _PROC) -> str | None:
    """Process id and command line of the program that listens at a TCP port; None if not known."""
    inodes = {f"socket:[{inode}]" for inode in _listening(port, proc)}
    if not inodes:
        return None
    for process in proc.iterdir():
        if process.name.isdigit() and _has_any(process, inodes):
            return f"process {process.name} ({_command(process)})"
    return None


def _listening(port: int, proc: Path) -> Iterator[str]:
    """Inodes of the sockets that listen at a port."""
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            # Word 1 is the address with the port in hexadecimal digits, 3 the state, 9 the inode.
            if words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == port:
                yield words[9]


def _has_any(process: Path, sockets: set[str]) -> bool:
    try:
        return any(_target(file) in sockets for file in (process / "fd").iterdir())
    except OSError:
        return False  # It belongs to another user, or has ended.


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:
        return ""


def _command(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return "ended"
    return words.decode(errors="replace").strip()[:_WORD_CHAR_COUNT_MAX]
