"""Bulk removal: of the objects of a type that is cleared, or of a client that disconnected.

A node may hold millions of objects, and each removal is sent to all subscribers. So objects are
removed in slices, and other clients have a turn between two slices. Subscribers cannot notice it:
an update of an object that is still to be removed is processed after its removal.

No list of the objects to remove is needed, whatever their number: a clear removes all objects that
were cached when it began, and the cache indexes the objects that a client changed last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from skerry.codec.pieces import canonical_key, split
from skerry.engine.delivery.replay_parts import ReplayWalk
from skerry.engine.dispatch.cache import Entry
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.topics import OngoingRemoval, Topic
from skerry.limits import REPLAY_SORTED_COUNT_MAX
from skerry.objects.times import seconds_of_ns

BULK_REMOVAL_SLICE_COUNT: Final = 500
"""Objects of a cleared type that are removed in one slice, before other clients have their turn:
some milliseconds."""

_NO_KEY: Final = b""
"""Marks a step of an iteration that found no object."""
_SORTED_PER_STEP: Final = 50
"""Keys that take as long to list and to sort as one object takes to remove."""


class BulkRemovals:
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._in_progress: dict[str, _TopicRemoval] = {}
        self._work_left = BULK_REMOVAL_SLICE_COUNT
        """Objects that may still be examined before other clients have their turn."""

    def __bool__(self) -> bool:
        return bool(self._in_progress)

    def begin_turn(self) -> None:
        """Start another turn, after other clients had theirs."""
        self._work_left = BULK_REMOVAL_SLICE_COUNT

    def clear(
        self, topic: Topic, hidden: frozenset[bytes], wall_ns: int, finish: Callable[[], None]
    ) -> None:
        """Remove all objects that a topic has now, except for those with hidden keys.

        `finish` is called when none of them is left.
        """
        self._removal_of(topic).clear(hidden, finish)
        self._run(wall_ns)

    def clean_up(self, topic: Topic, writer: int, wall_ns: int) -> None:
        """Remove the objects of a topic that a disconnected client changed last."""
        written = topic.type_cache.take_written(writer)
        if written:
            self._removal_of(topic).clean_up(writer, written)
            self._run(wall_ns)

    def advance(self, wall_ns: int) -> None:
        """Remove a slice."""
        self.begin_turn()
        self._run(wall_ns)

    def complete(self, wall_ns: int) -> None:
        """Remove all that is left."""
        while self._in_progress:
            self.advance(wall_ns)

    def _removal_of(self, topic: Topic) -> _TopicRemoval:
        removal = self._in_progress.get(topic.name)
        if removal is None:
            removal = topic.bulk_removal = self._in_progress[topic.name] = _TopicRemoval(
                self._dispatcher, topic
            )
            topic.gate.shut()
        return removal

    def _run(self, wall_ns: int) -> None:
        """Remove objects of one topic after the other, as many as this turn has left."""
        while self._work_left > 0 and self._in_progress:
            name = next(iter(self._in_progress))
            removal = self._in_progress.pop(name)
            removal.wall_ns = wall_ns
            self._work_left -= removal.step(self._work_left)
            if not removal.is_over:
                self._in_progress[name] = removal
                continue
            removal.topic.bulk_removal = None
            for finish in removal.finishes:
                finish()


class _TopicRemoval(OngoingRemoval):
    """The objects of one topic that are still to be removed."""

    def __init__(self, dispatcher: Dispatcher, topic: Topic) -> None:
        super().__init__()
        self.topic = topic
        self.wall_ns = 0
        self.finishes: list[Callable[[], None]] = []
        self._dispatcher = dispatcher
        self._writers: set[int] = set()
        """Disconnected clients that still have objects to remove."""
        self._cleared: list[tuple[int, frozenset[bytes]]] = []
        """For each clear, the index before which objects are removed, and the keys that stay."""
        self._removing = b""
        """The key of the object that is being removed."""
        self._walks: deque[tuple[Iterator[bytes], Callable[[], None]]] = deque()
        """Iterators over the keys of all these, each with the function to call at its end."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be removed."""
        return not self._walks

    def clear(self, hidden: frozenset[bytes], finish: Callable[[], None]) -> None:
        """Remove all objects that are cached now, except for hidden ones."""
        walk = ReplayWalk(self.topic.type_cache)
        cleared = (walk.stop, hidden)
        # A clear that hides no other objects includes the earlier ones.
        self._cleared = [other for other in self._cleared if not hidden <= other[1]] + [cleared]

        def end() -> None:
            walk.close()
            self._cleared = [other for other in self._cleared if other is not cleared]

        self._walks.append((self._present_keys(walk), end))
        self.finishes.append(finish)

    def clean_up(self, writer: int, keys: dict[bytes, None]) -> None:
        """Remove objects that a client changed last."""
        self._writers.add(writer)
        self._walks.append((iter(keys), lambda: self._writers.discard(writer)))

    def settle(self, key: bytes) -> None:
        """Remove an object before it is updated, if it is among those to be removed."""
        entry = self.topic.type_cache.objects.get(key)
        if entry is None or key == self._removing or not self._is_removed(key, entry):
            return
        self._removing = key
        self._dispatcher.remove(self.topic, entry, seconds_of_ns(self.wall_ns), self.wall_ns)
        self._removing = b""

    def step(self, count_max: int) -> int:
        """Remove objects, examining at most `count_max`; returns how many were examined."""
        examined = 0
        while self._walks and examined < count_max:
            keys, end = self._walks[0]
            examined += 1
            key = next(keys, None)
            if key is None:
                self._walks.popleft()
                end()
            elif key != _NO_KEY:
                self.settle(key)
        return examined

    def _is_removed(self, key: bytes, entry: Entry) -> bool:
        if int(entry.modified_from) in self._writers:
            return True
        order_index = int(entry.order_index)
        return any(order_index < stop and key not in hidden for stop, hidden in self._cleared)

    def _present_keys(self, walk: ReplayWalk) -> Iterator[bytes]:
        """The keys of all objects, sorted if they are few."""
        type_cache = self.topic.type_cache
        if len(type_cache.objects) <= REPLAY_SORTED_COUNT_MAX:
            keys = sorted(type_cache.objects)
            yield from (_NO_KEY for _ in range(0, len(keys), _SORTED_PER_STEP))
            yield from keys
            return
        while not walk.is_over():
            entry = walk.advance()
            if entry is None:
                yield _NO_KEY
            else:
                plan = self.topic.plan
                yield canonical_key(plan, split(plan, entry.payload, 0))
