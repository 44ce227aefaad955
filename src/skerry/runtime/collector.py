"""Keeps Python's garbage collector from stopping a program for long.

A full collection examines all lists, dictionaries and objects with attributes that were made since
the program began: with a million of them the program stops for a tenth of a second, again and
again. So all that survives a full collection is frozen, and the next one examines only what was
made since then.

A ring of frozen objects that is no longer used stays in memory. So after some collections all
objects are examined once more.
"""

from __future__ import annotations

import gc
from typing import Any, Final

__all__ = ["CalmCollector"]

_FULL_GENERATION: Final = 2
_FREEZE_COUNT: Final = 30
"""Collections after which all objects are examined. Between two collections there are some 77 000
new objects that the collector knows."""


class CalmCollector:
    """Freezes what survives each full collection, from `begin` on."""

    def __init__(self, *, freeze_count: int = _FREEZE_COUNT) -> None:
        self._freeze_count = freeze_count
        self._count = 0

    def begin(self) -> None:
        """Collect once, and freeze all that there is."""
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._collected)

    def end(self) -> None:
        """Leave the collector as it usually is."""
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
