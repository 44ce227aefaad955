"""Named scenarios: functions that build a system in a world and run it with one seed.

A scenario is a callable `play(world, node_count)` that is decorated with `@scenario(...)`. The
scenarios of skerry have short names. Other scenarios are named `module:attribute`, or have a short
name in the table `[tool.skerry.scenarios]` of the `pyproject.toml` in the working folder.
"""

from __future__ import annotations

import importlib
import re
import tomllib
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from skerry.errors import ConfigError, SimulationError
from skerry.testing.world import World

Play = Callable[[World, int], None]

# By name and not by import, because each scenario imports the protocol that it tests.
SHIPPED: Final[dict[str, str]] = {
    "echo": "skerry.testing.machines.echo:echo",
    "node": "skerry.testing.machines.node_scenarios:node",
    "system": "skerry.testing.machines.system_scenarios:system",
}
"""The scenarios of skerry, with module and attribute."""

_PROJECT_FILE: Final = "pyproject.toml"
_TABLE: Final = "tool.skerry.scenarios"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


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


def known_scenarios(folder: Path | None = None) -> dict[str, str]:
    """All scenarios with a short name, by name, with module and attribute.

    They are those of skerry, and those that the `pyproject.toml` of the folder registers. The
    default is the working folder. Raises ConfigError if the file is not valid.
    """
    path = (folder or Path.cwd()) / _PROJECT_FILE
    return dict(sorted({**SHIPPED, **_registered(path)}.items()))


def find_scenario(name: str) -> Scenario:
    """Find a scenario by its short name or by `module:attribute`. Raises ConfigError."""
    known = SHIPPED if name in SHIPPED or ":" in name else known_scenarios()
    path = known.get(name, name)
    module_name, _, attribute = path.partition(":")
    if not attribute or not all(module_name.split(".")):
        raise _unknown(name, "there is no such scenario", known)
    module = _import(name, module_name, known)
    found = getattr(module, attribute, None)
    if not isinstance(found, Scenario):
        raise _unknown(name, f"{module_name} has no scenario {attribute}", known)
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


def _registered(path: Path) -> dict[str, str]:
    """The scenarios in the table of a file; none if there is no such file or table."""
    content = _read_toml(path) if path.exists() else {}
    own = _table(path, _table(path, content, "tool"), "tool.skerry")
    for key in own:
        if key != "scenarios":
            raise _bad_table(path, f"tool.skerry.{key}", "there is no such key")
    table = _table(path, own, _TABLE)
    for name, value in table.items():
        key = f"{_TABLE}.{name}"
        if not _NAME.fullmatch(name):
            raise _bad_table(path, key, "a name consists of letters, digits, - and _")
        if name in SHIPPED:
            raise _bad_table(path, key, f"skerry itself has a scenario {name}; choose another name")
        if not isinstance(value, str) or not _is_path(value):
            raise _bad_table(path, key, f"{value!r} is not a text module:attribute")
    return table


def _table(path: Path, above: dict[str, Any], key: str) -> dict[str, Any]:
    """The table with this dotted key, which is in the table `above`; empty if it is missing."""
    found = above.get(key.rpartition(".")[2], {})
    if not isinstance(found, dict):
        raise _bad_table(path, key, "this is not a table")
    return found


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _bad_table(path, _TABLE, f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise _bad_table(path, _TABLE, f"not TOML: {error}") from error


def _is_path(text: str) -> bool:
    module_name, _, attribute = text.partition(":")
    return attribute.isidentifier() and all(part.isidentifier() for part in module_name.split("."))


def _bad_table(path: Path, key: str, detail: str) -> ConfigError:
    return ConfigError(
        key=key,
        origin=str(path),
        detail=detail,
        hint=f'a line of [{_TABLE}] is name = "module:attribute"',
    )


def _import(name: str, module_name: str, known: Iterable[str]) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a module of a user may raise anything
        if _is_absent(error, module_name):
            raise _unknown(name, f"there is no module {module_name}", known) from error
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


def _unknown(name: str, detail: str, known: Iterable[str]) -> ConfigError:
    return ConfigError(
        key="scenario",
        origin=name,
        detail=detail,
        hint=(
            f"the scenarios are {', '.join(known)}; name your own as module:attribute,"
            f" or register it in [{_TABLE}] of {_PROJECT_FILE}"
        ),
    )
