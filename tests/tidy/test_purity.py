"""Pure packages: input, time and randomness are arguments, so they do not access the system.

The import linter checks imports between modules. These tests check calls, and imports of any form.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest

PURE = {
    "cbor",
    "client.core",
    "codec",
    "engine",
    "errors",
    "ids",
    "limits",
    "objects",
    "json_values",
    "protocol",
    "recording",
    "schema",
    "suggestions",
    "tracing",
}
FORBIDDEN_MODULES = {
    "asyncio",
    "concurrent",
    "logging",
    "multiprocessing",
    "os",
    "secrets",
    "select",
    "selectors",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
}
ALLOWED_OF = {"random": {"Random"}, "uuid": {"SafeUUID", "UUID"}}
FORBIDDEN_CALLS = {"breakpoint", "input", "open", "print"}
CLOCKS = {"now", "utcnow", "today"}


def test_pure_packages_do_not_access_the_system(sources: list[Any]) -> None:
    wrong = [
        f"{source.path.name}:{line}: {fault}"
        for source in sources
        if source.parts and {source.parts[0], ".".join(source.parts[:2])} & PURE
        for line, fault in faults(source.tree)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "import os.path",
        "from asyncio import sleep",
        "import random\nrandom.random()",
        "import random as r\nr.seed(1)",
        "from random import randrange",
        "from uuid import uuid4",
        "import uuid\nuuid.uuid4()",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.date.today()",
        "print(1)",
        "open('x')",
    ],
)
def test_access_to_the_system_is_found(text: str) -> None:
    assert list(faults(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "from random import Random\nRandom(1).random()",
        "import random\nrandom.Random(1).randrange(3)",
        "from uuid import UUID\nUUID(int=1)",
        "import datetime\ndatetime.datetime.fromtimestamp(1, tz=datetime.UTC)",
    ],
)
def test_values_from_arguments_are_allowed(text: str) -> None:
    assert list(faults(ast.parse(text))) == []


def faults(tree: ast.Module) -> Iterator[tuple[int, str]]:
    aliases = module_aliases(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in FORBIDDEN_MODULES:
                    yield node.lineno, f"imports {alias.name}"
        elif isinstance(node, ast.ImportFrom):
            yield from import_from_faults(node)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = aliases.get(node.value.id)
            if module in ALLOWED_OF and node.attr not in ALLOWED_OF[module]:
                yield node.lineno, f"uses {module}.{node.attr}"
        if isinstance(node, ast.Call):
            yield from call_faults(node)


def module_aliases(tree: ast.Module) -> dict[str, str]:
    return {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }


def import_from_faults(node: ast.ImportFrom) -> Iterator[tuple[int, str]]:
    module = (node.module or "").partition(".")[0]
    if module in FORBIDDEN_MODULES:
        yield node.lineno, f"imports from {module}"
    if module in ALLOWED_OF:
        for alias in node.names:
            if alias.name not in ALLOWED_OF[module]:
                yield node.lineno, f"imports {alias.name} from {module}"


def call_faults(node: ast.Call) -> Iterator[tuple[int, str]]:
    if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
        yield node.lineno, f"calls {node.func.id}"
    if isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS:
        owner = ast.unparse(node.func.value)
        if owner.rpartition(".")[2] in {"datetime", "date"}:
            yield node.lineno, f"reads a clock with {owner}.{node.func.attr}"
