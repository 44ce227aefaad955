"""The folders of a node on this computer: for its socket, and for stored objects."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from skerry.errors import ConfigError


def runtime_folder(environ: Mapping[str, str]) -> Path:
    """The folder for sockets, which may be empty after a restart of the computer.

    The first of: $SKERRY_RUNTIME_DIR, $XDG_RUNTIME_DIR/skerry, /run/skerry if the user may write
    there, and a folder of the user in the temporary folder. It need not exist.
    """
    if environ.get("SKERRY_RUNTIME_DIR"):
        return Path(environ["SKERRY_RUNTIME_DIR"])
    if environ.get("XDG_RUNTIME_DIR"):
        return Path(environ["XDG_RUNTIME_DIR"], "skerry")
    if _may_write(Path("/run/skerry")):
        return Path("/run/skerry")
    return Path(tempfile.gettempdir(), f"skerry-{os.getuid()}")


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder for stored objects.

    The first of: $SKERRY_STATE_DIR, $XDG_STATE_HOME/skerry, /var/lib/skerry if the user may write
    there, and .local/state/skerry in the home folder. It need not exist.
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
    """The default Unix socket of the node of this computer or user."""
    return runtime_folder(environ) / "node.sock"


def find_socket(environ: Mapping[str, str]) -> Path | None:
    """The default socket, or None; ConfigError if another user may have created it.

    The folder of SKERRY_RUNTIME_DIR may belong to another user, who is then trusted.
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
    """ConfigError if another user may have written a configuration file found by default.

    It must belong to the user, to root, or to the user that called sudo, and not be writable by
    every user. `found` is the status of the open file: the path could be replaced after a check.
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
    """The folder, created private if it does not exist; ConfigError if it cannot be used.

    A folder that another user created in the temporary folder is rejected: that user could put any
    socket there.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_folder(path)
    except OSError as error:
        raise _fault(path, error.strerror or str(error)) from None
    return path


def _check_folder(path: Path, *, is_chosen: bool = False) -> None:
    """ConfigError if another user may write to a folder, OSError if it does not exist.

    A folder that the user chose may belong to another user.
    """
    if path.is_symlink() and path.parent == Path(tempfile.gettempdir()):
        raise _fault(path, "it is a link, which any user can have created")
    found = path.stat()
    if found.st_uid not in (os.getuid(), 0) and not is_chosen:
        raise _fault(path, f"it belongs to another user (number {found.st_uid})")
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise _fault(path, "every user of this computer can write there")


def _may_write(path: Path) -> bool:
    """Whether this user can write to the folder, or can create it."""
    return os.access(path if path.is_dir() else path.parent, os.W_OK | os.X_OK)


def _fault(path: Path, detail: str) -> ConfigError:
    return ConfigError(
        key=str(path),
        origin="folder",
        detail=detail,
        hint="set another with SKERRY_RUNTIME_DIR (sockets) or SKERRY_STATE_DIR (stored objects)",
    )
