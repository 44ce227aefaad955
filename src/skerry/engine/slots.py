"""What a slow client will hear of objects that change faster than it listens.

A subscription that conflates has a slot for each object it was not told of yet. Further updates of
the object go into its slot, and when the client has room again it hears of all of them in one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from skerry.engine.lane import Lane
from skerry.engine.topics import News, Topic
from skerry.limits import CONFLATED_COUNT_MAX

__all__ = ["Late", "Slot", "Slots"]


class Slot:
    """One object that a client is to hear of later."""

    __slots__ = ("count", "epoch", "is_gone", "mask", "news")

    def __init__(self) -> None:
        self.mask = 0
        """All fields that were spoken of."""
        self.count = 0
        """How many updates this stands for."""
        self.news: News | None = None
        """The last of them."""
        self.epoch = 0
        """The epoch of the topic when the update was received."""
        self.is_gone = False
        """Whether the object went where the client does not hear of it, which it may know from
        before."""


class Late(Protocol):
    """Somebody who tells of an object later."""

    def catch_up(self, topic: Topic, key: bytes, slot: Slot, now_s: float) -> int:
        """Tell of all that a slot stands for; gives how many frames that took."""


class Slots:
    """All slots of a client."""

    def __init__(self, lane: Lane, *, count_max: int = CONFLATED_COUNT_MAX) -> None:
        self._lane = lane
        self._count_max = count_max
        # Keys are those of one type; a pattern selects objects of several.
        # Ordered, as the first of a plain dict takes the longer to find the more went before it.
        self._slots: OrderedDict[tuple[Late, str, bytes], tuple[Topic, Slot]] = OrderedDict()
        self.waiting_count = 0
        """Updates in all of them."""

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def is_full(self) -> bool:
        """Whether the client is so far behind that nothing helps."""
        return len(self._slots) > self._count_max

    def has(self, late: Late, news: News) -> bool:
        """Whether something of its object waits already, so that the next must wait behind it."""
        return bool(self._slots) and (late, news.topic.name, news.key()) in self._slots

    def add(self, late: Late, news: News) -> None:
        """Let an update, counted as due already, wait in its slot."""
        at = (late, news.topic.name, news.key())
        found = self._slots.get(at)
        if found is None:
            found = self._slots[at] = (news.topic, Slot())
        slot = found[1]
        # A remove is made good by telling every field of what may come after it.
        slot.mask |= int(news.topic.plan.mask if news.is_remove else news.header.attributes)
        slot.is_gone = False
        slot.count += 1
        slot.news = news
        slot.epoch = int(news.topic.epoch)
        self.waiting_count += 1
        # So that somebody looks whether it is too much.
        self._lane.relist()

    def drop(self, late: Late, news: News) -> None:
        """What waits of an object is not to be told any more: it is no longer there."""
        found = self._slots.pop((late, news.topic.name, news.key()), None)
        if found is not None:
            topic, slot = found
            topic.tally.conflated += slot.count
            self._lane.tally.conflated += slot.count
            self.waiting_count -= slot.count

    def drain(self, bytes_max: int, now_s: float) -> None:
        """Tell of what waits, as long as not too many bytes are on the lane."""
        while self._slots and self._lane.size < bytes_max:
            (late, _, key), (topic, slot) = self._slots.popitem(last=False)
            self.waiting_count -= slot.count
            is_readable = topic.is_cached or slot.epoch == topic.epoch
            told = late.catch_up(topic, key, slot, now_s) if is_readable else 0
            topic.tally.conflated += slot.count - told
            self._lane.tally.conflated += slot.count - told

    def expire(self, count: int) -> None:
        """The client disconnected: drop so many slots."""
        for _ in range(min(count, len(self._slots))):
            _, (topic, slot) = self._slots.popitem(last=False)
            topic.tally.expired += slot.count
            self._lane.tally.expired += slot.count
            self.waiting_count -= slot.count

    def forget(
        self,
        late: Late,
        is_wanted: Callable[[News], bool] | None = None,
        *,
        is_known: bool = False,
    ) -> None:
        """Somebody does not listen any more, or only to what is still wanted.

        An object that is not may be known by another group, under a subject that it had before:
        then all that is to be told of it is that it is gone.
        """
        for at in [at for at in self._slots if at[0] is late]:
            topic, slot = self._slots[at]
            assert slot.news is not None
            # What the client knows of the object, it may forget with the group.
            slot.mask = int(topic.plan.mask)
            if is_wanted is not None and is_wanted(slot.news):
                continue
            if is_known and topic.is_cached:
                slot.is_gone = True
                continue
            del self._slots[at]
            topic.tally.expired += slot.count
            self._lane.tally.expired += slot.count
            self.waiting_count -= slot.count

    def counts(self) -> list[tuple[Topic, int]]:
        """How many updates of each topic wait; a topic may come several times."""
        return [(topic, slot.count) for topic, slot in self._slots.values()]
