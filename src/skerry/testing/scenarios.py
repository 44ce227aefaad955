"""Named scenarios: a function that builds a system in a world and runs it, with one seed at a time.

A scenario is anything callable as `scenario(world, node_count)`, wrapped by `@scenario(...)`. Those
that come with skerry have short names; one's own is named `module:attribute`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from skerry.errors import ConfigError, SimulationError
from skerry.testing.world import World

__all__ = ["SHIPPED", "Outcome", "Play", "Scenario", "find_scenario", "run_scenario", "scenario"]

Play = Callable[[World, int], None]

# By name and not by import: each scenario pulls in the protocol it is about.
SHIPPED: Final[dict[str, str]] = {
    "echo": "skerry.testing.machines.scenarios:echo",
    "heartbeat": "skerry.testing.machines.scenarios:heartbeat",
    "stream-echo": "skerry.testing.machines.scenarios:stream_echo",
}
"""The scenarios that come with skerry, and where each is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What can be run with a seed."""

    summary: str
    play: Play
    node_count: int
    """How many nodes there are when nobody says otherwise."""
    node_count_min: int
    node_count_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one run."""

    scenario: str
    seed: int
    node_count: int
    digest: str
    """Hash of the trace: equal for equal runs."""
    event_count: int
    input_count: int
    fault_count: int
    simulated_ns: int
    error: SimulationError | None


def scenario(
    summary: str, *, node_count: int, node_count_min: int = 1, node_count_max: int = 100
) -> Callable[[Play], Scenario]:
    """Make a function `(world, node_count) -> None` a scenario."""
    assert node_count_min <= node_count <= node_count_max

    def wrap(play: Play) -> Scenario:
        return Scenario(
            summary=summary,
            play=play,
            node_count=node_count,
            node_count_min=node_count_min,
            node_count_max=node_count_max,
        )

    return wrap


def find_scenario(name: str) -> Scenario:
    """A shipped scenario by its name, or one's own by `module:attribute`."""
    place = SHIPPED.get(name, name)
    module_name, _, attribute = place.partition(":")
    if not attribute:
        raise _unknown(name, "there is no such scenario")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise _unknown(name, f"there is no module {error.name}") from error
    found = getattr(module, attribute, None)
    if not isinstance(found, Scenario):
        raise _unknown(name, f"{module_name} has no scenario {attribute}")
    return found


def run_scenario(
    name: str,
    seed: int,
    *,
    node_count: int | None = None,
    sink: Callable[[str], None] | None = None,
) -> Outcome:
    """Run one seed of a scenario. A failure is part of the outcome, not raised."""
    found = find_scenario(name)
    count = found.node_count if node_count is None else node_count
    if not found.node_count_min <= count <= found.node_count_max:
        raise ConfigError(
            key="nodes",
            origin=name,
            detail=f"{count} is not between {found.node_count_min} and {found.node_count_max}",
        )
    world = World(seed, scenario=name, command=_command(name, seed, node_count), sink=sink)
    error = None
    try:
        found.play(world, count)
    except SimulationError as failure:
        error = failure
    return Outcome(
        scenario=name,
        seed=seed,
        node_count=count,
        digest=world.digest(),
        event_count=world.event_count,
        input_count=world.input_count,
        fault_count=world.fault_count(),
        simulated_ns=world.now_ns,
        error=error,
    )


def _command(name: str, seed: int, node_count: int | None) -> str:
    nodes = "" if node_count is None else f" --nodes {node_count}"
    return f"skerry sim run --scenario {name} --seed {seed}{nodes} --trace"


def _unknown(name: str, detail: str) -> ConfigError:
    return ConfigError(
        key="scenario",
        origin=name,
        detail=detail,
        hint=f"known are {', '.join(SHIPPED)}; your own is named module:attribute",
    )
