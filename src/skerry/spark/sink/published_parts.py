"""What a sink has published: one small file for each part of a batch that is done.

A batch of a stream is written again when it was interrupted, and then finds here what need not be
published again. A part counts as done only when the node has confirmed all of it, so a part that
dies halfway is published from its beginning once more.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from skerry.errors import PipelineError

__all__ = ["PublishedParts"]

_DONE: Final = re.compile(r"(\d+)\.done")
_NOTE: Final = re.compile(r"(\d+)(?:-\d+|\.done)")


class PublishedParts:
    """The done parts of one query."""

    def __init__(self, folder: Path, query: str) -> None:
        if not re.fullmatch(r"\w[\w.-]{0,99}", query):
            raise PipelineError(f"{query!r} cannot be the name of a query")
        self._folder = folder / query

    def has(self, batch: int, part: int) -> bool:
        """Whether this part, or the whole batch or a later one, was published."""
        return self._part(batch, part).exists() or self.last_batch() >= batch

    def add(self, batch: int, part: int) -> None:
        """Everything of this part was published."""
        self._write(self._part(batch, part))

    def finish(self, batch: int) -> None:
        """Every part of the batch was published; what is known of earlier ones is not needed."""
        self._write(self._folder / f"{batch}.done")
        for path in self._folder.iterdir():
            match = _NOTE.fullmatch(path.name)
            if match is None:
                continue  # Somebody else's: file systems and tools leave some.
            number = int(match[1])
            if number < batch or (number == batch and not path.name.endswith(".done")):
                path.unlink(missing_ok=True)

    def last_batch(self) -> int:
        """The last batch of which every part was published; -1 if none."""
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
            raise PipelineError(f"cannot note in {path} what was published: {error}") from error
