"""Bounds: the code of a module and the code of a test use each of them.

A bound is a constant of `limits`, or a public constant of another module whose name ends like one.
Whether the test reaches and exceeds the bound is left to reviewers. These tests find bounds that no
code uses, and bounds that a test file only imports or mentions.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from skerry import limits

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


WIRE_AND_CONFIGURED = {
    "HEADER_BYTES_MAX",
    "HEADER_MEMO_BYTES_MAX",
    "HEADER_MEMO_COUNT_MAX",
    "RECORDING_BATCH_MS_MAX",
    "RECORDING_BATCH_ROW_COUNT_MAX",
    "STORAGE_INTERVAL_MS_MAX",
    "STREAM_WAITING_BYTES_MAX",
    "TRACE_CONTEXT_CHAR_COUNT_MAX",
}
"""Bounds of wires and of the configuration that one module uses."""
ENDINGS = ("_BYTES_MAX", "_COUNT_MAX", "_SIZE_MAX", "_WORK_MAX")


@pytest.fixture(scope="module")
def bounds(sources: list[Any]) -> set[str]:
    found = {
        name
        for source in sources
        for node in source.tree.body
        if isinstance(node, ast.AnnAssign)
        for name in given_names(node)
        if name.endswith(ENDINGS) and not name.startswith("_")
    }
    return found | shared_bounds()


def shared_bounds() -> set[str]:
    return {name for name in vars(limits) if name.isupper()}


def test_every_bound_of_limits_is_used_by_several_modules(sources: list[Any], root: Path) -> None:
    others = [source for source in sources if source.parts != ("limits",)]
    counts = Counter(name for source in others for name in names_in(source.tree))
    for path in (root / "src").rglob("*.pyx"):
        counts.update(set(re.findall(r"\w+", path.read_text(encoding="utf-8"))))
    assert {name for name in shared_bounds() if counts[name] < 1} == set()
    assert {name for name in shared_bounds() if counts[name] < 2} <= WIRE_AND_CONFIGURED


def test_every_bound_is_used_by_a_test(root: Path, bounds: set[str]) -> None:
    # `test_limits.py` uses them as a list, not because something keeps them.
    files = [path for path in (root / "tests").rglob("test_*.py") if path.name != "test_limits.py"]
    used = [names_in_tests(ast.parse(path.read_text(encoding="utf-8"))) for path in files]
    untested = bounds.difference(*used)
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
def test_a_bound_that_a_test_file_only_mentions_is_not(text: str) -> None:
    assert "X" not in names_in_tests(ast.parse(text))


def names_in_tests(tree: ast.Module) -> set[str]:
    """Names in tests, and in the helpers, fixtures and tables of their file that they use."""
    parts = definitions(tree)
    used: set[str] = set()
    while due := [name for name in parts if name.lower().startswith("test") or name in used]:
        for name in due:
            used |= names_in(*parts.pop(name))
    return used


def definitions(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Top-level statements by the names that they define."""
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
    """Names that code uses, including arguments of functions, by which fixtures are found."""
    used: set[str] = set()
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        if isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
        elif isinstance(node, ast.arg):
            used.add(node.arg)
    return used
