"""Named scenarios: functions that build a system in a world and run it with one seed.

A scenario is a callable `play(world, node_count)` that is decorated with `@scenario(...)`. The
scenarios of skerry have short names. Other scenarios are named `module:attribute`.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from skerry.errors import ConfigError, SimulationError
from skerry.testing.world import World

__all__ = ["SHIPPED", "Outcome", "Play", "Scenario", "find_scenario", "run_scenario", "scenario"]

Play = Callable[[World, int], None]

# By name and not by import, because each scenario imports the protocol that it tests.
SHIPPED: Final[dict[str, str]] = {
    "carrier": "skerry.testing.machines.carrier:carrier",
    "distributor": "skerry.testing.machines.distributor:distributor",
    "echo": "skerry.testing.machines.scenarios:echo",
    "heartbeat": "skerry.testing.machines.scenarios:heartbeat",
    "moves": "skerry.testing.machines.node_scenarios:moves",
    "node": "skerry.testing.machines.node_scenarios:node",
    "requests": "skerry.testing.machines.request_scenarios:requests",
    "slow": "skerry.testing.machines.node_scenarios:slow",
    "stream-echo": "skerry.testing.machines.scenarios:stream_echo",
}
"""The scenarios of skerry, with module and attribute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A system that can be run with a seed."""

    summary: str
    play: Play
    node_count: int
    """Default number of nodes."""
    node_count_min: int
    node_count_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one run."""

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
    """Decorator that makes a scenario of a function `(world, node_count) -> None`."""
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
    """Find a scenario by its short name or by `module:attribute`. Raises ConfigError."""
    path = SHIPPED.get(name, name)
    module_name, _, attribute = path.partition(":")
    if not attribute or not all(module_name.split(".")):
        raise _unknown(name, "there is no such scenario")
    module = _import(name, module_name)
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
    """Run one seed of a scenario. A failure is part of the outcome and not raised.

    The same holds for an error in the scenario itself, because it may occur with some seeds only.
    Raises ConfigError if the scenario cannot be run.
    """
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
    except Exception as mistake:
        own = getattr(found.play, "__module__", "")
        error = world.failure("scenario", _described(mistake, own))
        error.__cause__ = mistake
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


def _import(name: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a module of a user may raise anything
        if _is_absent(error, module_name):
            raise _unknown(name, f"there is no module {module_name}") from error
        detail = f"{module_name} cannot be imported: {_described(error, module_name)}"
        raise ConfigError(key="scenario", origin=name, detail=detail) from error


def _is_absent(error: BaseException, module_name: str) -> bool:
    """Whether the module itself is missing, and not a module that it imports."""
    return isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}.")


def _described(error: BaseException, module_name: str) -> str:
    """An error in the code of a user: the line of the module, and the error."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    what = traceback.format_exception_only(error)[0].strip()
    lines = [
        f"{frame.f_code.co_filename}:{line}: "
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == module_name
    ]
    return f"{lines[-1] if lines else ''}{what}"


def _command(name: str, seed: int, node_count: int | None) -> str:
    nodes = "" if node_count is None else f" --nodes {node_count}"
    return f"skerry sim run --scenario {name} --seed {seed}{nodes} --trace"


def _unknown(name: str, detail: str) -> ConfigError:
    return ConfigError(
        key="scenario",
        origin=name,
        detail=detail,
        hint=f"the scenarios are {', '.join(SHIPPED)}; name your own as module:attribute",
    )
