"""Telling a client what is there, piece by piece.

A cache may hold more than a connection can take at once, so objects are told in slices, and
everybody else has a turn between two of them. The count down on each object is exact: what changes
meanwhile and was not told yet is told in its new state when its turn comes, and what is removed
meanwhile is told just before its removal.

Compiled, since a client that starts is told everything there is.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import i64, mypyc_attr

from skerry.codec.pieces import cut, split
from skerry.engine.cache import Entry
from skerry.engine.lane import Lane
from skerry.engine.topics import Topic, frame_for, replay_header
from skerry.limits import REPLAY_SLICE_BYTES, REPLAY_SORTED_COUNT_MAX, SELECT_SLICE_COUNT

__all__ = ["LaneTeller", "Replay", "ShelfReplay", "Teller"]


@mypyc_attr(allow_interpreted_subclasses=True)
class Teller:
    """Puts cached objects on the lane of a client."""

    def tell(self, topic: Topic, entry: Entry, left: int, now_s: float) -> int:
        """Tell an object, of which so many follow; gives the bytes that took."""
        raise NotImplementedError


class LaneTeller(Teller):
    """Tells objects whole, to a client that knows their type."""

    def __init__(self, lane: Lane, node: int) -> None:
        super().__init__()
        self._lane: Lane = lane
        self._node: i64 = node

    def tell(self, topic: Topic, entry: Entry, left: int, now_s: float) -> int:
        """Tell an object, of which so many follow; gives the bytes that took."""
        lane = self._lane
        header = replay_header(topic, entry, left, now_s, self._node)
        payload = entry.payload
        if lane.known_fields is not None:
            header.attributes &= lane.fields_known(topic.name)
            payload = cut(topic.plan, split(topic.plan, payload, 0), header.attributes)
        frame = frame_for(lane, header, payload, entry.subject)
        topic.tally.due += 1
        lane.tally.due += 1
        lane.deliver(frame, topic.tally)
        return len(frame)


class Replay:
    """Objects of some topics that a client has still to be told."""

    def __init__(
        self,
        teller: Teller,
        wanted: list[tuple[Topic, list[bytes]]],
        finish: Callable[[float], None],
    ) -> None:
        self._teller: Teller = teller
        self._finish: Callable[[float], None] = finish
        self._pending: dict[str, dict[bytes, None]] = {}
        self._wanted: list[tuple[Topic, list[bytes]]] = wanted
        self._topic_index: i64 = 0
        self._key_index: i64 = 0
        self.left: int = 0
        """Objects that are still to be told."""
        self.is_cancelled: bool = False
        for topic, keys in wanted:
            if len(keys) <= REPLAY_SORTED_COUNT_MAX:
                # The order of the keys, as long as putting them in order does not hold others up.
                keys.sort()
            self._pending[topic.name] = dict.fromkeys(keys)
            self.left += len(keys)

    @property
    def topics(self) -> list[Topic]:
        """Whose objects are told."""
        return [topic for topic, _ in self._wanted]

    def holds(self, topic: Topic, key: bytes, entry: Entry | None) -> bool:
        """Whether an object is still to be told; `entry` is as it is, or was if it is gone."""
        pending = self._pending.get(topic.name)
        return pending is not None and key in pending

    def tell_now(self, topic: Topic, key: bytes, entry: Entry, now_s: float) -> None:
        """Tell an object before its turn."""
        del self._pending[topic.name][key]
        self.left -= 1
        self._teller.tell(topic, entry, self.left, now_s)

    def leave_out(self, is_unwanted: Callable[[Topic, Entry], bool]) -> None:
        """Do not tell some of the objects after all."""
        for topic, _ in self._wanted:
            pending, objects = self._pending.get(topic.name, {}), topic.shelf.objects
            for key in [key for key in pending if is_unwanted(topic, objects[key])]:
                del pending[key]
                self.left -= 1

    def step(self, now_s: float) -> bool:
        """Tell the next slice; whether that was the last."""
        if self.is_cancelled:
            # That it is over is told all the same: who counts the answers must not miss one.
            self._finish(now_s)
            return True
        size: i64 = 0
        while self.left and size < REPLAY_SLICE_BYTES:
            topic, keys = self._wanted[self._topic_index]
            if self._key_index >= len(keys):
                self._topic_index += 1
                self._key_index = 0
                continue
            key = keys[self._key_index]
            self._key_index += 1
            pending = self._pending[topic.name]
            if key in pending:
                del pending[key]
                self.left -= 1
                size += self._teller.tell(topic, topic.shelf.objects[key], self.left, now_s)
        if self.left:
            return False
        self._finish(now_s)
        return True

    def cancel(self) -> None:
        """The client does not want it any more."""
        self.is_cancelled = True
        # It may stay on the agenda for a while, behind others.
        self.left = 0
        for _, keys in self._wanted:
            keys.clear()
        self._pending.clear()


class ShelfReplay(Replay):
    """All objects of a topic, in the order in which they were made.

    It begins without a look at any of them, so their number does not matter to others.
    """

    def __init__(self, teller: Teller, topic: Topic, finish: Callable[[float], None]) -> None:
        super().__init__(teller, [(topic, [])], finish)
        self._topic: Topic = topic
        self._at: i64 = 0
        self._stop: i64 = len(topic.shelf.order)
        self._early: set[int] = set()
        """Places of objects that were told before their turn, or are not to be told."""
        self.left = len(topic.shelf.objects)
        self._is_reading: bool = self.left > 0
        if self._is_reading:
            topic.shelf.reader_count += 1

    def holds(self, topic: Topic, key: bytes, entry: Entry | None) -> bool:
        """Whether an object is still to be told; `entry` is as it is, or was if it is gone."""
        if topic is not self._topic or entry is None or not self._is_reading:
            return False
        # One that was made meanwhile stands behind all of these.
        return self._at <= entry.place < self._stop and int(entry.place) not in self._early

    def tell_now(self, topic: Topic, key: bytes, entry: Entry, now_s: float) -> None:
        """Tell an object before its turn."""
        self._early.add(int(entry.place))
        self.left -= 1
        self._teller.tell(topic, entry, self.left, now_s)

    def leave_out(self, is_unwanted: Callable[[Topic, Entry], bool]) -> None:
        """Do not tell some of the objects after all."""
        if not self._is_reading:
            return
        for entry in self._topic.shelf.order[self._at : self._stop]:
            if entry is None or int(entry.place) in self._early:
                continue
            if is_unwanted(self._topic, entry):
                self._early.add(int(entry.place))
                self.left -= 1

    def step(self, now_s: float) -> bool:
        """Tell the next slice; whether that was the last."""
        if not self.is_cancelled:
            self._tell_slice(now_s)
            if self.left:
                return False
            self._end_reading()
        self._finish(now_s)
        return True

    def _tell_slice(self, now_s: float) -> None:
        order = self._topic.shelf.order
        size: i64 = 0
        # Where many are gone, or were told early, there may be few to tell among many places.
        stop = min(self._at + SELECT_SLICE_COUNT, self._stop)
        while self.left and size < REPLAY_SLICE_BYTES and self._at < stop:
            entry = order[self._at]
            self._at += 1
            if entry is None or int(entry.place) in self._early:
                continue
            self.left -= 1
            size += self._teller.tell(self._topic, entry, self.left, now_s)
        assert self._at < self._stop or not self.left, "an object went, and was not told before"

    def cancel(self) -> None:
        """The client does not want it any more."""
        super().cancel()
        self._end_reading()

    def _end_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._topic.shelf.reader_count -= 1
            self._early.clear()
