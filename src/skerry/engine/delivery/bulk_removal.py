"""The removal of many objects at once: of a type that is cleared, or of a client that is gone.

A node may hold millions of objects, and each removal is sent to all subscribers. So a sweep removes
some objects at a time, and other clients have a turn between two slices. Subscribers cannot notice
it: an update of an object that is still to be removed is processed after its removal.

No list of the objects to remove is needed, whatever their number: a clear removes all that had a
place on the shelf when it began, and the shelf indexes the objects that a client changed last.
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

__all__ = ["BULK_REMOVAL_SLICE_COUNT", "BulkRemovals"]

BULK_REMOVAL_SLICE_COUNT: Final = 500
"""Objects of a cleared type that are removed in one slice, before other clients have their turn:
some milliseconds."""

_NO_KEY: Final = b""
"""Marks a look at something that is not an object."""
_SORTED_PER_LOOK: Final = 50
"""Keys that take as long to list and to sort as it takes to remove an object."""


class BulkRemovals:
    """All removals of a node that are under way."""

    def __init__(self, hub: Dispatcher) -> None:
        self._hub = hub
        self._under_way: dict[str, _TopicSweep] = {}
        self._looks = BULK_REMOVAL_SLICE_COUNT
        """Objects that may still be examined before other clients have their turn."""

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def begin_turn(self) -> None:
        """Start another turn, after other clients had theirs."""
        self._looks = BULK_REMOVAL_SLICE_COUNT

    def clear(
        self, topic: Topic, hidden: frozenset[bytes], wall_ns: int, finish: Callable[[], None]
    ) -> None:
        """Remove all objects that a topic has now, except for those with hidden keys.

        `finish` is called when none of them is left.
        """
        self._sweep(topic).clear(hidden, finish)
        self._go_on(wall_ns)

    def clean_up(self, topic: Topic, writer: int, wall_ns: int) -> None:
        """Remove the objects of a topic that a disconnected client changed last."""
        written = topic.shelf.take_written(writer)
        if written:
            self._sweep(topic).clean_up(writer, written)
            self._go_on(wall_ns)

    def advance(self, wall_ns: int) -> None:
        """Remove a slice."""
        self.begin_turn()
        self._go_on(wall_ns)

    def complete(self, wall_ns: int) -> None:
        """Remove all that is left."""
        while self._under_way:
            self.advance(wall_ns)

    def _sweep(self, topic: Topic) -> _TopicSweep:
        sweep = self._under_way.get(topic.name)
        if sweep is None:
            sweep = topic.sweep = self._under_way[topic.name] = _TopicSweep(self._hub, topic)
            topic.gate.shut()
        return sweep

    def _go_on(self, wall_ns: int) -> None:
        """Remove objects of one topic after the other, as many as this turn has left."""
        while self._looks > 0 and self._under_way:
            name = next(iter(self._under_way))
            sweep = self._under_way.pop(name)
            sweep.wall_ns = wall_ns
            self._looks -= sweep.step(self._looks)
            if not sweep.is_over:
                self._under_way[name] = sweep
                continue
            sweep.topic.sweep = None
            for finish in sweep.finishes:
                finish()


class _TopicSweep(OngoingRemoval):
    """The objects of one topic that are still to be removed."""

    def __init__(self, hub: Dispatcher, topic: Topic) -> None:
        super().__init__()
        self.topic = topic
        self.wall_ns = 0
        self.finishes: list[Callable[[], None]] = []
        self._hub = hub
        self._writers: set[int] = set()
        """Disconnected clients that still have objects to remove."""
        self._cleared: list[tuple[int, frozenset[bytes]]] = []
        """For each clear, the place before which objects are removed, and the keys that stay."""
        self._removing = b""
        """The key of the object that is being removed."""
        self._walks: deque[tuple[Iterator[bytes], Callable[[], None]]] = deque()
        """Iterators over the keys of all these, each with the function to call at its end."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be removed."""
        return not self._walks

    def clear(self, hidden: frozenset[bytes], finish: Callable[[], None]) -> None:
        """Remove all objects that are there now, except for hidden ones."""
        walk = ReplayWalk(self.topic.shelf)
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
        """An update of an object arrived: if the object is to be removed, remove it first."""
        entry = self.topic.shelf.objects.get(key)
        if entry is None or key == self._removing or not self._is_to_go(key, entry):
            return
        self._removing = key
        self._hub.remove(self.topic, entry, seconds_of_ns(self.wall_ns), self.wall_ns)
        self._removing = b""

    def step(self, look_count: int) -> int:
        """Remove objects, examining at most so many; returns how many were examined."""
        looked = 0
        while self._walks and looked < look_count:
            keys, end = self._walks[0]
            looked += 1
            key = next(keys, None)
            if key is None:
                self._walks.popleft()
                end()
            elif key != _NO_KEY:
                self.settle(key)
        return looked

    def _is_to_go(self, key: bytes, entry: Entry) -> bool:
        if int(entry.modified_from) in self._writers:
            return True
        place = int(entry.place)
        return any(place < stop and key not in hidden for stop, hidden in self._cleared)

    def _present_keys(self, walk: ReplayWalk) -> Iterator[bytes]:
        """The keys of all objects, in their order if they are few."""
        shelf = self.topic.shelf
        if len(shelf.objects) <= REPLAY_SORTED_COUNT_MAX:
            keys = sorted(shelf.objects)
            yield from (_NO_KEY for _ in range(0, len(keys), _SORTED_PER_LOOK))
            yield from keys
            return
        while not walk.is_over():
            entry = walk.advance()
            if entry is None:
                yield _NO_KEY
            else:
                plan = self.topic.plan
                yield canonical_key(plan, split(plan, entry.payload, 0))
