"""The removal of many objects at once: of a type that is cleared, or of a client that is gone.

A node may hold millions of objects, and each removal is told to everybody who asked. So they go
some at a time, and everybody else has a turn between two slices. Nobody can tell the difference:
an update of an object that is still to go is put behind its removal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from skerry.engine.hub import Hub
from skerry.engine.topics import Sweep, Topic
from skerry.limits import SWEEP_SLICE_COUNT
from skerry.objects.times import seconds_of_ns

__all__ = ["Sweeps"]


class Sweeps:
    """All removals of a node that are under way."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._under_way: dict[str, _TopicSweep] = {}

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def begin(
        self, topic: Topic, keys: Iterable[bytes], wall_ns: int, finish: Callable[[], None]
    ) -> None:
        """Remove these objects, the first slice now; `finish` is called when none is left."""
        sweep = self._under_way.get(topic.name)
        if sweep is None:
            sweep = topic.sweep = self._under_way[topic.name] = _TopicSweep(self._hub, topic)
        sweep.add(keys, finish)
        self._continue(sweep, wall_ns)

    def advance(self, wall_ns: int) -> None:
        """Remove a slice of each type."""
        for sweep in list(self._under_way.values()):
            self._continue(sweep, wall_ns)

    def complete(self, wall_ns: int) -> None:
        """Remove all that is left."""
        while self._under_way:
            self.advance(wall_ns)

    def _continue(self, sweep: _TopicSweep, wall_ns: int) -> None:
        sweep.wall_ns = wall_ns
        if not sweep.step():
            return
        del self._under_way[sweep.topic.name]
        sweep.topic.sweep = None
        for finish in sweep.finishes:
            finish()


class _TopicSweep(Sweep):
    """The objects of one topic that are still to go."""

    def __init__(self, hub: Hub, topic: Topic) -> None:
        super().__init__()
        self.topic = topic
        self.wall_ns = 0
        self.finishes: list[Callable[[], None]] = []
        self._hub = hub
        self._pending: set[bytes] = set()
        self._order: deque[bytes] = deque()
        """In which they go; some of them may have gone before their turn."""

    def add(self, keys: Iterable[bytes], finish: Callable[[], None]) -> None:
        """More of them."""
        fresh = [key for key in keys if key not in self._pending]
        self._pending.update(fresh)
        self._order.extend(fresh)
        self.finishes.append(finish)

    def settle(self, key: bytes) -> None:
        """An update of an object has come: if it is to go, that has to happen first."""
        if key in self._pending:
            self._remove(key)

    def step(self) -> bool:
        """Remove a slice; whether that was the last."""
        for _ in range(min(SWEEP_SLICE_COUNT, len(self._order))):
            self.settle(self._order.popleft())
        return not self._order

    def _remove(self, key: bytes) -> None:
        self._pending.remove(key)
        # Nothing else can have taken it away: every update goes through `settle`.
        entry = self.topic.shelf.objects[key]
        self._hub.remove(self.topic, entry, seconds_of_ns(self.wall_ns), self.wall_ns)
