"""Records which parts of a stream were published: one empty file per published part.

An interrupted batch of a stream is repeated, and skips the parts that are recorded here. A part is
recorded only after the node has confirmed all of it, so an interrupted part is published again from
its beginning.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from skerry.errors import PipelineError

_DONE: Final = re.compile(r"(\d+)\.done")
_NOTE: Final = re.compile(r"(\d+)(?:-\d+|\.done)")


class PublishedParts:
    def __init__(self, folder: Path, query: str) -> None:
        if not re.fullmatch(r"\w[\w.-]{0,99}", query):
            raise PipelineError(
                f"{query!r} cannot be the name of a query: use up to 100 letters, digits, "
                "underscores, dots and hyphens"
            )
        self._folder = folder / query

    def has(self, batch: int, part: int) -> bool:
        """Whether this part, its whole batch or a later batch was published."""
        return self._part(batch, part).exists() or self.last_batch() >= batch

    def add(self, batch: int, part: int) -> None:
        """Record that this part was published, durably."""
        self._write(self._part(batch, part))

    def finish(self, batch: int) -> None:
        """Record that the whole batch was published, and delete the files of earlier ones."""
        self._write(self._folder / f"{batch}.done")
        for path in self._folder.iterdir():
            match = _NOTE.fullmatch(path.name)
            if match is None:
                continue  # Not written here: file systems and tools may leave files.
            number = int(match[1])
            if number < batch or (number == batch and not path.name.endswith(".done")):
                path.unlink(missing_ok=True)

    def last_batch(self) -> int:
        """The last batch that was published completely; -1 if none."""
        if not self._folder.is_dir():
            return -1
        found = (_DONE.fullmatch(path.name) for path in self._folder.iterdir())
        return max((int(match[1]) for match in found if match is not None), default=-1)

    def _part(self, batch: int, part: int) -> Path:
        return self._folder / f"{batch}-{part}"

    def _write(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise PipelineError(f"cannot record the published part in {path}: {error}") from error
