"""Telling a client what is there, piece by piece.

A cache may hold more than a connection can take at once, so objects are told in slices, and
everybody else has a turn between two of them. The count down on each object is exact: what changes
meanwhile and was not told yet is told in its new state when its turn comes, and what is removed
meanwhile is told just before its removal.

Where it is not known which objects are to be told, they are all examined first, in slices too. As
nothing is counted yet then, an object that cannot wait is told whole with what happened to it.

Compiled, since a client that starts is told everything there is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
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
from skerry.limits import DESCRIBE_LOOK_COUNT, REPLAY_SLICE_BYTES, SELECT_SLICE_COUNT

__all__ = ["CacheReplay", "QueueReplayOutput", "ReplayOutput", "Wanted"]

_DESCRIBE_BYTES: Final = REPLAY_SLICE_BYTES * DESCRIBE_LOOK_COUNT // SELECT_SLICE_COUNT
"""Bytes of objects that can be sent in the time that describing a type takes."""

Wanted = tuple[Topic, list[bytes] | OrderedDict[bytes, None] | ReplayChoice | None]
"""Objects of a topic: by their keys, which are put in order or not, by a choice among them, or all
there are."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplayOutput:
    """Puts cached objects on the lane of a client."""

    def __init__(self, queue: ClientQueue) -> None:
        self.queue: ClientQueue = queue

    def announce(self, topic: Topic, now_s: float) -> None:
        """Describe the type of objects that were found, and are told from now on."""
        raise NotImplementedError

    def tell(self, topic: Topic, entry: Entry, left: int, now_s: float) -> int:
        """Tell an object, of which so many follow; gives the bytes that took."""
        raise NotImplementedError


class QueueReplayOutput(ReplayOutput):
    """Tells objects whole, to a client that knows their type."""

    def __init__(self, client: Client, node: int) -> None:
        super().__init__(client.queue)
        self._client: Client = client
        self._node: i64 = node
        self._announced: Topic | None = None
        """The topic whose type was described last."""

    def announce(self, topic: Topic, now_s: float) -> None:
        """Describe the type of objects that were found, and are told from now on."""
        self._client.connection.describe(topic.type, now_s)

    def tell(self, topic: Topic, entry: Entry, left: int, now_s: float) -> int:
        """Send an object, after which `left` follow; returns its size in bytes, plus the cost of a
        description in bytes."""
        queue = self.queue
        cost = 0
        if topic is not self._announced:
            self._announced = topic
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
    """Objects of some topics that a client has still to be told, counted down over all of them."""

    def __init__(
        self, replay_output: ReplayOutput, wanted: Sequence[Wanted], finish: Callable[[float], None]
    ) -> None:
        self._output: ReplayOutput = replay_output
        self._finish: Callable[[float], None] = finish
        self._parts: list[ReplayPart] = []
        self._by_name: dict[str, ReplayPart] = {}
        self._unexamined: list[PickedPart] = []
        self._index: i64 = 0
        self.left: int = 0
        """Objects that are still to be told; not known as long as some are to be examined."""
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
        """Whose objects are told."""
        return [part.topic for part in self._parts]

    @property
    def is_empty(self) -> bool:
        """Whether it is known that there is nothing to be told."""
        return self.left == 0 and not self._unexamined

    def tells_of(self, topic: Topic) -> bool:
        """Whether objects of this topic are told, as far as there are any."""
        return topic.name in self._by_name

    def holds(self, topic: Topic, key: bytes, entry: Entry | None) -> bool:
        """Whether an object is still to be told, or to be examined whether it is.

        `entry` is as it is, or was if it is gone.
        """
        part = self._by_name.get(topic.name)
        return part is not None and part.holds(key, entry)

    def has_found(self, topic: Topic, key: bytes, entry: Entry | None) -> bool:
        """Whether an object is known to be one of those that are still to be told."""
        part = self._by_name.get(topic.name)
        return part is not None and part.has_found(key, entry)

    def tell_now(self, topic: Topic, key: bytes, entry: Entry, now_s: float) -> bool:
        """Tell an object before its turn, if it is known how many there are; whether it was told.

        Where it was not, it is none of those any more: who hears of the object hears it whole.
        """
        self._by_name[topic.name].skip(key, entry)
        if self._unexamined:
            return False
        self.left -= 1
        self._output.tell(topic, entry, self.left, now_s)
        return True

    def leave_out(self, is_unwanted: Callable[[Topic, Entry], bool]) -> None:
        """Do not tell some of the objects after all."""
        for part in self._parts:
            count = part.leave_out(is_unwanted)
            if not self._unexamined:
                self.left -= count

    def step(self, now_s: float) -> bool:
        """Examine or tell the next slice; whether that was the last."""
        if not self.is_cancelled:
            if not self._examine_slice(now_s):
                return False
            self._tell_slice(now_s)
            if self.left:
                return False
            self._close()
        # Of what was cancelled, too: who counts the answers must not miss one.
        self._finish(now_s)
        return True

    def cancel(self) -> None:
        """The client does not want it any more."""
        self.is_cancelled = True
        # It may stay on the agenda for a while, behind others.
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

    def _count(self) -> None:
        for part in self._parts:
            self.left += part.count()

    def _examine_slice(self, now_s: float) -> bool:
        """Find out what is to be told; whether that is known now."""
        if not self._unexamined:
            return True
        queue = self._output.queue
        while self._unexamined:
            part = self._unexamined[-1]
            queue.work_left -= part.examine(queue.work_left)
            if not part.is_examined():
                return False
            if part.count():
                self._output.announce(part.topic, now_s)
            self._unexamined.pop()
        self._count()
        return True

    def _tell_slice(self, now_s: float) -> None:
        size: i64 = 0
        # Where many are gone, or were told early, there may be few to tell among many places.
        looks: i64 = SELECT_SLICE_COUNT
        while self.left and size < REPLAY_SLICE_BYTES and looks > 0:
            assert self._index < len(self._parts), "an object went, and was not told before"
            part = self._parts[self._index]
            looks -= 1
            if part.is_over():
                part.close()
                self._index += 1
                continue
            entry = part.advance()
            if entry is not None:
                self.left -= 1
                size += self._output.tell(part.topic, entry, self.left, now_s)

    def _close(self) -> None:
        for part in self._parts:
            part.close()
