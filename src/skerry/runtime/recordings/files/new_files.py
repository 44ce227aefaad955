"""Files that appear under their name when they are complete."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from skerry.errors import RecordingError
from skerry.runtime.recordings.files.folders import open_private


@contextmanager
def new_file(target: Path) -> Iterator[IO[bytes]]:
    """A temporary file that is renamed to the target on success and removed after a failure.

    A new file is private, like the recording. A replaced one keeps its mode.
    """
    if target.is_dir():
        error = RecordingError(f"cannot write {target}: it is a folder")
        error.hint = "name a file"
        raise error
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "wb", opener=open_private) as file:
            yield file
            if target.exists():
                os.fchmod(file.fileno(), target.stat().st_mode & 0o777)
        part.replace(target)
    except OSError as error:
        failure = RecordingError(f"cannot write {target}: {error.strerror or error}")
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        failure.hint = "free disk space" if is_full else "name a file in a writable folder"
        raise failure from error
    finally:
        part.unlink(missing_ok=True)
