"""Which cached objects are replayed to a client that joined a pattern.

Often the pattern alone decides: it selects all objects of a type, none, or the one whose key it
contains. Otherwise each object is examined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skerry.codec.encoder import head
from skerry.codec.pieces import split
from skerry.codec.plans import StructPlan
from skerry.codec.subjects import NO_KEY, default_pattern, default_subject, key_parts
from skerry.engine.delivery.replay_parts import ReplayChoice
from skerry.engine.dispatch.cache import Entry
from skerry.engine.dispatch.pattern_reach import WILD_CARDS
from skerry.engine.dispatch.topics import Topic
from skerry.protocol.patterns import covers, overlaps

_EVERYTHING: Final = "/..."
"""The pattern that selects every subject."""


class PatternChoice(ReplayChoice):
    """The objects of a topic whose subjects a pattern selects."""

    def __init__(self, topic: Topic, pattern: str) -> None:
        super().__init__()
        self._topic = topic
        self._pattern = pattern
        self._levels = [None if level in WILD_CARDS else level for level in _levels_of(pattern)]
        self._read(topic.plan)

    def wants(self, entry: Entry) -> bool:
        """Whether an object is under a subject that the pattern selects."""
        if entry.subject:
            return covers(self._pattern, entry.subject)
        plan = self._topic.plan
        if plan is not self._plan:
            # The type has another definition since the choice was made.
            self._read(plan)
        if self._is_all or not self._is_part:
            return self._is_all
        payload = entry.payload
        for needle in self._needles:
            if needle not in payload:
                return False
        return covers(self._pattern, default_subject(plan, split(plan, payload, 0)))

    def _read(self, plan: StructPlan) -> None:
        own = default_pattern(plan)
        self._plan = plan
        self._is_all = covers(self._pattern, own)
        self._is_part = overlaps(self._pattern, own)
        self._needles = _needles(plan, self._levels)
        """Bytes that all selected objects under default subjects contain, and few others. Searching
        for them is much faster than making the subject of each object."""


class FilterChoice(ReplayChoice):
    """The objects of a topic that a client may see: by their subject, if it is not the default."""

    def __init__(self, may_see: Callable[[str], bool]) -> None:
        super().__init__()
        self._may_see = may_see

    def wants(self, entry: Entry) -> bool:
        """Whether the client may see the subject of an object."""
        return not entry.subject or self._may_see(entry.subject)


def selects_all(topic: Topic, pattern: str) -> bool:
    """Whether a pattern selects all objects of a topic, as far as known without examining them."""
    if not covers(pattern, topic.pattern):
        return False
    return not topic.type_cache.own_keys or covers(pattern, _EVERYTHING)


def named_keys(topic: Topic, pattern: str, work_max: int) -> list[bytes] | None:
    """Keys of the objects that a pattern selects; None if finding them takes more work units.

    Under default subjects the pattern selects at most one object if it has no wild cards, and none
    if it matches no default subject of the type. Objects under other subjects are usually few.
    """
    type_cache = topic.type_cache
    found: dict[bytes, None] = {}
    if overlaps(pattern, topic.pattern):
        levels = _levels_of(pattern)
        if covers(pattern, topic.pattern) or any(level in WILD_CARDS for level in levels):
            return None
        # No level is a wild card, so this is a whole key.
        (key,) = key_parts(topic.plan, levels)
        entry = type_cache.objects.get(key)
        if entry is not None and (not entry.subject or covers(pattern, entry.subject)):
            found[key] = None
    if len(type_cache.own_keys) > work_max:
        return None
    choice = PatternChoice(topic, pattern) if type_cache.own_keys else None
    for key in type_cache.own_keys:
        if choice is not None and choice.wants(type_cache.objects[key]):
            found[key] = None
    return list(found)


def _levels_of(pattern: str) -> list[str]:
    """The levels of a pattern after the type."""
    return pattern.split("/")[2:]


def _needles(plan: StructPlan, levels: list[str | None]) -> list[bytes]:
    """The encoded key fields with the values of these levels; None matches any value."""
    found: list[bytes] = []
    for index, (field, level) in enumerate(zip(plan.keys, levels, strict=False)):
        if level is not None:
            *_, value = key_parts(plan, [*[None] * index, level])
            if value != NO_KEY and index == 0:
                value = value[len(head(0x80, len(plan.keys))) :]
            found.append(value if value == NO_KEY else head(0x00, int(field.tag)) + value)
    return found
