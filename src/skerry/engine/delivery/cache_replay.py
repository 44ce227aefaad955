"""Cache replay: sends the cached objects to a client that has joined, in slices.

A cache may hold more than a connection can take at once, so objects are sent in slices, and other
clients have a turn between two of them. The count of objects that follow is exact. An object that
changes before it was sent is sent in its new state when its turn comes, and an object that is
removed before is sent just before its removal.

Where it is not known which objects are to be sent, all objects are examined first, in slices too.
Nothing is counted yet then, so an object that cannot wait is delivered whole with its update.

The module is compiled, since each client that starts receives all cached objects of its groups.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from mypy_extensions import i64, mypyc_attr

from skerry.engine.clients import Client
from skerry.engine.delivery.replay_parts import (
    FoundPart,
    ListedPart,
    PickedPart,
    ReplayChoice,
    ReplayPart,
    WholePart,
)
from skerry.engine.dispatch.cache import Entry
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.engine.dispatch.topics import Topic, frame_for, replay_header
from skerry.limits import DESCRIBE_WORK, REPLAY_SLICE_BYTES, SELECT_SLICE_COUNT

_EXCLUSION_STEP_COUNT: Final = 100
"""Unsent objects that are examined in one step when some are excluded."""
_DESCRIBE_BYTES: Final = REPLAY_SLICE_BYTES * DESCRIBE_WORK // SELECT_SLICE_COUNT
"""Bytes of objects that can be sent in the time that describing a type takes."""

Wanted = tuple[Topic, list[bytes] | OrderedDict[bytes, None] | ReplayChoice | None]
"""Objects of a topic: a list of keys (which is sorted) or an ordered dict of keys (which is not),
the objects that a choice wants, or None for all objects."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplayOutput:
    """Adds cached objects to the queue of a client."""

    def __init__(self, queue: ClientQueue) -> None:
        self.queue: ClientQueue = queue

    def describe(self, topic: Topic, now_s: float) -> None:
        """Describe the type of objects that were found by examination and are sent next."""
        raise NotImplementedError

    def send(self, topic: Topic, entry: Entry, left: int, now_s: float) -> int:
        """Send an object, after which `left` follow; returns its cost in bytes."""
        raise NotImplementedError


class QueueReplayOutput(ReplayOutput):
    """Sends whole objects, for a member of a group."""

    def __init__(self, client: Client, node: int) -> None:
        super().__init__(client.queue)
        self._client: Client = client
        self._node: i64 = node
        self._described: Topic | None = None
        """The topic whose type was described last."""

    def describe(self, topic: Topic, now_s: float) -> None:
        """Describe the type of objects that were found by examination and are sent next."""
        self._client.connection.describe(topic.type, now_s)

    def send(self, topic: Topic, entry: Entry, left: int, now_s: float) -> int:
        """Send an object, after which `left` follow; returns its size in bytes, plus the cost of a
        description in bytes."""
        queue = self.queue
        cost = 0
        if topic is not self._described:
            self._described = topic
            if not self._client.connection.is_described(topic.type):
                self._client.connection.describe(topic.type, now_s)
                cost = _DESCRIBE_BYTES
        header = replay_header(topic, entry, left, now_s, self._node)
        topic.tally.due += 1
        queue.tally.due += 1
        payload = self._client.projected(topic, header, entry.payload)
        if payload is None:
            topic.tally.refused += 1
            queue.tally.refused += 1
            return cost
        frame = frame_for(queue, header, payload, entry.subject)
        queue.deliver(frame, topic.tally)
        return len(frame) + cost


class CacheReplay:
    """The cached objects of some topics that are still to be sent to a client."""

    def __init__(
        self, output: ReplayOutput, wanted: Sequence[Wanted], finish: Callable[[float], None]
    ) -> None:
        """`finish` is called with the wall time after the last object, or after a cancellation."""
        self._output: ReplayOutput = output
        self._finish: Callable[[float], None] = finish
        self._parts: list[ReplayPart] = []
        self._by_name: dict[str, ReplayPart] = {}
        self._unexamined: list[PickedPart] = []
        self._index: i64 = 0
        self.left: int = 0
        """Objects that are still to be sent; not known while objects are to be examined."""
        self.is_cancelled: bool = False
        for topic, which in wanted:
            part = self._make_part(topic, which)
            self._parts.append(part)
            self._by_name[topic.name] = part
        self._unexamined.reverse()
        if not self._unexamined:
            self._count()

    @property
    def topics(self) -> list[Topic]:
        """The topics whose objects are sent."""
        return [part.topic for part in self._parts]

    @property
    def is_empty(self) -> bool:
        """Whether it is known that no object is to be sent."""
        return self.left == 0 and not self._unexamined

    def includes(self, topic: Topic) -> bool:
        return topic.name in self._by_name

    def holds(self, topic: Topic, key: bytes, entry: Entry | None) -> bool:
        """Whether an object is still to be sent or to be examined.

        `entry` is the current state of the object, or its last one if it is removed.
        """
        part = self._by_name.get(topic.name)
        return part is not None and part.holds(key, entry)

    def has_found(self, topic: Topic, key: bytes, entry: Entry | None) -> bool:
        """Whether an object is known to be one of those that are still to be sent."""
        part = self._by_name.get(topic.name)
        return part is not None and part.has_found(key, entry)

    def send_now(self, topic: Topic, key: bytes, entry: Entry, now_s: float) -> bool:
        """Send an object before its turn, if the number of objects is known.

        Returns whether it was sent. If not, the object is not part of the replay any more, and its
        update has to be delivered with the whole object.
        """
        self._by_name[topic.name].skip(key, entry)
        if self._unexamined:
            return False
        self.left -= 1
        self._output.send(topic, entry, self.left, now_s)
        return True

    def excluding(self, is_unwanted: Callable[[Topic, Entry], bool]) -> Iterator[int]:
        """Do not send the objects for which `is_unwanted` returns true.

        It examines the unsent objects step by step, and yields the work units of each step. The
        caller does not call `step` in the meantime, and drops unwanted objects that change.
        """
        count = 0
        for part in self._parts[self._index :]:
            for is_excluded in part.excluding(is_unwanted):
                if is_excluded and not self._unexamined:
                    self.left -= 1
                count += 1
                if count == _EXCLUSION_STEP_COUNT:
                    yield count
                    count = 0
        yield 1 + count

    def drop(self, topic: Topic, key: bytes, entry: Entry) -> None:
        """Do not send an object that `holds` returned true for."""
        part = self._by_name[topic.name]
        is_counted = not self._unexamined and part.has_found(key, entry)
        part.skip(key, entry)
        if is_counted:
            self.left -= 1

    def drop_topic(self, topic: Topic) -> None:
        """Do not send any more objects of a topic."""
        part = self._by_name.pop(topic.name, None)
        if part is None or self.is_cancelled:
            return
        index = self._parts.index(part)
        is_counted = not self._unexamined
        if is_counted:
            self.left -= self._left_in(index)
        part.close()
        self._parts[index] = ListedPart(topic, [])
        if not is_counted and isinstance(part, PickedPart) and part in self._unexamined:
            self._unexamined.remove(part)
            if not self._unexamined:
                self._count()

    def step(self, now_s: float) -> bool:
        """Examine or send the next slice; returns whether that was the last."""
        if not self.is_cancelled:
            if not self._examine_slice(now_s):
                return False
            self._send_slice(now_s)
            if self.left:
                return False
            self._close()
        # Also after a cancellation, since the client counts the answers to its joins.
        self._finish(now_s)
        return True

    def cancel(self) -> None:
        """Send no more objects."""
        self.is_cancelled = True
        # It may stay on the agenda for a while, behind other tasks.
        self.left = 0
        self._unexamined.clear()
        self._close()

    def _make_part(
        self, topic: Topic, which: list[bytes] | OrderedDict[bytes, None] | ReplayChoice | None
    ) -> ReplayPart:
        if which is None:
            return WholePart(topic)
        if isinstance(which, ReplayChoice):
            picked = PickedPart(topic, which)
            self._unexamined.append(picked)
            return picked
        if isinstance(which, OrderedDict):
            return FoundPart(topic, which)
        return ListedPart(topic, which)

    def _left_in(self, index: i64) -> int:
        """The unsent objects of a part, once they are counted."""
        if index < self._index:
            return 0
        if index > self._index:
            return self._parts[index].count()
        return self.left - sum([part.count() for part in self._parts[index + 1 :]])

    def _count(self) -> None:
        for part in self._parts:
            self.left += part.count()

    def _examine_slice(self, now_s: float) -> bool:
        """Examine a slice of the objects; returns whether all are examined."""
        if not self._unexamined:
            return True
        queue = self._output.queue
        while self._unexamined:
            part = self._unexamined[-1]
            queue.work_left -= part.examine(queue.work_left)
            if not part.is_examined():
                return False
            if part.count():
                self._output.describe(part.topic, now_s)
            self._unexamined.pop()
        self._count()
        return True

    def _send_slice(self, now_s: float) -> None:
        size: i64 = 0
        # Where many objects are removed or were sent early, few are left among many indexes.
        work_left: i64 = SELECT_SLICE_COUNT
        while self.left and size < REPLAY_SLICE_BYTES and work_left > 0:
            assert self._index < len(self._parts), "an object was removed before it was sent"
            part = self._parts[self._index]
            work_left -= 1
            if part.is_over():
                part.close()
                self._index += 1
                continue
            entry = part.advance()
            if entry is not None:
                self.left -= 1
                size += self._output.send(part.topic, entry, self.left, now_s)

    def _close(self) -> None:
        for part in self._parts:
            part.close()
