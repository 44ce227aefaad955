"""Runs the tests in both builds, and says which build each run is of.

Compiled: the whole suite, with the wheel that `.venv` holds. Plain: once more what depends on the
hot modules, with `src` first on the path. Where the wheel is plain itself (no compiler, or
SKERRY_PURE=1) the whole suite runs plain, once.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

BOTH_WAYS = (
    "tests/golden",
    "tests/properties",
    "tests/unit/apps/recorder/test_group_rows.py",
    "tests/unit/apps/recorder/test_node_rows.py",
    "tests/unit/client",
    "tests/unit/codec",
    "tests/unit/engine",
    "tests/unit/objects",
    "tests/unit/protocol",
    "tests/unit/recording",
    "tests/unit/runtime/test_clock.py",
    "tests/unit/runtime/streams/test_node_server.py",
    "tests/unit/schema",
    "tests/unit/test_build_info.py",
)
"""What the hot modules can change, so what has to pass in both builds."""

SPARK = ("tests/spark", "tests/unit/cli/pipeline", "tests/unit/spark")
"""What shares one Spark, so one process. It mostly waits, so it runs beside the rest."""

CHECKED = "tests/tidy"
"""What looks at the tree itself, its documents and examples: `make check` runs it."""

NICENESS = 5
"""Of the tests beside those of Spark."""

NO_TESTS = 5
"""How pytest ends when there was nothing to do."""

PYTEST = (sys.executable, "-P", "-m", "pytest", "-q")

JOBS = min(2, os.cpu_count() or 1)


def main(arguments: list[str]) -> int:
    os.chdir(ROOT)
    named = [argument for argument in arguments if Path(argument.partition("::")[0]).exists()]
    options = [argument for argument in arguments if argument not in named]
    if mode_of(None) == "plain":
        return run_plain_only(named or ["tests"], options)
    with beside_spark("compiled", named or ["tests"], options) as spark:
        compiled = run("compiled", None, named or ["tests"], options)
        again = [path for path in named or BOTH_WAYS if Path(path.partition("::")[0]).exists()]
        plain = run("plain", ROOT / "src", again, options)
    compiled = worst(compiled, spark.code)
    print(f"== compiled: {word(compiled)}, plain: {word(plain)}", flush=True)
    return worst(compiled, plain)


def run_plain_only(paths: list[str], options: list[str]) -> int:
    missing = "SKERRY_PURE is set" if wants_pure() else what_is_missing()
    print(f"== plain build only: {missing or 'the compilation failed'}", flush=True)
    with beside_spark("plain", paths, options) as spark:
        code = run("plain", None, paths, options)
    if missing is None:
        print("== error: there is a C compiler, and the hot modules do not compile", flush=True)
        return 1
    return worst(code, spark.code)


def run(mode: str, source: Path | None, paths: list[str], options: list[str]) -> int:
    """Run all tests of these paths but those that share Spark."""
    paths = [path for path in paths if not shares_spark(path)]
    if not paths:
        return NO_TESTS
    print(f"== {mode} build: {' '.join(paths)}", flush=True)
    left_out = [f"--ignore={folder}" for folder in spark_folders(paths)]
    if not any(is_below(path, CHECKED) for path in paths):
        left_out.append(f"--ignore={CHECKED}")
    command = [*PYTEST, *options, *parallel(), *left_out, *paths]
    # What shares Spark takes longest and has one process only, so it goes first where both could.
    running = subprocess.Popen(command, env=environment(mode, source))
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, running.pid, NICENESS)
    return running.wait()


class SparkTests:
    """The tests that share one Spark, and how they ended."""

    def __init__(self) -> None:
        self.code = NO_TESTS


@contextlib.contextmanager
def beside_spark(mode: str, paths: list[str], options: list[str]) -> Iterator[SparkTests]:
    """Run what shares Spark of these paths beside the body, and show at its end what it said."""
    tests = SparkTests()
    shared = [path for path in paths if shares_spark(path)]
    apart = list(dict.fromkeys([*spark_folders(paths), *shared]))
    if not apart:
        yield tests
        return
    print(f"== {mode} build, beside what follows: {' '.join(apart)}", flush=True)
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
            print(f"== {mode} build: {' '.join(apart)}\n{output.read()}", end="", flush=True)


def worst(*codes: int) -> int:
    """How all of it ended. Where tests are chosen by name, a part may have none of them."""
    return max((code for code in codes if code != NO_TESTS), default=NO_TESTS)


def spark_folders(paths: list[str]) -> list[str]:
    """The folders within these paths whose tests share one Spark."""
    return [folder for folder in SPARK if any(is_below(folder, path) for path in paths)]


def shares_spark(path: str) -> bool:
    """Whether what is named lies in a folder whose tests share one Spark."""
    return any(is_below(path, folder) for folder in SPARK)


def is_below(path: str, folder: str) -> bool:
    """Whether a path of tests is a folder, or lies in it."""
    return Path(path.partition("::")[0]).is_relative_to(folder)


def parallel() -> list[str]:
    # Files stay together, so that what a module sets up is set up once.
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


def what_is_missing() -> str | None:
    """Why nothing can be compiled here, as `setup.py` finds out; None where something can."""
    missing: str | None = runpy.run_path(str(ROOT / "setup.py"))["what_is_missing"]()
    return missing


def wants_pure() -> bool:
    return os.environ.get("SKERRY_PURE", "") not in ("", "0")


def word(code: int) -> str:
    return {0: "passed", NO_TESTS: "no tests"}.get(code, "FAILED")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
