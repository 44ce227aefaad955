"""Which cached objects a client asked for that joined a part of a type.

As much as possible is told by the pattern alone: that it selects all objects of a type, none, or
the one whose key it names. For the rest a choice is made object by object.
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
from skerry.engine.dispatch.routing import WILD_CARDS
from skerry.engine.dispatch.topics import Topic
from skerry.protocol.patterns import covers, overlaps

__all__ = ["FilterChoice", "PatternChoice", "named_keys", "selects_all"]

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
            # The type was defined anew meanwhile, and its objects converted.
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
        """What stands in all objects under default subjects that are selected, and few others: to
        make the subjects of all would take much longer."""


class FilterChoice(ReplayChoice):
    """The objects of a topic that a client may see; those under default subjects it may, all."""

    def __init__(self, may_see: Callable[[str], bool]) -> None:
        super().__init__()
        self._may_see = may_see

    def wants(self, entry: Entry) -> bool:
        """Whether the subject of an object is none that is hidden."""
        return not entry.subject or self._may_see(entry.subject)


def selects_all(topic: Topic, pattern: str) -> bool:
    """Whether a pattern selects the subject of each object of a topic, known without a look."""
    if not covers(pattern, topic.pattern):
        return False
    return not topic.type_cache.own_keys or covers(pattern, _EVERYTHING)


def named_keys(topic: Topic, pattern: str, work_max: int) -> list[bytes] | None:
    """The objects that a pattern selects; None if it takes more looks than these to say.

    There is at most one under its default subject where that is spelled out, and none where no
    default subject is like the pattern. Those under other subjects are few, as a rule.
    """
    type_cache = topic.type_cache
    found: dict[bytes, None] = {}
    if overlaps(pattern, topic.pattern):
        levels = _levels_of(pattern)
        if covers(pattern, topic.pattern) or any(level in WILD_CARDS for level in levels):
            return None
        # All levels are spelled out, so this is a whole key.
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
    """The levels of a pattern behind the type."""
    return pattern.split("/")[2:]


def _needles(plan: StructPlan, levels: list[str | None]) -> list[bytes]:
    """The encoded fields that have these levels; a level of None may be any."""
    found: list[bytes] = []
    for index, (field, level) in enumerate(zip(plan.keys, levels, strict=False)):
        if level is not None:
            *_, value = key_parts(plan, [*[None] * index, level])
            if value != NO_KEY and index == 0:
                value = value[len(head(0x80, len(plan.keys))) :]
            found.append(value if value == NO_KEY else head(0x00, int(field.tag)) + value)
    return found
