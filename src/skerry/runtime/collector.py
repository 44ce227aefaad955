"""Shortens the pauses of Python's garbage collector.

A full collection examines all containers that were created since the program started. With a
million of them, each collection pauses the program for a tenth of a second. So the objects that
survive a full collection are frozen, and the next one examines only objects that were created since
then.

A cycle of frozen objects that is no longer used stays in memory. So after some collections all
objects are examined again.
"""

from __future__ import annotations

import gc
from typing import Any, Final

_FULL_GENERATION: Final = 2
_FREEZE_COUNT: Final = 30
"""Collections after which all objects are examined. Between two full collections, about 77 000 new
containers are created."""


class CalmCollector:
    """Freezes the objects that survive a full collection, between `begin` and `end`."""

    def __init__(self, *, freeze_count: int = _FREEZE_COUNT) -> None:
        self._freeze_count = freeze_count
        self._count = 0

    def begin(self) -> None:
        """Collect once, and freeze all objects."""
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._collected)

    def end(self) -> None:
        """Restore the default behaviour of the collector."""
        gc.callbacks.remove(self._collected)
        gc.unfreeze()

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        if phase != "stop" or info["generation"] != _FULL_GENERATION:
            return
        self._count += 1
        if self._count % self._freeze_count:
            gc.freeze()
        else:
            # The next collection examines everything.
            gc.unfreeze()
