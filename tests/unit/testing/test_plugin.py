"""The pytest plugin, in a pytest of its own: the fixture, the seed, and the report of a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import skerry
from skerry.testing import World

pytestmark = pytest.mark.slow

TESTS = """
from skerry.testing import World
from skerry.testing.machines.echo import echo_server

def test_passes(world: World) -> None:
    assert isinstance(world, World)
    print("seed of test_passes", world.seed)

def test_asserts(world: World) -> None:
    world.add("a", echo_server)
    assert world.seed < 0

def test_waits_in_vain(world: World) -> None:
    world.add("b", echo_server)
    world.run_until(lambda: False, timeout_ns=10)

def test_has_no_world() -> None:
    assert not "simulated"
"""


def run_pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    (folder / "test_inside.py").write_text(TESTS)
    source = str(Path(skerry.__file__).parent.parent)
    options = ["-p", "skerry.testing.plugin", "-p", "no:cacheprovider", "-c", os.devnull]
    # Where one of these is set, pytest repeats whole failures in its summary.
    inherited = {k: v for k, v in os.environ.items() if k not in ("CI", "BUILD_NUMBER")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(folder), *arguments],
        cwd=folder,
        env={**inherited, "PYTHONPATH": source, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_failure_shows_its_seed_the_command_and_the_last_events(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, "test_inside.py")
    assert code == 1
    assert "1 passed" in output
    assert "3 failed" in output
    assert output.count(" simulation ") == 2, "one section for each failed test with a world"
    assert "repeat it with `pytest test_inside.py::test_asserts --sim-seed " in output
    assert "repeat it with `pytest test_inside.py::test_waits_in_vain --sim-seed " in output
    assert '{"_at_ns":0,"_node":"a","event":"start","life":1}' in output
    assert output.count('{"_at_ns":0,"_node":"b","event":"start","life":1}') == 1


def test_the_command_in_the_report_repeats_with_that_seed(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, "test_inside.py::test_passes", "--sim-seed", "77", "-s")
    assert code == 0
    assert "seed of test_passes 77" in output


def test_a_test_has_the_same_seed_every_time_and_another_than_its_neighbour(
    tmp_path: Path,
) -> None:
    _, first = run_pytest(tmp_path, "test_inside.py::test_passes", "-s")
    _, second = run_pytest(tmp_path, "test_inside.py::test_passes", "-s")
    seeds = [line for line in first.splitlines() if "seed of" in line]
    assert seeds == [line for line in second.splitlines() if "seed of" in line]
    _, other = run_pytest(tmp_path, "test_inside.py::test_asserts")
    assert seeds[0].split()[-1] not in other


def test_a_negative_seed_is_refused(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, "test_inside.py::test_passes", "--sim-seed", "-1")
    assert code != 0
    assert "must be at least 0" in output


def test_the_fixture_gives_an_empty_world_named_after_the_test(world: World) -> None:
    assert world.nodes == {}
    assert "test_the_fixture_gives_an_empty_world" in world.scenario
