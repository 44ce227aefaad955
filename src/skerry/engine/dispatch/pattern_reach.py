"""Which types have default subjects that a pattern selects."""

from __future__ import annotations

from collections import Counter
from typing import Final

from skerry.engine.dispatch.topics import Topic
from skerry.limits import TAG_MAX

WILD_CARDS: Final = ("*", "...", "\u2026")
"""Levels of a pattern that match other levels."""


class PatternReach:
    """The types whose default subjects a pattern selects, and whether it selects all of them.

    A default subject is the type and a level for each key, so it depends only on the first level
    of the pattern and the number of the others.
    """

    def __init__(self, pattern: str) -> None:
        self.first, *rest = pattern.split("/")[1:]
        """The type, or a wild card."""
        is_open = (rest or [self.first])[-1] == "..."
        if self.first == "...":
            self.key_counts = range(TAG_MAX + 1)
        elif is_open:
            self.key_counts = range(len(rest), TAG_MAX + 1)
        else:
            self.key_counts = range(len(rest), len(rest) + 1)
        self.is_whole = all(level in WILD_CARDS for level in rest)
        """Whether the pattern selects all default subjects of these types."""
        self._start = None if self.first in WILD_CARDS else f"/{self.first}"

    def has(self, topic: Topic) -> bool:
        """Whether the pattern selects some or all default subjects of a topic."""
        if len(topic.plan.keys) not in self.key_counts:
            return False
        start = self._start
        if start is None:
            return True
        pattern = topic.pattern
        return pattern.startswith(start) and pattern[len(start) : len(start) + 1] in ("", "/")


class PartialPatterns:
    """The patterns in use that select some, but not all, default subjects of a type."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, int]] = Counter()
        """The number of patterns, by their first level and the number of the types' keys."""

    def change(self, reach: PatternReach, change: int) -> None:
        """Count a pattern that was added (1) or removed (-1)."""
        for key_count in reach.key_counts:
            self._counts[reach.first, key_count] += change
            if not self._counts[reach.first, key_count]:
                del self._counts[reach.first, key_count]

    def select_part_of(self, topic: Topic) -> bool:
        """Whether any of the patterns selects a part of the default subjects of a topic."""
        key_count = len(topic.plan.keys)
        first = topic.pattern.split("/", 2)[1]
        return (first, key_count) in self._counts or ("*", key_count) in self._counts
