"""Reads files with secrets, and warns if other users can read them."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from skerry.errors import ConfigError

_BYTES_MAX: Final = 4096
"""Far longer than any real secret; a larger file is probably the wrong one."""
_VARIABLE: Final = "DOTS_AUTH_SECRET"
_FILE_VARIABLE: Final = "SKERRY_SECRET_FILE"

log = logging.getLogger(__name__)


def given_secret(environ: Mapping[str, str]) -> str | None:
    """The secret of DOTS_AUTH_SECRET, or of the file that SKERRY_SECRET_FILE names, if any."""
    if environ.get(_VARIABLE):
        return environ[_VARIABLE]
    file = environ.get(_FILE_VARIABLE)
    return read_secret(file, origin=f"environment {_FILE_VARIABLE}") if file else None


def read_secret(file: str | Path, *, origin: str) -> str:
    """The secret in a file, without the line end; ConfigError if it cannot be read.

    `origin` is the option or variable that named the file.
    """
    try:
        with Path(file).open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            data = stream.read(_BYTES_MAX + 1)
    except OSError as error:
        raise _fault(origin, f"{file}: {error.strerror or error}") from None
    if len(data) > _BYTES_MAX:
        raise _fault(origin, f"{file} has more than {_BYTES_MAX} bytes")
    try:
        secret = data.decode()
    except UnicodeDecodeError:
        # Without its cause, which contains the secret.
        raise _fault(origin, f"{file} is not text in UTF-8") from None
    secret = secret.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise _fault(origin, f"{file} is empty")
    if "\n" in secret:
        raise _fault(origin, f"{file} has more than one line")
    warn_of_readers(file, mode, "a secret")
    return secret


def warn_of_readers(file: str | Path, mode: int, what: str) -> None:
    """Log a warning if every user of this computer can read or change a file with a secret."""
    if mode & stat.S_IRWXO:
        # A warning, not an error: a container may have no other users.
        log.warning(
            "every user of this computer can read %s",
            what,
            extra={"file": str(file), "hint": f"chmod 600 {file}"},
        )


def _fault(origin: str, detail: str) -> ConfigError:
    return ConfigError(
        key="secret",
        origin=origin,
        detail=detail,
        hint="the file must have the secret as its only line",
    )
