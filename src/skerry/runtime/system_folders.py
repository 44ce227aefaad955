"""Folders of this computer: where the node's socket is found, and where it keeps what stays."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from skerry.errors import ConfigError

__all__ = [
    "check_config",
    "default_socket",
    "find_socket",
    "make_folder",
    "runtime_folder",
    "state_folder",
]


def runtime_folder(environ: Mapping[str, str]) -> Path:
    """Where sockets are, and nothing that is missed after a restart of the computer.

    The first of: $SKERRY_RUNTIME_DIR, $XDG_RUNTIME_DIR/skerry, /run/skerry for who may write
    there, and a folder of the user's own among the temporary ones. It need not exist.
    """
    if environ.get("SKERRY_RUNTIME_DIR"):
        return Path(environ["SKERRY_RUNTIME_DIR"])
    if environ.get("XDG_RUNTIME_DIR"):
        return Path(environ["XDG_RUNTIME_DIR"], "skerry")
    if _may_write(Path("/run/skerry")):
        return Path("/run/skerry")
    return Path(tempfile.gettempdir(), f"skerry-{os.getuid()}")


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where stored objects are.

    The first of: $SKERRY_STATE_DIR, $XDG_STATE_HOME/skerry, /var/lib/skerry for who may write
    there, and .local/state/skerry at the user's home. It need not exist.
    """
    if environ.get("SKERRY_STATE_DIR"):
        return Path(environ["SKERRY_STATE_DIR"])
    if environ.get("XDG_STATE_HOME"):
        return Path(environ["XDG_STATE_HOME"], "skerry")
    if _may_write(Path("/var/lib/skerry")):
        return Path("/var/lib/skerry")
    home = environ.get("HOME") or str(Path.home())
    return Path(home, ".local", "state", "skerry")


def default_socket(environ: Mapping[str, str]) -> Path:
    """The Unix socket of the node of this computer, or of this user."""
    return runtime_folder(environ) / "node.sock"


def find_socket(environ: Mapping[str, str]) -> Path | None:
    """The default socket, if there is one; ConfigError if another user may have created it.

    A folder that SKERRY_RUNTIME_DIR names may belong to another user, who is then trusted.
    """
    path = default_socket(environ)
    try:
        if not path.is_socket():
            return None
        _check_folder(path.parent, is_chosen=bool(environ.get("SKERRY_RUNTIME_DIR")))
    except OSError as error:
        raise _fault(path.parent, error.strerror or str(error)) from None
    return path


def check_config(path: Path, found: os.stat_result, environ: Mapping[str, str]) -> None:
    """Raise ConfigError if another user may have written a configuration file that was not named.

    It must belong to the user, to root, or to the user that called sudo, and not be writable by
    every user. `found` is of the open file, as the path could be replaced after a check.
    """
    owners = {os.geteuid(), 0}
    caller = environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and caller.isdecimal():
        owners.add(int(caller))
    if found.st_uid not in owners:
        detail = f"it belongs to another user (number {found.st_uid})"
        hint = f"if you trust it, name it with --config {path}"
    elif found.st_mode & stat.S_IWOTH:
        detail = "every user of this computer can change it"
        hint = f"chmod o-w {path}"
    else:
        return
    raise ConfigError(key="configuration", origin=f"file {path}", detail=detail, hint=hint)


def make_folder(path: Path) -> Path:
    """The folder, made for its owner alone if it is not there; ConfigError if it cannot be used.

    A folder that somebody else made among the temporary ones could have any socket put in.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_folder(path)
    except OSError as error:
        raise _fault(path, error.strerror or str(error)) from None
    return path


def _check_folder(path: Path, *, is_chosen: bool = False) -> None:
    """Raise ConfigError if another user may write to a folder, OSError if it does not exist.

    A folder that the user chose may belong to another user.
    """
    if path.is_symlink() and path.parent == Path(tempfile.gettempdir()):
        raise _fault(path, "it is a link, which anybody can have put there")
    found = path.stat()
    if found.st_uid not in (os.getuid(), 0) and not is_chosen:
        raise _fault(path, f"it belongs to another user (number {found.st_uid})")
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise _fault(path, "anybody may write there")


def _may_write(path: Path) -> bool:
    """Whether the folder is there and ours to write in, or can be made by us."""
    return os.access(path if path.is_dir() else path.parent, os.W_OK | os.X_OK)


def _fault(path: Path, detail: str) -> ConfigError:
    return ConfigError(
        key=str(path),
        origin="folder",
        detail=detail,
        hint="name another by SKERRY_RUNTIME_DIR (sockets) or SKERRY_STATE_DIR (stored objects)",
    )
