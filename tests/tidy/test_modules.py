"""Modules: their names, length, exports, tests, and that each can be imported alone."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tidy.test_public_surface import MODULES

DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LINE_COUNT_MAX = 500
LONG_MODULES = {"codec/hot_loops.pyx"}
"""The loops of this Cython module call each other for every update, so it is not cut."""
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "stuff", "base_utils"}


def test_no_module_has_a_vague_name(sources: list[Any]) -> None:
    assert [s.name for s in sources if VAGUE & set(s.parts)] == []


def test_every_module_begins_with_a_docstring_and_the_future_import(sources: list[Any]) -> None:
    wrong = [s.name for s in sources if not begins_well(s)]
    assert not wrong, "\n".join(wrong)


def begins_well(source: Any) -> bool:
    body = source.tree.body
    if ast.get_docstring(source.tree) is None:
        return False
    if len(body) == 1:
        return True
    second = body[1]
    return isinstance(second, ast.ImportFrom) and second.module == "__future__"


def test_every_exported_class_and_function_has_a_test(sources: list[Any], root: Path) -> None:
    files = (root / "tests").rglob("*.py")
    named = names_in(*(ast.parse(path.read_text(encoding="utf-8")) for path in files))
    missing = [
        f"{source.name}.{name}"
        for source in sources
        if not source.is_package and not mirror_of(source, root).exists()
        for name in sorted(untested(source.tree, named))
    ]
    assert not missing, "\n".join(missing)


def mirror_of(source: Any, root: Path) -> Path:
    """The test file of one module. Its tests are taken to cover all that the module exports."""
    *folders, last = source.parts or ("skerry",)
    return root.joinpath("tests", "unit", *folders, f"test_{last}.py")


def untested(tree: ast.Module, named: set[str]) -> set[str]:
    """Public classes and functions that neither a test names nor a tested neighbour uses."""
    parts = {node.name: node for node in tree.body if isinstance(node, DEFINITIONS)}
    tested = {name for name in parts if name in named}
    due = set(tested)
    while due:
        due = (names_in(*(parts[name] for name in due)) & set(parts)) - tested
        tested |= due
    return {name for name in set(parts) - tested if not name.startswith("_")}


def names_in(*trees: ast.AST) -> set[str]:
    """Names that code uses or imports."""
    found: set[str] = set()
    for node in (inner for tree in trees for inner in ast.walk(tree)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found.update(alias.name for alias in node.names)
    return found


def test_a_definition_without_a_test_is_found() -> None:
    tree = ast.parse("def a(): pass\ndef b(): c()\ndef c(): pass\nclass D: pass\ndef _e(): pass")
    assert untested(tree, {"b"}) == {"a", "D"}
    assert untested(tree, {"a", "b", "D"}) == set()


def test_public_class_names_are_unique(sources: list[Any]) -> None:
    places: dict[str, list[str]] = {}
    for source in sources:
        for node in statements(source.tree.body):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(source.name)
    doubled = {name: where for name, where in places.items() if len(where) > 1}
    assert not doubled


def test_no_module_is_too_long(root: Path) -> None:
    counts = {
        str(path.relative_to(root / "src" / "skerry")): len(path.read_bytes().splitlines())
        for path in (root / "src").rglob("*")
        if path.suffix in {".py", ".pyx"}
    }
    too_long = {name for name, count in counts.items() if count > LINE_COUNT_MAX}
    assert not too_long - LONG_MODULES, sorted(too_long - LONG_MODULES)


def test_exports_name_all_that_is_public_and_nothing_else(sources: list[Any]) -> None:
    wrong = [f"{source.name}: {fault}" for source in sources for fault in export_faults(source)]
    assert not wrong, "\n".join(wrong)


def export_faults(source: Any) -> list[str]:
    exported = exports(source.tree)
    public = defined(source.tree) | (imported(source.tree) if source.is_package else set())
    if exported is None:
        # Inside the library a name without an underscore is public, which needs no list.
        needs_list = source.name in MODULES or (source.is_package and public)
        return ["__all__ is missing"] if needs_list else []
    module = importlib.import_module(source.name)
    missing = [f"{name} is not exported" for name in sorted(public - set(exported))]
    unknown = [f"{name} is not defined" for name in exported if not hasattr(module, name)]
    twice = [f"{name} is exported twice" for name in set(exported) if exported.count(name) > 1]
    return missing + unknown + twice


def exports(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
        ):
            return list(ast.literal_eval(node.value))
    return None


def defined(tree: ast.Module) -> set[str]:
    """Public classes, functions and constants, without type variables and loggers."""
    names: set[str] = set()
    for node in statements(tree.body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.update([] if is_subcommand(node) else [node.name])
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign) and not is_internal(node.value):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return {name for name in names if not name.startswith("_")}


def is_subcommand(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether this is a command of a group, which is found through the group."""
    calls = [d.func for d in node.decorator_list if isinstance(d, ast.Call)]
    return any(
        isinstance(call, ast.Attribute)
        and call.attr in {"command", "group"}
        and ast.unparse(call.value) != "click"
        for call in calls
    )


def statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Top-level statements, also those under an `if` or `try`."""
    found: list[ast.stmt] = []
    for node in body:
        found.append(node)
        if isinstance(node, ast.If | ast.Try):
            found += statements([*node.body, *node.orelse])
    return found


def is_internal(value: ast.expr) -> bool:
    """Whether this makes a type variable or the logger of the module."""
    return isinstance(value, ast.Call) and ast.unparse(value.func) in {
        "ParamSpec",
        "TypeVar",
        "TypeVarTuple",
        "logging.getLogger",
    }


def imported(tree: ast.Module) -> set[str]:
    """Names imported from modules of skerry."""
    return {
        alias.asname or alias.name
        for node in statements(tree.body)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skerry")
        for alias in node.names
        if not alias.name.startswith("_")
    }


def imported_from_others(tree: ast.Module) -> set[str]:
    """Imported modules that are not part of skerry."""
    names = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else names_of(node))
        if name is not None
    }
    return {name for name in names if name.partition(".")[0] != "skerry"}


def names_of(node: ast.Import) -> list[str]:
    return [alias.name for alias in node.names]


IMPORT_EACH_ALONE = """
import contextlib, os, sys
sys.stdout.reconfigure(line_buffering=True)
ours = [name for name in sys.argv[1:] if name.startswith("skerry")]
for name in set(sys.argv[1:]).difference(ours):
    with contextlib.suppress(ImportError):
        __import__(name)
for name in ours:
    child = os.fork()
    if child == 0:
        try:
            __import__(name)
        except BaseException as error:
            print(f"{name}: {type(error).__name__}: {error}")
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        print(f"{name}: ended by signal {-status}")
"""


@pytest.mark.slow
def test_every_module_imports_alone(sources: list[Any]) -> None:
    # One interpreter that has not imported skerry forks a process for each module. Modules of other
    # packages are imported before, since importing them hundreds of times takes minutes.
    names = [source.name for source in sources if source.parts != ("__main__",)]
    others = {name for source in sources for name in imported_from_others(source.tree)}
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", IMPORT_EACH_ALONE, *names, *sorted(others)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stdout, done.stdout


def test_no_inner_module_imports_the_package_itself(sources: list[Any]) -> None:
    """`skerry/__init__.py` imports inner modules, so the reverse would be a cycle."""
    wrong = [
        f"{source.name}:{node.lineno}"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        if source.parts[:1] not in {("apps",), ("cli",), ()} and imports_package(node, source)
    ]
    assert not wrong, "\n".join(wrong)


def imports_package(node: ast.Import | ast.ImportFrom, source: Any) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name == "skerry" for alias in node.names)
    if node.module != "skerry":
        return False
    package = next(p for p in source.path.parents if p.name == "skerry")
    is_module = [
        (package / f"{alias.name}.py").exists() or (package / alias.name).is_dir()
        for alias in node.names
    ]
    return not all(is_module)
