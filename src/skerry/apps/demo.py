"""The guided tour: a fleet publishes into a space, and a watcher sees it.

The watcher only knows what it was told. At the end its picture must be the fleet's, to the last
field; that is what the demo checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import skerry
from skerry.apps.fleet import Alarm, Fleet, Hail, Vessel
from skerry.engine.local import LocalEvent, LocalSpace

__all__ = ["Check", "Demo", "Watcher"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something the demo promised, and whether it holds."""

    promise: str
    holds: bool
    facts: str


class Watcher:
    """Builds its own picture of the space from events alone."""

    def __init__(self, space: LocalSpace) -> None:
        self.objects: dict[tuple[str, bytes], Any] = {}
        self.events: Counter[str] = Counter()
        self.out_of_order_count = 0
        self._position = 0
        for cls in (Vessel, Alarm, Hail):
            space.subscribe(cls, self._note)

    def count(self, cls: type[skerry.Struct]) -> int:
        """Objects of a type that the watcher knows of."""
        return sum(1 for name, _ in self.objects if name == cls.descriptor.name)

    def _note(self, event: LocalEvent) -> None:
        update = event.update
        self.events[f"{update.type_name} {event.operation}"] += 1
        self.out_of_order_count += update.position <= self._position
        self._position = update.position
        if not event.object.descriptor.flags.cached:
            return
        where = (update.type_name, update.key)
        if event.operation == "remove":
            del self.objects[where]
        else:
            self.objects[where] = event.object


class Demo:
    """The space, the fleet and the watcher, one step at a time."""

    def __init__(self, now_ns: Callable[[], int], *, seed: int, vessel_count: int) -> None:
        self._now_ns = now_ns
        self._last_ns = now_ns()
        self.space = LocalSpace(now_ns)
        self.watcher = Watcher(self.space)
        self.fleet = Fleet(self.space, Random(seed), count=vessel_count)

    def step(self) -> None:
        """Let the fleet sail for as long as really went by."""
        now_ns = self._now_ns()
        elapsed_s = max(now_ns - self._last_ns, 0) / 1e9
        self._last_ns = now_ns
        self.fleet.step(now_s=now_ns / 1e9, elapsed_s=elapsed_s)

    def checks(self) -> list[Check]:
        """What was promised, compared with what is."""
        return [self._same_picture(), self._nothing_lost(), self._in_order(), self._exact_bytes()]

    def _same_picture(self) -> Check:
        seen = {obj.mmsi: obj for obj in self.watcher.objects.values() if isinstance(obj, Vessel)}
        current = {vessel.mmsi: vessel for vessel in self.space.container(Vessel).values()}
        return Check(
            promise="the watcher's picture and the space's are the fleet as it is",
            holds=seen == self.fleet.vessels == current,
            facts=f"{len(seen)} vessels",
        )

    def _nothing_lost(self) -> Check:
        told = self.watcher.events.total()
        return Check(
            promise="every update was delivered once",
            holds=told == self.fleet.published_count > 0,
            facts=f"{self.fleet.published_count} published, {told} delivered",
        )

    def _in_order(self) -> Check:
        return Check(
            promise="in the order in which they were published",
            holds=self.watcher.out_of_order_count == 0,
            facts=f"{self.watcher.out_of_order_count} out of order",
        )

    def _exact_bytes(self) -> Check:
        containers = [self.space.container(cls) for cls in (Vessel, Alarm)]
        checked = [
            obj.encode() == container.info(key).payload
            for container in containers
            for key, obj in container.items()
        ]
        return Check(
            promise="decoding and encoding again gives the same bytes",
            holds=all(checked),
            facts=f"{len(checked)} objects",
        )
