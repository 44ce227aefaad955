"""What a slow client will hear of objects that change faster than it listens.

A subscription that conflates has a slot for each object it was not told of yet. Further updates of
the object go into its slot, and when the client has room again it hears of all of them in one.

When a client leaves a group, its slots may be a million. So none of them is examined then: each is
when its turn comes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.engine.dispatch.topics import Topic, UpdateInTransit
from skerry.limits import CONFLATED_COUNT_MAX

__all__ = ["ConflatedOutput", "ConflationSlot", "ConflationSlots"]

_LOOKS_PER_CHECK: Final = 10
"""Looks for finding out whether a client still hears of an object."""


class ConflationSlot:
    """One object that a client is to hear of later."""

    __slots__ = ("count", "epoch", "is_gone", "leave_count", "mask", "update")

    def __init__(self) -> None:
        self.mask = 0
        """All fields that were spoken of."""
        self.count = 0
        """How many updates this stands for."""
        self.update: UpdateInTransit | None = None
        """The last of them."""
        self.epoch = 0
        """The epoch of the topic when the update was received."""
        self.is_gone = False
        """Whether the object went where the client does not hear of it, which it may know from
        before."""
        self.leave_count = 0
        """How often the client had left something when the last update was added."""


class _Leave:
    """What a client left that has slots."""

    def __init__(self) -> None:
        self.leave_count = 0
        """How often the client had left anything, this time included."""
        self.unknown_count = 0
        """The same for the last time after which it was in no group that may know the objects."""
        self.is_wanted: Callable[[UpdateInTransit], bool] | None = None


class ConflatedOutput(Protocol):
    """Somebody who tells of an object later."""

    def catch_up(self, topic: Topic, key: bytes, slot: ConflationSlot, now_s: float) -> int:
        """Tell of all that a slot stands for; gives how many frames that took."""


class ConflationSlots:
    """All slots of a client."""

    def __init__(self, queue: ClientQueue, *, count_max: int = CONFLATED_COUNT_MAX) -> None:
        self._queue = queue
        self._count_max = count_max
        # Keys are those of one type; a pattern selects objects of several.
        # Ordered, as the first of a plain dict takes the longer to find the more went before it.
        self._slots: OrderedDict[
            tuple[ConflatedOutput, str, bytes], tuple[Topic, ConflationSlot]
        ] = OrderedDict()
        self._counts: dict[ConflatedOutput, int] = {}
        """The slots of each."""
        self._leave_count = 0
        self._leaves: dict[ConflatedOutput, _Leave] = {}
        self.waiting_count = 0
        """Updates in all of them."""

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def is_full(self) -> bool:
        """Whether the client is so far behind that nothing helps."""
        return len(self._slots) > self._count_max

    def has(self, output: ConflatedOutput, update: UpdateInTransit) -> bool:
        """Whether something of its object waits already, so that the next must wait behind it."""
        return bool(self._slots) and (output, update.topic.name, update.key()) in self._slots

    def add(self, output: ConflatedOutput, update: UpdateInTransit) -> None:
        """Let an update, counted as due already, wait in its slot."""
        at = (output, update.topic.name, update.key())
        found = self._slots.get(at)
        if found is None:
            found = self._slots[at] = (update.topic, ConflationSlot())
            self._counts[output] = self._counts.get(output, 0) + 1
        slot = found[1]
        if slot.count and self._is_left(output, slot):
            # What the client knew of the object, it may have forgotten with the group.
            slot.mask = int(update.topic.plan.mask)
        slot.leave_count = self._leave_count
        # A remove is made good by telling every field of what may come after it.
        slot.mask |= int(update.topic.plan.mask if update.is_remove else update.header.attributes)
        slot.is_gone = False
        slot.count += 1
        slot.update = update
        slot.epoch = int(update.topic.epoch)
        self.waiting_count += 1
        # So that somebody looks whether it is too much.
        self._queue.relist()

    def drop(self, output: ConflatedOutput, update: UpdateInTransit) -> None:
        """What waits of an object is not to be told any more: it is no longer there."""
        found = self._slots.pop((output, update.topic.name, update.key()), None)
        if found is not None:
            self._uncount(output)
            topic, slot = found
            topic.tally.conflated += slot.count
            self._queue.tally.conflated += slot.count
            self.waiting_count -= slot.count

    def drain(self, bytes_max: int, now_s: float) -> None:
        """Tell of what waits, as long as not too many bytes are on the lane and looks are left."""
        queue = self._queue
        while self._slots and queue.size < bytes_max and queue.work_left > 0:
            (output, _, key), (topic, slot) = self._slots.popitem(last=False)
            queue.work_left -= 1
            self.waiting_count -= slot.count
            is_dropped = self._is_left(output, slot) and not self._is_kept(output, topic, slot)
            self._uncount(output)
            if is_dropped:
                topic.tally.expired += slot.count
                queue.tally.expired += slot.count
                continue
            is_readable = topic.is_cached or slot.epoch == topic.epoch
            told = output.catch_up(topic, key, slot, now_s) if is_readable else 0
            topic.tally.conflated += slot.count - told
            self._queue.tally.conflated += slot.count - told

    def expire(self, count: int) -> None:
        """The client disconnected: drop so many slots."""
        for _ in range(min(count, len(self._slots))):
            (output, _, _), (topic, slot) = self._slots.popitem(last=False)
            self._uncount(output)
            topic.tally.expired += slot.count
            self._queue.tally.expired += slot.count
            self.waiting_count -= slot.count

    def forget(
        self,
        output: ConflatedOutput,
        is_wanted: Callable[[UpdateInTransit], bool] | None = None,
        *,
        is_known: bool = False,
    ) -> None:
        """A client does not listen to something any more, or only to what is still wanted.

        With `is_known`, an object that is not wanted may be known by another group, under a subject
        that it had before: then all that is to be told of it is that it is gone. What is not wanted
        is dropped in its turn.
        """
        if output not in self._counts:
            return
        self._leave_count += 1
        leave = self._leaves.setdefault(output, _Leave())
        leave.leave_count = self._leave_count
        leave.is_wanted = is_wanted
        if not is_known:
            leave.unknown_count = self._leave_count

    def _is_left(self, output: ConflatedOutput, slot: ConflationSlot) -> bool:
        """Whether the client left something since the last update of a slot."""
        leave = self._leaves.get(output)
        return leave is not None and slot.leave_count < leave.leave_count

    def _is_kept(self, output: ConflatedOutput, topic: Topic, slot: ConflationSlot) -> bool:
        """Whether the client is to hear of an object though it left something."""
        leave, update = self._leaves[output], slot.update
        assert update is not None
        slot.mask = int(topic.plan.mask)
        self._queue.work_left -= _LOOKS_PER_CHECK
        if leave.is_wanted is not None and leave.is_wanted(update):
            return True
        slot.is_gone = topic.is_cached and slot.leave_count >= leave.unknown_count
        return slot.is_gone

    def _uncount(self, output: ConflatedOutput) -> None:
        """A slot is gone."""
        self._counts[output] -= 1
        if not self._counts[output]:
            del self._counts[output]
            self._leaves.pop(output, None)

    def counts(self) -> list[tuple[Topic, int]]:
        """How many updates of each topic wait; a topic may come several times."""
        return [(topic, slot.count) for topic, slot in self._slots.values()]
