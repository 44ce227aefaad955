"""What programs, scripts and checks outside of the project rely on is still there.

`tests/golden/public-surface.json` lists it: exported names with the members and parameters they
have, commands with their options, configuration keys and metrics. More is welcome. Whoever removes
something on purpose writes the file again: `python -P -m tests.tidy.test_public_surface`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "public-surface.json"
MODULES = (
    "skerry",
    "skerry.aio",
    "skerry.aio.distributor",
    "skerry.aio.portal",
    "skerry.distributor",
    "skerry.portal",
    "skerry.errors",
    "skerry.lake",
    "skerry.spark",
    "skerry.testing",
)

Surface = dict[str, list[str]]


def surface() -> Surface:
    found: Surface = {}
    for name in MODULES:
        module = module_named(name)
        found[name] = sorted(module.__all__)
        for exported in module.__all__:
            add_members(found, f"{name}.{exported}", getattr(module, exported))
    add_command(found, "skerry", skerry_command())
    for page, pattern in (("config", r"\| `([a-z_.]+)` \|"), ("metrics", r"`(skerry_[a-z_]+)")):
        text = (ROOT / "docs" / "reference" / f"{page}.md").read_text(encoding="utf-8")
        found[page] = sorted(set(re.findall(pattern, text)))
    return found


def module_named(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        parent, _, last = name.rpartition(".")
        return getattr(importlib.import_module(parent), last)


def skerry_command() -> click.Command:
    command: click.Command = importlib.import_module("skerry.cli.program").skerry
    return command


def add_members(found: Surface, name: str, thing: Any) -> None:
    if inspect.isclass(thing):
        found[name] = sorted(member for member in dir(thing) if not member.startswith("_"))
        for member in found[name]:
            add_parameters(found, f"{name}.{member}", inspect.getattr_static(thing, member))
        thing = thing.__init__
    add_parameters(found, f"{name}()", thing)


def add_parameters(found: Surface, name: str, thing: Any) -> None:
    """Compiled functions may have no signature; then there is nothing to compare."""
    thing = getattr(thing, "__func__", thing)
    if not callable(thing) or isinstance(thing, type):
        return
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return
    named = [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    found[f"{name} parameters"] = sorted(n for n in named if not n.startswith("_") and n != "self")


def add_command(found: Surface, path: str, command: click.Command) -> None:
    context = click.Context(command)
    found[f"{path} options"] = sorted(
        spelled for parameter in command.params for spelled in parameter.opts
    )
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            add_command(found, f"{path} {name}", below)


def expected() -> Surface:
    read: Surface = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return read


def test_no_public_name_was_removed() -> None:
    now = surface()
    gone = [
        f"{name}: {word}"
        for name, words in expected().items()
        # Compiled functions show no parameters; the plain run of this test compares them.
        if now.get(name) or not name.endswith(" parameters")
        for word in words
        if word not in now.get(name, [])
    ]
    assert not gone


def test_inspect_and_editors_see_the_parameters_in_either_build() -> None:
    hidden: list[str] = []
    for name in ("skerry", "skerry.aio", "skerry.aio.distributor", "skerry.distributor"):
        module = module_named(name)
        for exported in module.__all__:
            thing = getattr(module, exported)
            parts = {exported: thing}
            if inspect.isclass(thing):
                own = {*dir(thing)} - {*dir(str), *dir(int), *dir(Exception)}
                parts = {f"{exported}.{m}": getattr(thing, m) for m in own if m[0] != "_"}
            hidden += [
                f"{name}.{path}"
                for path, part in parts.items()
                if inspect.isroutine(part) and not has_signature(part)
            ]
    assert not hidden


def has_signature(function: Any) -> bool:
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        return False
    return True


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(surface(), indent=1) + "\n", encoding="utf-8")
