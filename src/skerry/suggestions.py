"""Suggests the intended name for a misspelled one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

_LIKENESS_MIN: Final = 0.7
"""Below this a suggestion is wrong more often than right, and misleads people."""


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` probably stands for, or None. Case is ignored."""
    by_folded = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=_LIKENESS_MIN)
    return by_folded[found[0]] if found else None
