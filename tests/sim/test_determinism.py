"""The same seed gives the same trace, byte for byte: here, elsewhere, and with other hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import skerry
from skerry.testing import run_scenario
from skerry.testing.scenarios import known_scenarios

ROOT = Path(__file__).parents[2]
SOURCE = str(Path(skerry.__file__).parent.parent)
NAMES = list(known_scenarios(ROOT))

PRINT_TRACES = """
import sys
from skerry.testing import run_scenario
for name in sys.argv[1:]:
    outcome = run_scenario(name, 11, sink=print)
    print(outcome.digest)
"""


def traces(hash_seed: str) -> bytes:
    """All lines of seed 11 of every scenario, from a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PRINT_TRACES, *NAMES],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{SOURCE}:{ROOT}", "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
    )
    return done.stdout


@pytest.mark.slow
def test_processes_with_different_hash_seeds_write_the_same_bytes() -> None:
    first = traces("0")
    assert first.count(b"\n") > 5000
    for hash_seed in ("1", "random"):
        assert traces(hash_seed) == first


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_run_repeats_in_one_process_whether_or_not_it_is_watched(name: str) -> None:
    lines: list[str] = []
    watched = run_scenario(name, 5, sink=lines.append)
    alone = run_scenario(name, 5)
    assert watched == alone
    assert len(lines) > 500


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_different_seeds_give_different_runs(name: str) -> None:
    assert run_scenario(name, 0).digest != run_scenario(name, 1).digest


def test_another_number_of_nodes_is_another_run() -> None:
    assert run_scenario("echo", 1, node_count=3).digest != run_scenario("echo", 1).digest
