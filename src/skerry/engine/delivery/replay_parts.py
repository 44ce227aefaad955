"""The objects of one topic in a cache replay: listed by their keys, all, or found one by one.

The module is compiled, since each client that starts receives all cached objects of its groups.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from mypy_extensions import i64, mypyc_attr

from skerry.engine.dispatch.cache import Entry, TypeCache
from skerry.engine.dispatch.topics import Topic
from skerry.limits import REPLAY_SORTED_COUNT_MAX


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplayChoice:
    """Chooses among the objects of a topic."""

    def wants(self, entry: Entry) -> bool:
        """Whether an object is chosen in its current state."""
        raise NotImplementedError


class ReplayWalk:
    """An iteration over the objects of a type in the order of their creation, while they change.

    Until it is closed, the indexes of the objects do not change, and new objects get indexes behind
    the end of the iteration. Starting it takes the same time for any number of objects.
    """

    def __init__(self, type_cache: TypeCache) -> None:
        self._type_cache: TypeCache = type_cache
        self._at: i64 = 0
        self._stop: i64 = len(type_cache.order)
        self._is_open: bool = True
        type_cache.reader_count += 1

    @property
    def stop(self) -> int:
        """The index behind the last object."""
        return int(self._stop)

    def is_over(self) -> bool:
        """Whether all objects were returned, or the iteration is closed."""
        return not self._is_open or self._at >= self._stop

    def advance(self) -> Entry | None:
        """Return the next object; None if that was removed."""
        entry = self._type_cache.order[self._at]
        self._at += 1
        return entry

    def is_ahead(self, entry: Entry) -> bool:
        """Whether an object is still to be returned, or would be if it were not removed."""
        return self._is_open and self._at <= entry.order_index < self._stop

    def ahead(self) -> Iterator[Entry]:
        """All objects that are still to be returned, as long as the iteration does not continue."""
        at = self._at
        while self._is_open and at < self._stop:
            entry = self._type_cache.order[at]
            at += 1
            if entry is not None:
                yield entry

    def close(self) -> None:
        """End the iteration; may be called again."""
        if self._is_open:
            self._is_open = False
            self._type_cache.reader_count -= 1


class ReplayPart:
    """The objects of one topic in a cache replay."""

    def __init__(self, topic: Topic) -> None:
        self.topic: Topic = topic

    def count(self) -> int:
        """The number of objects to send, when the sending begins."""
        raise NotImplementedError

    def holds(self, key: bytes, entry: Entry | None) -> bool:
        """Whether an object is still to be sent or, if that is not known yet, to be examined."""
        raise NotImplementedError

    def has_found(self, key: bytes, entry: Entry | None) -> bool:
        """Whether an object is known to be one of those that are still to be sent."""
        return self.holds(key, entry)

    def skip(self, key: bytes, entry: Entry) -> None:
        """Skip an object when its turn comes, since it is sent now."""
        raise NotImplementedError

    def excluding(self, is_unwanted: Callable[[Topic, Entry], bool]) -> Iterator[bool]:
        """Skip unwanted objects, step by step; yields whether each unsent object was unwanted.

        Objects may change, be sent early or be skipped between two steps.
        """
        raise NotImplementedError

    def is_over(self) -> bool:
        """Whether all objects were returned."""
        raise NotImplementedError

    def advance(self) -> Entry | None:
        """Return the next object; None if it was removed or is to be skipped."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the objects; may be called again."""
        raise NotImplementedError


class _KeyedPart(ReplayPart):
    """Objects whose keys are known."""

    def __init__(self, topic: Topic, pending: dict[bytes, None]) -> None:
        super().__init__(topic)
        self._pending: dict[bytes, None] = pending

    def count(self) -> int:
        return len(self._pending)

    def holds(self, key: bytes, entry: Entry | None) -> bool:
        return key in self._pending

    def skip(self, key: bytes, entry: Entry) -> None:
        del self._pending[key]

    def _exclude(self, key: bytes, is_unwanted: Callable[[Topic, Entry], bool]) -> bool:
        if not is_unwanted(self.topic, self.topic.type_cache.objects[key]):
            return False
        del self._pending[key]
        return True


class ListedPart(_KeyedPart):
    """Objects that were listed by their keys when the replay began."""

    def __init__(self, topic: Topic, keys: list[bytes]) -> None:
        super().__init__(topic, dict.fromkeys(keys))
        if len(keys) <= REPLAY_SORTED_COUNT_MAX:
            # Sorted, unless sorting takes so long that it delays other clients.
            keys.sort()
        self._keys: list[bytes] = keys
        self._at: i64 = 0

    def is_over(self) -> bool:
        return self._at >= len(self._keys)

    def advance(self) -> Entry | None:
        key = self._keys[self._at]
        self._at += 1
        if key not in self._pending:
            return None
        del self._pending[key]
        return self.topic.type_cache.objects[key]

    def excluding(self, is_unwanted: Callable[[Topic, Entry], bool]) -> Iterator[bool]:
        at = self._at
        while at < len(self._keys):
            key = self._keys[at]
            at += 1
            yield key in self._pending and self._exclude(key, is_unwanted)

    def close(self) -> None:
        self._keys.clear()
        self._pending.clear()


class FoundPart(_KeyedPart):
    """Objects that were found one by one before the replay, in the order in which they were found.

    Nothing is sorted or copied, whatever their number.
    """

    def __init__(self, topic: Topic, keys: OrderedDict[bytes, None]) -> None:
        super().__init__(topic, keys)
        self._keys: OrderedDict[bytes, None] = keys

    def is_over(self) -> bool:
        return not self._keys

    def advance(self) -> Entry | None:
        key, _ = self._keys.popitem(last=False)
        return self.topic.type_cache.objects[key]

    def excluding(self, is_unwanted: Callable[[Topic, Entry], bool]) -> Iterator[bool]:
        # The keys are rotated once, since they may change between two steps.
        for _ in range(len(self._keys)):
            if not self._keys:
                break
            key = next(iter(self._keys))
            is_excluded = self._exclude(key, is_unwanted)
            if not is_excluded:
                self._keys.move_to_end(key)
            yield is_excluded

    def close(self) -> None:
        self._pending = self._keys = OrderedDict()


class WholePart(ReplayPart):
    """All objects of a topic, in the order of their creation."""

    def __init__(self, topic: Topic) -> None:
        super().__init__(topic)
        self._walk: ReplayWalk = ReplayWalk(topic.type_cache)
        self._early: set[int] = set()
        """Indexes of objects that were sent before their turn, or are not to be sent."""
        self._count: int = len(topic.type_cache.objects)

    def count(self) -> int:
        return self._count - len(self._early)

    def holds(self, key: bytes, entry: Entry | None) -> bool:
        if entry is None or not self._walk.is_ahead(entry):
            return False
        return not self._early or int(entry.order_index) not in self._early

    def skip(self, key: bytes, entry: Entry) -> None:
        self._early.add(int(entry.order_index))

    def excluding(self, is_unwanted: Callable[[Topic, Entry], bool]) -> Iterator[bool]:
        for entry in self._walk.ahead():
            index = int(entry.order_index)
            is_excluded = index not in self._early and is_unwanted(self.topic, entry)
            if is_excluded:
                self._early.add(index)
            yield is_excluded

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
    """The objects of a topic that a choice wants, which are found before the first is sent.

    Until then, `holds` is also true for objects that are not examined yet: such an object is
    examined later in its new state, or delivered at once with its update.
    """

    def __init__(self, topic: Topic, choice: ReplayChoice) -> None:
        super().__init__(topic)
        self._choice: ReplayChoice = choice
        self._walk: ReplayWalk = ReplayWalk(topic.type_cache)
        self._settled: set[int] = set()
        """Indexes of objects that were delivered before they were examined."""
        self._unwanted: list[Callable[[Topic, Entry], bool]] = []
        """The conditions of `excluding`, for objects that are still to be examined."""
        self._found: list[int] = []
        """Indexes of the wanted objects."""
        self._at: i64 = 0
        self._pending: set[int] = set()

    def examine(self, count: i64) -> int:
        """Examine at most `count` objects; returns how many were examined."""
        walk, left = self._walk, count
        while left > 0 and not walk.is_over():
            left -= 1
            entry = walk.advance()
            if entry is None or (self._settled and int(entry.order_index) in self._settled):
                continue
            if self._choice.wants(entry) and not self._is_excluded(entry):
                self._found.append(int(entry.order_index))
                self._pending.add(int(entry.order_index))
        return int(count - left)

    def is_examined(self) -> bool:
        """Whether all objects were examined."""
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

    def excluding(self, is_unwanted: Callable[[Topic, Entry], bool]) -> Iterator[bool]:
        if not self._walk.is_over():
            self._unwanted.append(is_unwanted)
        at = self._at
        while at < len(self._found):
            index = self._found[at]
            at += 1
            is_excluded = False
            if index in self._pending:
                entry = self.topic.type_cache.order[index]
                assert entry is not None, "an object was removed before it was sent"
                is_excluded = is_unwanted(self.topic, entry)
                if is_excluded:
                    self._pending.discard(index)
            yield is_excluded

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

    def _is_excluded(self, entry: Entry) -> bool:
        return any(is_unwanted(self.topic, entry) for is_unwanted in self._unwanted)
