"""Bounds: the code of some module and the code of some test name each of them.

Whether that test goes up to the bound and past it is for people to see; what is found here is a
bound that nothing asks about, or that a test file imports, or speaks of, and does not use.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from skerry import limits

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def bounds() -> set[str]:
    return {name for name in vars(limits) if name.isupper()}


def test_every_bound_is_kept_by_some_module(sources: list[Any]) -> None:
    used = [names_in(source.tree) for source in sources if source.parts != ("limits",)]
    unused = bounds().difference(*used)
    assert not unused, ", ".join(sorted(unused))


def test_every_bound_is_named_by_a_test(root: Path) -> None:
    # `test_limits.py` names them because they are there, not because something keeps them.
    files = [path for path in (root / "tests").rglob("test_*.py") if path.name != "test_limits.py"]
    used = [names_in_tests(ast.parse(path.read_text(encoding="utf-8"))) for path in files]
    untested = bounds().difference(*used)
    assert not untested, ", ".join(sorted(untested))


@pytest.mark.parametrize(
    "text",
    [
        "def test_a():\n    assert X",
        "async def test_a():\n    assert limits.X",
        "class TestA:\n    def test_a(self):\n        assert X",
        "@mark.parametrize('n', [X])\ndef test_a(n):\n    assert n",
        "CASES = [X]\n@mark.parametrize('n', CASES)\ndef test_a(n):\n    assert n",
        "def full():\n    return X\ndef test_a():\n    assert full()",
        "@fixture\ndef full():\n    return X\ndef test_a(full):\n    assert full",
        "class Machine:\n    size = X\nTestMachine = Machine.TestCase",
        "def test_a():\n    assert X\ndef test_b():\n    pass",
    ],
)
def test_a_bound_that_a_test_uses_is_found(text: str) -> None:
    assert "X" in names_in_tests(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "from limits import X\ndef test_a():\n    pass",
        "# X\ndef test_a():\n    'about X'",
        "CASES = [X]\ndef test_a():\n    pass",
        "def full():\n    return X\ndef test_a():\n    pass",
    ],
)
def test_a_bound_that_only_stands_in_the_file_is_not(text: str) -> None:
    assert "X" not in names_in_tests(ast.parse(text))


def names_in_tests(tree: ast.Module) -> set[str]:
    """Names in tests, and in what they use of their own file: helpers, fixtures, tables."""
    parts = definitions(tree)
    used: set[str] = set()
    while due := [name for name in parts if name.lower().startswith("test") or name in used]:
        for name in due:
            used |= names_in(*parts.pop(name))
    return used


def definitions(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Statements on the top level by the names they give."""
    found: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        for name in given_names(node):
            found.setdefault(name, []).append(node)
    return found


def given_names(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, Definition):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    return [target.id for target in targets if isinstance(target, ast.Name)]


def names_in(*nodes: ast.AST) -> set[str]:
    """Names that code uses, arguments of functions (by which fixtures are found) included."""
    used: set[str] = set()
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        if isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
        elif isinstance(node, ast.arg):
            used.add(node.arg)
    return used
