"""Conflation: a slow client receives only the last state of an object instead of every update.

A subscription that conflates has a slot for each object whose updates were not sent yet. Further
updates of the object go into its slot, and when the client has room again it receives all of them
as one update.

When a client leaves a group, it may have a million slots. So no slot is examined then; each slot is
examined when its turn comes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.engine.dispatch.topics import Topic, UpdateInTransit
from skerry.limits import CONFLATED_COUNT_MAX

_WORK_PER_CHECK: Final = 10
"""Work units for finding out whether a client still subscribes to an object."""


class ConflationSlot:
    """The conflated updates of one object for one client."""

    __slots__ = ("count", "epoch", "is_gone", "leave_count", "mask", "update")

    def __init__(self) -> None:
        self.mask = 0
        """All fields that the updates name."""
        self.count = 0
        self.update: UpdateInTransit | None = None
        self.epoch = 0
        """The epoch of the topic when the last update was received."""
        self.is_gone = False
        """Whether the object moved to a subject that the client does not subscribe to, and the
        client may know the object from before."""
        self.leave_count = 0
        """How often the client had left a group when the last update was added."""


class _Leave:
    """The last time that a client with slots left a group."""

    def __init__(self) -> None:
        self.leave_count = 0
        """How often the client had left a group, this time included."""
        self.unknown_count = 0
        """The same for the last time after which it was in no group that may know the objects."""
        self.is_wanted: Callable[[UpdateInTransit], bool] | None = None


class ConflatedOutput(Protocol):
    """Sends the conflated updates of an object."""

    def catch_up(self, topic: Topic, key: bytes, slot: ConflationSlot, now_s: float) -> int:
        """Send all updates of a slot as one; returns the number of frames."""


class ConflationSlots:
    def __init__(self, queue: ClientQueue, *, count_max: int = CONFLATED_COUNT_MAX) -> None:
        self._queue = queue
        self._count_max = count_max
        # The name of the type is part of the index, since a pattern selects objects of several
        # types. It is an OrderedDict because finding the first item of a plain dict takes the
        # longer the more items before it were removed.
        self._slots: OrderedDict[
            tuple[ConflatedOutput, str, bytes], tuple[Topic, ConflationSlot]
        ] = OrderedDict()
        self._counts: dict[ConflatedOutput, int] = {}
        """The number of slots of each output."""
        self._leave_count = 0
        self._leaves: dict[ConflatedOutput, _Leave] = {}
        self.waiting_count = 0
        """The number of updates in all slots."""

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def is_full(self) -> bool:
        """Whether the client has more slots than it may have."""
        return len(self._slots) > self._count_max

    def has(self, output: ConflatedOutput, update: UpdateInTransit) -> bool:
        """Whether the object of an update has a slot, so that the update must wait in it."""
        return bool(self._slots) and (output, update.topic.name, update.key()) in self._slots

    def add(self, output: ConflatedOutput, update: UpdateInTransit) -> None:
        """Add an update, which is already counted as due, to the slot of its object."""
        at = (output, update.topic.name, update.key())
        found = self._slots.get(at)
        if found is None:
            found = self._slots[at] = (update.topic, ConflationSlot())
            self._counts[output] = self._counts.get(output, 0) + 1
        slot = found[1]
        if slot.count and self._is_left(output, slot):
            # The client may have forgotten the object when it left the group.
            slot.mask = int(update.topic.plan.mask)
        slot.leave_count = self._leave_count
        # If the object is created again after a remove, all of its fields are sent.
        slot.mask |= int(update.topic.plan.mask if update.is_remove else update.header.attributes)
        slot.is_gone = False
        slot.count += 1
        update.topic.tally.queued += 1
        slot.update = update
        slot.epoch = int(update.topic.epoch)
        self.waiting_count += 1
        # The node then checks the number of slots.
        self._queue.relist()

    def drop(self, output: ConflatedOutput, update: UpdateInTransit) -> None:
        """Drop the slot of an object that is no longer under a subscribed subject."""
        found = self._slots.pop((output, update.topic.name, update.key()), None)
        if found is not None:
            self._uncount(output)
            topic, slot = found
            topic.tally.queued -= slot.count
            topic.tally.conflated += slot.count
            self._queue.tally.conflated += slot.count
            self.waiting_count -= slot.count

    def drain(self, bytes_max: int, now_s: float) -> None:
        """Send slots while fewer than `bytes_max` are queued and work units are left."""
        queue = self._queue
        while self._slots and queue.size < bytes_max and queue.work_left > 0:
            (output, _, key), (topic, slot) = self._slots.popitem(last=False)
            queue.work_left -= 1
            self.waiting_count -= slot.count
            topic.tally.queued -= slot.count
            is_dropped = self._is_left(output, slot) and not self._is_kept(output, topic, slot)
            self._uncount(output)
            if is_dropped:
                topic.tally.expired += slot.count
                queue.tally.expired += slot.count
                continue
            is_readable = topic.is_cached or slot.epoch == topic.epoch
            sent_count = output.catch_up(topic, key, slot, now_s) if is_readable else 0
            topic.tally.conflated += slot.count - sent_count
            self._queue.tally.conflated += slot.count - sent_count

    def expire(self, count: int) -> None:
        """Drop up to `count` slots of a client that disconnected."""
        for _ in range(min(count, len(self._slots))):
            (output, _, _), (topic, slot) = self._slots.popitem(last=False)
            self._uncount(output)
            topic.tally.queued -= slot.count
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
        """Drop the slots of an output that the client left, except for updates still wanted.

        Slots are dropped in their turn. With `is_known`, the client may know an unwanted object by
        another group, under a former subject of the object; then it receives a remove.
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
        """Whether the client left a group since the last update of a slot."""
        leave = self._leaves.get(output)
        return leave is not None and slot.leave_count < leave.leave_count

    def _is_kept(self, output: ConflatedOutput, topic: Topic, slot: ConflationSlot) -> bool:
        """Whether a slot is to be sent although the client left a group."""
        leave, update = self._leaves[output], slot.update
        assert update is not None
        slot.mask = int(topic.plan.mask)
        self._queue.work_left -= _WORK_PER_CHECK
        if leave.is_wanted is not None and leave.is_wanted(update):
            return True
        slot.is_gone = topic.is_cached and slot.leave_count >= leave.unknown_count
        return slot.is_gone

    def _uncount(self, output: ConflatedOutput) -> None:
        """Subtract a removed slot."""
        self._counts[output] -= 1
        if not self._counts[output]:
            del self._counts[output]
            self._leaves.pop(output, None)
