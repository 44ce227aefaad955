"""Actions of clients in a simulated system, at random or fixed times."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skerry.testing.world import World


Act = Callable[["World", Random], None]
"""One action of a client: `act(world, rng)`. It should check `node.is_running` first."""


class Workload(ABC):
    """Base class of all workloads. It begins with `World.drive` and ends with `stop` or when
    done."""

    @abstractmethod
    def start(self, world: World, rng: Random) -> None:
        """Schedule the first act. `rng` is the random source of this workload."""

    def stop(self) -> None:  # noqa: B027 - a workload that ends by itself has nothing to stop
        """Start no further acts."""

    @property
    def is_done(self) -> bool:
        """Whether no further acts follow, even if it is not stopped."""
        return False


class Repeat(Workload):
    """Repeats an act after random gaps between `gap_ns_min` and `gap_ns_max`."""

    def __init__(
        self,
        act: Act,
        *,
        gap_ns_min: int,
        gap_ns_max: int | None = None,
        count: int | None = None,
    ) -> None:
        self._act = act
        self._gap_ns_min = gap_ns_min
        self._gap_ns_max = gap_ns_min if gap_ns_max is None else gap_ns_max
        assert 0 < self._gap_ns_min <= self._gap_ns_max, "a gap of 0 would stop time"
        self._left = count
        self._is_stopped = False

    @property
    def is_done(self) -> bool:
        return self._is_stopped or self._left == 0

    def start(self, world: World, rng: Random) -> None:
        self._schedule(world, rng)

    def stop(self) -> None:
        self._is_stopped = True

    def _schedule(self, world: World, rng: Random) -> None:
        gap_ns = rng.randrange(self._gap_ns_min, self._gap_ns_max + 1)
        world.after(gap_ns, lambda _: self._act_once(world, rng))

    def _act_once(self, world: World, rng: Random) -> None:
        if self.is_done:
            return
        if self._left is not None:
            self._left -= 1
        self._act(world, rng)
        if not self.is_done:
            self._schedule(world, rng)


class Script(Workload):
    """Acts at fixed times, counted from the start of the workload."""

    def __init__(self, steps: Sequence[tuple[int, Act]]) -> None:
        self._steps = tuple(steps)
        self._left = len(self._steps)
        self._is_stopped = False

    @property
    def is_done(self) -> bool:
        return self._is_stopped or self._left == 0

    def start(self, world: World, rng: Random) -> None:
        for at_ns, act in self._steps:
            world.after(at_ns, partial(self._act_once, world, rng), act)

    def stop(self) -> None:
        self._is_stopped = True

    def _act_once(self, world: World, rng: Random, act: Act) -> None:
        if not self._is_stopped:
            self._left -= 1
            act(world, rng)
