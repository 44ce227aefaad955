"""Runs the tests in both builds and prints which build each run tests.

The whole suite runs against the wheel in `.venv`, which is compiled. The tests of modules that have
a compiled form run again uncompiled, with `src` first on the path. If the wheel itself is
uncompiled (no compiler, or SKERRY_PURE=1), the whole suite runs once, uncompiled.
"""

from __future__ import annotations

import ast
import contextlib
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

ALSO_UNCOMPILED = ("tests/golden", "tests/properties")
"""Folders of tests that do not belong to one module. Their files run uncompiled if they import a
module that has a compiled form."""

BUILD_INFO = "tests/unit/test_build_info.py"
"""Runs in both builds: the tested module finds out which of them is running."""

SPARK = ("tests/spark", "tests/unit/cli/pipeline", "tests/unit/spark")
"""Tests that share one Spark, so one process. It mostly waits, so it runs beside the others."""

CHECKED = "tests/tidy"
"""Tests of the source tree, its documents and examples. `make check` runs them."""

PATHS_SHOWN = 8
"""More paths are counted instead of listed."""

NICENESS = 5
"""Niceness of the tests beside Spark, added to that of this process. The tests of Spark take
longest in one process, so they have priority where both could run."""

NO_TESTS = 5
"""Exit code of pytest if it selected no tests."""

PYTEST = (sys.executable, "-P", "-m", "pytest", "-q")

JOBS = min(4, 2 * (os.cpu_count() or 1))
"""Processes of one run: two for each core, because tests of programs and networks mostly wait."""


def main(arguments: list[str]) -> int:
    os.chdir(ROOT)
    named = [argument for argument in arguments if exists(argument)]
    options = [argument for argument in arguments if argument not in named]
    if mode_of(None) == "plain":
        return run_uncompiled_only(named or ["tests"], options)
    with beside_spark("compiled", named or ["tests"], options) as spark:
        compiled = run("compiled", None, named or ["tests"], options)
        options = ["--hypothesis-profile=again", *options]
        uncompiled = run("plain", ROOT / "src", named or tests_of_hot_modules(), options)
    compiled = worst(compiled, spark.code)
    print(f"== compiled: {word(compiled)}, uncompiled: {word(uncompiled)}", flush=True)
    return worst(compiled, uncompiled)


def run_uncompiled_only(paths: list[str], options: list[str]) -> int:
    missing = "SKERRY_PURE is set" if wants_pure() else setup()["missing_for_compilation"]()
    print(f"== uncompiled build only: {missing or 'the compilation failed'}", flush=True)
    with beside_spark("plain", paths, options) as spark:
        code = run("plain", None, paths, options)
    if missing is None:
        print("== error: a C compiler is installed, but the hot modules do not compile", flush=True)
        return 1
    return worst(code, spark.code)


# -- which tests run uncompiled


def tests_of_hot_modules() -> list[str]:
    """Paths of the tests that run in both builds, derived from the lists in `setup.py`."""
    hot = [*setup()["HOT_MODULES"], *setup()["LEAVES"]]
    names = {module_name(path) for path in hot}
    found = {BUILD_INFO, *(unit_test_of(path) for path in hot)}
    for folder in ALSO_UNCOMPILED:
        found.update(str(path) for path in Path(folder).glob("test_*.py") if names & imports(path))
    return sorted(path for path in found if not any(is_inside(path, other) for other in found))


def unit_test_of(module: str) -> str:
    """The test file that mirrors a module, or else the folder with the tests of its package."""
    path = Path(module).relative_to("src/skerry")
    mirror = Path("tests/unit", path.parent, f"test_{path.stem}.py")
    while not mirror.exists():
        mirror = mirror.parent
    return str(mirror)


def module_name(path: str) -> str:
    return ".".join(Path(path).relative_to("src").with_suffix("").parts)


def imports(path: Path) -> set[str]:
    """Names of the modules that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


# -- running them


def run(mode: str, source: Path | None, paths: Iterable[str], options: list[str]) -> int:
    """Run the tests of these paths, except those that share Spark."""
    paths = [path for path in paths if not shares_spark(path)]
    if not paths:
        return NO_TESTS
    listed = " ".join(paths) if len(paths) <= PATHS_SHOWN else f"{len(paths)} test files"
    print(f"== {shown(mode)} build: {listed}", flush=True)
    left_out = [f"--ignore={folder}" for folder in spark_folders(paths)]
    if not any(is_below(path, CHECKED) for path in paths):
        left_out.append(f"--ignore={CHECKED}")
    command = [*PYTEST, *options, *parallel(), *left_out, *paths]
    running = subprocess.Popen(command, env=environment(mode, source))
    if hasattr(os, "setpriority"):
        own = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, running.pid, own + NICENESS)
    return running.wait()


class SparkTests:
    """The run of the tests that share one Spark."""

    def __init__(self) -> None:
        self.code = NO_TESTS
        """Exit code, once the run has ended."""


@contextlib.contextmanager
def beside_spark(mode: str, paths: list[str], options: list[str]) -> Iterator[SparkTests]:
    """Run the tests of these paths that share Spark beside the body; print their output after."""
    tests = SparkTests()
    shared = [path for path in paths if shares_spark(path)]
    apart = list(dict.fromkeys([*spark_folders(paths), *shared]))
    if not apart:
        yield tests
        return
    print(f"== {shown(mode)} build, in parallel: {' '.join(apart)}", flush=True)
    with tempfile.TemporaryFile("w+") as output:
        command = [*PYTEST, *options, *apart]
        running = subprocess.Popen(
            command, env=environment(mode, None), stdout=output, stderr=subprocess.STDOUT
        )
        try:
            yield tests
        finally:
            tests.code = running.wait()
            output.seek(0)
            print(f"== {shown(mode)} build: {' '.join(apart)}\n{output.read()}", end="", flush=True)


def worst(*codes: int) -> int:
    """The exit code of all runs. A run that selected no tests counts only if all of them did."""
    return max((code for code in codes if code != NO_TESTS), default=NO_TESTS)


def spark_folders(paths: Iterable[str]) -> list[str]:
    """The folders within these paths whose tests share one Spark."""
    return [folder for folder in SPARK if any(is_below(folder, path) for path in paths)]


def shares_spark(path: str) -> bool:
    """Whether the tests at a path share Spark."""
    return any(is_below(path, folder) for folder in SPARK)


def exists(path: str) -> bool:
    return Path(path.partition("::")[0]).exists()


def is_below(path: str, folder: str) -> bool:
    """Whether a path of tests is a folder or inside of it."""
    return Path(path.partition("::")[0]).is_relative_to(folder)


def is_inside(path: str, folder: str) -> bool:
    return path != folder and is_below(path, folder)


def parallel() -> list[str]:
    # `tests/conftest.py` says which tests are distributed together.
    return ["-n", str(JOBS), "--dist", "loadfile"] if JOBS > 1 else []


def environment(mode: str, source: Path | None) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    env["SKERRY_TEST_MODE"] = mode
    if source is not None:
        env["PYTHONPATH"] = str(source)
    return env


def mode_of(source: Path | None) -> str:
    probe = [sys.executable, "-P", "-c", "import skerry.build_info as b; print(b.mode())"]
    done = subprocess.run(
        probe, check=True, capture_output=True, text=True, env=environment("", source)
    )
    return done.stdout.strip()


def shown(mode: str) -> str:
    return "compiled" if mode == "compiled" else "uncompiled"


def setup() -> dict[str, Any]:
    """The names that `setup.py` defines."""
    return runpy.run_path(str(ROOT / "setup.py"))


def wants_pure() -> bool:
    return os.environ.get("SKERRY_PURE", "") not in ("", "0")


def word(code: int) -> str:
    return {0: "passed", NO_TESTS: "no tests"}.get(code, "FAILED")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
