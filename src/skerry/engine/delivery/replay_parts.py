"""The objects of one topic in a replay: listed by their keys, all of a shelf, or found one by one.

Compiled, since a client that starts is told everything there is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from mypy_extensions import i64, mypyc_attr

from skerry.engine.dispatch.cache import Entry, TypeCache
from skerry.engine.dispatch.topics import Topic
from skerry.limits import REPLAY_SORTED_COUNT_MAX

__all__ = [
    "FoundPart",
    "ListedPart",
    "PickedPart",
    "ReplayChoice",
    "ReplayPart",
    "ReplayWalk",
    "WholePart",
]


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplayChoice:
    """Says of each object of a topic whether it is wanted."""

    def wants(self, entry: Entry) -> bool:
        """Whether it is, as it is now."""
        raise NotImplementedError


class ReplayWalk:
    """A way through the objects of a shelf, in the order in which they were made.

    Until it is closed no place changes, and what is made meanwhile stands behind all of these. It
    begins without a look at any of them, so their number does not matter to others.
    """

    def __init__(self, type_cache: TypeCache) -> None:
        self._type_cache: TypeCache = type_cache
        self._at: i64 = 0
        self._stop: i64 = len(type_cache.order)
        self._is_open: bool = True
        type_cache.reader_count += 1

    @property
    def stop(self) -> int:
        """The place behind the last of them."""
        return int(self._stop)

    def is_over(self) -> bool:
        """Whether all had their turn, or nobody wants them any more."""
        return not self._is_open or self._at >= self._stop

    def advance(self) -> Entry | None:
        """The next in turn; nothing if it is gone."""
        entry = self._type_cache.order[self._at]
        self._at += 1
        return entry

    def is_ahead(self, entry: Entry) -> bool:
        """Whether the turn of an object is still to come, or would be if it were still there."""
        return self._is_open and self._at <= entry.order_index < self._stop

    def ahead(self) -> list[Entry]:
        """All whose turn is still to come."""
        if not self._is_open:
            return []
        order = self._type_cache.order
        return [entry for entry in order[self._at : self._stop] if entry is not None]

    def close(self) -> None:
        """Let places change; also of one that is closed."""
        if self._is_open:
            self._is_open = False
            self._type_cache.reader_count -= 1


class ReplayPart:
    """The objects of one topic in a replay."""

    def __init__(self, topic: Topic) -> None:
        self.topic: Topic = topic

    def count(self) -> int:
        """How many there are to tell, when the telling begins."""
        raise NotImplementedError

    def holds(self, key: bytes, entry: Entry | None) -> bool:
        """Whether an object is still to be told or, if that is not known yet, to be examined."""
        raise NotImplementedError

    def has_found(self, key: bytes, entry: Entry | None) -> bool:
        """Whether an object is known to be one of those that are still to be told."""
        return self.holds(key, entry)

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


class ListedPart(ReplayPart):
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
        pending, objects = self._pending, self.topic.type_cache.objects
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
        return self.topic.type_cache.objects[key]

    def close(self) -> None:
        self._keys.clear()
        self._pending.clear()


class FoundPart(ReplayPart):
    """Objects that were found one by one before the replay, in the order in which they were found.

    Nothing is sorted or copied, whatever their number.
    """

    def __init__(self, topic: Topic, keys: OrderedDict[bytes, None]) -> None:
        super().__init__(topic)
        self._pending: OrderedDict[bytes, None] = keys

    def count(self) -> int:
        return len(self._pending)

    def holds(self, key: bytes, entry: Entry | None) -> bool:
        return key in self._pending

    def skip(self, key: bytes, entry: Entry) -> None:
        del self._pending[key]

    def leave_out(self, is_unwanted: Callable[[Topic, Entry], bool]) -> int:
        pending, objects = self._pending, self.topic.type_cache.objects
        unwanted = [key for key in pending if is_unwanted(self.topic, objects[key])]
        for key in unwanted:
            del pending[key]
        return len(unwanted)

    def is_over(self) -> bool:
        return not self._pending

    def advance(self) -> Entry | None:
        key, _ = self._pending.popitem(last=False)
        return self.topic.type_cache.objects[key]

    def close(self) -> None:
        self._pending = OrderedDict()


class WholePart(ReplayPart):
    """All objects of a topic, in the order in which they were made."""

    def __init__(self, topic: Topic) -> None:
        super().__init__(topic)
        self._walk: ReplayWalk = ReplayWalk(topic.type_cache)
        self._early: set[int] = set()
        """Places of objects that were told before their turn, or are not to be told."""
        self._count: int = len(topic.type_cache.objects)

    def count(self) -> int:
        return self._count - len(self._early)

    def holds(self, key: bytes, entry: Entry | None) -> bool:
        if entry is None or not self._walk.is_ahead(entry):
            return False
        return not self._early or int(entry.order_index) not in self._early

    def skip(self, key: bytes, entry: Entry) -> None:
        self._early.add(int(entry.order_index))

    def leave_out(self, is_unwanted: Callable[[Topic, Entry], bool]) -> int:
        unwanted = [
            int(entry.order_index)
            for entry in self._walk.ahead()
            if int(entry.order_index) not in self._early and is_unwanted(self.topic, entry)
        ]
        self._early.update(unwanted)
        return len(unwanted)

    def is_over(self) -> bool:
        return self._walk.is_over()

    def advance(self) -> Entry | None:
        entry = self._walk.advance()
        if entry is None or (self._early and int(entry.order_index) in self._early):
            return None
        return entry

    def close(self) -> None:
        self._walk.close()
        self._early.clear()


class PickedPart(ReplayPart):
    """The objects of a topic that a choice wants, which are found before the first is told.

    Until then each that was not examined yet counts as one of them for who hears of its changes:
    it is either examined later, as it is then, or told at once.
    """

    def __init__(self, topic: Topic, choice: ReplayChoice) -> None:
        super().__init__(topic)
        self._choice: ReplayChoice = choice
        self._walk: ReplayWalk = ReplayWalk(topic.type_cache)
        self._settled: set[int] = set()
        """Places of objects that were told before they were examined."""
        self._unwanted: list[Callable[[Topic, Entry], bool]] = []
        """By which objects were left out, and those that are still to be examined are."""
        self._found: list[int] = []
        """Places of the wanted ones."""
        self._at: i64 = 0
        self._pending: set[int] = set()

    def examine(self, count: i64) -> int:
        """Look at so many objects at most; gives at how many."""
        walk, left = self._walk, count
        while left > 0 and not walk.is_over():
            left -= 1
            entry = walk.advance()
            if entry is None or (self._settled and int(entry.order_index) in self._settled):
                continue
            if self._choice.wants(entry) and not self._is_left_out(entry):
                self._found.append(int(entry.order_index))
                self._pending.add(int(entry.order_index))
        return int(count - left)

    def is_examined(self) -> bool:
        """Whether all objects were looked at."""
        return self._walk.is_over()

    def count(self) -> int:
        return len(self._pending)

    def holds(self, key: bytes, entry: Entry | None) -> bool:
        if entry is None:
            return False
        order_index = int(entry.order_index)
        if self._walk.is_ahead(entry):
            return order_index not in self._settled
        return order_index in self._pending

    def has_found(self, key: bytes, entry: Entry | None) -> bool:
        return entry is not None and int(entry.order_index) in self._pending

    def skip(self, key: bytes, entry: Entry) -> None:
        if self._walk.is_ahead(entry):
            self._settled.add(int(entry.order_index))
        else:
            self._pending.discard(int(entry.order_index))

    def leave_out(self, is_unwanted: Callable[[Topic, Entry], bool]) -> int:
        if not self._walk.is_over():
            self._unwanted.append(is_unwanted)
        order = self.topic.type_cache.order
        unwanted: list[int] = []
        for order_index in self._pending:
            entry = order[order_index]
            assert entry is not None, "an object went, and was not told before"
            if is_unwanted(self.topic, entry):
                unwanted.append(order_index)
        self._pending.difference_update(unwanted)
        return len(unwanted)

    def is_over(self) -> bool:
        return self._at >= len(self._found)

    def advance(self) -> Entry | None:
        order_index = self._found[self._at]
        self._at += 1
        if order_index not in self._pending:
            return None
        self._pending.discard(order_index)
        return self.topic.type_cache.order[order_index]

    def close(self) -> None:
        self._walk.close()
        self._found.clear()
        self._pending.clear()
        self._settled.clear()

    def _is_left_out(self, entry: Entry) -> bool:
        return any(is_unwanted(self.topic, entry) for is_unwanted in self._unwanted)
