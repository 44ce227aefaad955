"""Telling a client what is there, piece by piece.

A cache may hold more than a connection can take at once, so objects are told in slices, and
everybody else has a turn between two of them. The count down on each object is exact: what changes
meanwhile and was not told yet is told in its new state when its turn comes, and what is removed
meanwhile is told just before its removal.

Compiled, since a client that starts is told everything there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mypy_extensions import i64, mypyc_attr

from skerry.codec.pieces import cut, split
from skerry.engine.cache import Entry
from skerry.engine.lane import Lane
from skerry.engine.topics import Topic, frame_for, replay_header
from skerry.limits import REPLAY_SLICE_BYTES, REPLAY_SORTED_COUNT_MAX, SELECT_SLICE_COUNT

__all__ = ["LaneTeller", "Replay", "Teller"]


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
    """Objects of some topics that a client has still to be told, counted down over all of them."""

    def __init__(
        self,
        teller: Teller,
        wanted: Sequence[tuple[Topic, list[bytes] | None]],
        finish: Callable[[float], None],
    ) -> None:
        """Of each topic the objects with these keys or, where there are none given, all."""
        self._teller: Teller = teller
        self._finish: Callable[[float], None] = finish
        self._parts: list[_Part] = []
        self._by_name: dict[str, _Part] = {}
        self._index: i64 = 0
        self.left: int = 0
        """Objects that are still to be told."""
        self.is_cancelled: bool = False
        for topic, keys in wanted:
            part: _Part = _Shelf(topic) if keys is None else _Listed(topic, keys)
            self._parts.append(part)
            self._by_name[topic.name] = part
            self.left += part.count()

    @property
    def topics(self) -> list[Topic]:
        """Whose objects are told."""
        return [part.topic for part in self._parts]

    def holds(self, topic: Topic, key: bytes, entry: Entry | None) -> bool:
        """Whether an object is still to be told; `entry` is as it is, or was if it is gone."""
        part = self._by_name.get(topic.name)
        return part is not None and part.holds(key, entry)

    def tell_now(self, topic: Topic, key: bytes, entry: Entry, now_s: float) -> None:
        """Tell an object before its turn."""
        self._by_name[topic.name].skip(key, entry)
        self.left -= 1
        self._teller.tell(topic, entry, self.left, now_s)

    def leave_out(self, is_unwanted: Callable[[Topic, Entry], bool]) -> None:
        """Do not tell some of the objects after all."""
        for part in self._parts:
            self.left -= part.leave_out(is_unwanted)

    def step(self, now_s: float) -> bool:
        """Tell the next slice; whether that was the last."""
        if not self.is_cancelled:
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
        self._close()

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
                size += self._teller.tell(part.topic, entry, self.left, now_s)

    def _close(self) -> None:
        for part in self._parts:
            part.close()


class _Part:
    """The objects of one topic in a replay."""

    def __init__(self, topic: Topic) -> None:
        self.topic: Topic = topic

    def count(self) -> int:
        """How many there are to tell at first."""
        raise NotImplementedError

    def holds(self, key: bytes, entry: Entry | None) -> bool:
        """Whether an object is still to be told."""
        raise NotImplementedError

    def skip(self, key: bytes, entry: Entry) -> None:
        """Pass over an object when its turn comes: it is told now."""
        raise NotImplementedError

    def leave_out(self, is_unwanted: Callable[[Topic, Entry], bool]) -> int:
        """Pass over some of those that are still to be told; gives how many these are."""
        raise NotImplementedError

    def is_over(self) -> bool:
        """Whether every object had its turn."""
        raise NotImplementedError

    def advance(self) -> Entry | None:
        """The next in turn; nothing if that is not there, or not to be told."""
        raise NotImplementedError

    def close(self) -> None:
        """Hold on to nothing any more; also of one that is closed."""
        raise NotImplementedError


class _Listed(_Part):
    """Objects that were listed by their keys when the replay began."""

    def __init__(self, topic: Topic, keys: list[bytes]) -> None:
        super().__init__(topic)
        if len(keys) <= REPLAY_SORTED_COUNT_MAX:
            # The order of the keys, as long as putting them in order does not hold others up.
            keys.sort()
        self._keys: list[bytes] = keys
        self._at: i64 = 0
        self._pending: dict[bytes, None] = dict.fromkeys(keys)

    def count(self) -> int:
        return len(self._pending)

    def holds(self, key: bytes, entry: Entry | None) -> bool:
        return key in self._pending

    def skip(self, key: bytes, entry: Entry) -> None:
        del self._pending[key]

    def leave_out(self, is_unwanted: Callable[[Topic, Entry], bool]) -> int:
        pending, objects = self._pending, self.topic.shelf.objects
        unwanted = [key for key in pending if is_unwanted(self.topic, objects[key])]
        for key in unwanted:
            del pending[key]
        return len(unwanted)

    def is_over(self) -> bool:
        return self._at >= len(self._keys)

    def advance(self) -> Entry | None:
        key = self._keys[self._at]
        self._at += 1
        if key not in self._pending:
            return None
        del self._pending[key]
        return self.topic.shelf.objects[key]

    def close(self) -> None:
        self._keys.clear()
        self._pending.clear()


class _Shelf(_Part):
    """All objects of a topic, in the order in which they were made.

    It begins without a look at any of them, so their number does not matter to others.
    """

    def __init__(self, topic: Topic) -> None:
        super().__init__(topic)
        shelf = topic.shelf
        self._at: i64 = 0
        self._stop: i64 = len(shelf.order)
        self._early: set[int] = set()
        """Places of objects that were told before their turn, or are not to be told."""
        self._count: int = len(shelf.objects)
        self._is_reading: bool = True
        shelf.reader_count += 1

    def count(self) -> int:
        return self._count

    def holds(self, key: bytes, entry: Entry | None) -> bool:
        if entry is None or not self._is_reading:
            return False
        # One that was made meanwhile stands behind all of these.
        return self._at <= entry.place < self._stop and int(entry.place) not in self._early

    def skip(self, key: bytes, entry: Entry) -> None:
        self._early.add(int(entry.place))

    def leave_out(self, is_unwanted: Callable[[Topic, Entry], bool]) -> int:
        if not self._is_reading:
            return 0
        count = 0
        for entry in self.topic.shelf.order[self._at : self._stop]:
            if entry is None or int(entry.place) in self._early:
                continue
            if is_unwanted(self.topic, entry):
                self._early.add(int(entry.place))
                count += 1
        return count

    def is_over(self) -> bool:
        return self._at >= self._stop

    def advance(self) -> Entry | None:
        entry = self.topic.shelf.order[self._at]
        self._at += 1
        if entry is None or (self._early and int(entry.place) in self._early):
            return None
        return entry

    def close(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self.topic.shelf.reader_count -= 1
            self._early.clear()
