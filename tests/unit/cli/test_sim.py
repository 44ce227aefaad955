"""`skerry sim`: output, kept seeds and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.testing.scenarios import SHIPPED, known_scenarios
from skerry.testing.seeds import read_seeds

OWN = """
from skerry.testing import World, scenario, SECOND
from tests.sim.probe import Probe

@scenario("fails with odd seeds", node_count=2, node_count_max=5)
def odd(world: World, node_count: int) -> None:
    for n in range(node_count):
        world.add(f"node-{n}", Probe)
    world.run_for(SECOND)
    if world.seed % 2:
        raise world.failure("parity", "the seed is odd")
"""

ROOT = Path(__file__).parents[3]

Run = Callable[..., Any]


@pytest.fixture
def odd(clean_place: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A scenario in the folder where the command is run."""
    (clean_place / "own_sims.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_sims", raising=False)
    return "own_sims:odd"


@pytest.fixture
def registered(odd: str, clean_place: Path) -> str:
    """The scenario with a short name."""
    (clean_place / "pyproject.toml").write_text(f'[tool.skerry.scenarios]\nuneven = "{odd}"\n')
    return "uneven"


@pytest.fixture
def in_the_project(clean_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is run in the folder of the project."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(ROOT)


def test_a_run_that_passes_is_one_line(run: Run) -> None:
    done = run("sim", "run", "--scenario", "echo", "--seed", "7")
    assert done.code == 0
    assert done.out.startswith("echo seed 7: ok, 4 nodes, ")
    assert done.out.count("\n") == 1
    assert done.err == ""


def test_the_same_seed_gives_the_same_line_and_another_seed_another(run: Run) -> None:
    first = run("sim", "run", "--scenario", "echo", "--seed", "1").out
    assert run("sim", "run", "--scenario", "echo", "--seed", "1").out == first
    assert run("sim", "run", "--scenario", "echo", "--seed", "2").out != first


def test_without_a_scenario_all_are_run_with_seed_0(run: Run) -> None:
    done = run("sim", "run")
    assert done.code == 0
    assert [line.split(":")[0] for line in done.out.splitlines()] == [
        f"{name} seed 0" for name in SHIPPED
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("in_the_project")
def test_the_scenarios_of_the_project_are_run_by_their_names(run: Run) -> None:
    names = list(known_scenarios(ROOT))
    assert set(SHIPPED) < set(names)
    done = run("sim", "run")
    assert done.code == 0
    assert [line.split(",")[0] for line in done.out.splitlines()] == [
        f"{name} seed 0: ok" for name in names
    ]


@pytest.mark.usefixtures("in_the_project")
def test_the_scenarios_of_the_project_are_listed(run: Run) -> None:
    done = run("sim", "list")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()[1:]] == list(known_scenarios(ROOT))


def test_a_registered_scenario_is_listed_and_run_by_its_name(run: Run, registered: str) -> None:
    rows = [json.loads(line) for line in run("sim", "list", "--json").out.splitlines()]
    assert [row["scenario"] for row in rows] == [*SHIPPED, registered]
    assert rows[-1] == {"scenario": registered, "nodes": 2, "summary": "fails with odd seeds"}
    done = run("sim", "run", "--scenario", registered, "--seed", "3")
    assert done.code == 1
    assert done.out.startswith("uneven seed 3: failed, 2 nodes, ")
    assert "`skerry sim run --scenario uneven --seed 3 --trace`" in done.err
    done = run("sim", "run")
    assert [line.split(":")[0] for line in done.out.splitlines()] == [
        f"{name} seed 0" for name in (*SHIPPED, registered)
    ]


@pytest.mark.parametrize("command", [("list",), ("run",), ("run", "--scenario", "uneven")])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.skerry]\nscenarios = 1\n", "tool.skerry.scenarios ({path}): this is not a table"),
        ("[tool.skerry.scenarios]\nuneven = 7\n", "7 is not a text module:attribute"),
        (
            "[tool.skerry.scenarios]\nuneven = 'no_such_module:x'\n",
            "scenario (uneven): there is no module no_such_module",
        ),
        (
            "[tool.skerry.scenarios]\nuneven = 'own_sims:even'\n",
            "scenario (uneven): own_sims has no scenario even",
        ),
    ],
)
def test_a_wrong_registration_is_a_wrong_command(
    run: Run, odd: str, clean_place: Path, command: tuple[str, ...], text: str, message: str
) -> None:
    path = clean_place / "pyproject.toml"
    path.write_text(text)
    done = run("sim", *command)
    assert (done.code, done.out) == (2, "")
    assert message.format(path=path) in done.err
    assert "fault of skerry" not in done.err


def test_the_number_of_nodes_can_be_chosen(run: Run) -> None:
    done = run("sim", "run", "--scenario", "echo", "--nodes", "2")
    assert done.out.startswith("echo seed 0: ok, 2 nodes, ")


def test_a_failure_is_printed_with_its_last_events_and_the_command(run: Run, odd: str) -> None:
    done = run("sim", "run", "--scenario", odd, "--seed", "3", "--nodes", "1")
    assert done.code == 1
    assert done.out.startswith("own_sims:odd seed 3: failed, 1 nodes, ")
    lines = done.err.splitlines()
    assert json.loads(lines[0])["event"] == "start"
    assert lines[-2] == "error: own_sims:odd with seed 3: parity: the seed is odd"
    assert lines[-1] == (
        "hint:  repeat it with `skerry sim run --scenario own_sims:odd --seed 3 --nodes 1 --trace`"
    )


@pytest.mark.parametrize("how", [("--seeds", "10..15"), ("--seed", "10", "--count", "5")])
def test_many_seeds_end_in_a_summary(run: Run, odd: str, how: tuple[str, ...]) -> None:
    done = run("sim", "run", "--scenario", odd, *how)
    assert done.code == 1
    lines = done.out.splitlines()
    assert [line.split(",")[0] for line in lines[:-1]] == [
        "own_sims:odd seed 11: failed",
        "own_sims:odd seed 13: failed",
    ]
    assert lines[-1].startswith("own_sims:odd: 5 seeds, 2 failed, ")


def test_json_gives_one_object_per_run(run: Run, odd: str) -> None:
    done = run("sim", "run", "--scenario", odd, "--count", "2", "--json")
    fine, failed = (json.loads(line) for line in done.out.splitlines())
    assert done.code == 1
    assert (fine["seed"], fine["ok"], fine["nodes"], fine["simulated_s"]) == (0, True, 2, 1.0)
    assert len(fine["digest"]) == 64
    assert "checker" not in fine
    assert (failed["seed"], failed["ok"], failed["checker"]) == (1, False, "parity")
    assert failed["detail"] == "the seed is odd"
    assert failed["command"].startswith("skerry sim run --scenario own_sims:odd --seed 1")


def test_the_trace_is_every_event_as_json(run: Run) -> None:
    done = run("sim", "run", "--scenario", "echo", "--trace", "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert rows[-1]["ok"]
    assert rows[0] == {"_at_ns": 0, "_node": "server", "event": "start", "life": 1}
    assert {"receive", "stopped", "advance", "Answered", "pause"} <= {
        row["event"] for row in rows[:-1]
    }


def test_failing_seeds_are_kept_once(run: Run, odd: str, clean_place: Path) -> None:
    path = clean_place / "seeds.toml"
    done = run("sim", "run", "--scenario", odd, "--count", "4", "--keep", path)
    assert done.err.count("kept in ") == 2
    run("sim", "run", "--scenario", odd, "--count", "4", "--keep", path)
    kept = read_seeds(path)
    assert [(seed.scenario, seed.seed, seed.nodes) for seed in kept] == [
        ("own_sims:odd", 1, None),
        ("own_sims:odd", 3, None),
    ]
    assert kept[0].why == "parity: the seed is odd"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scenario", "nope"), "there is no such scenario"),
        (("--scenario", "no_such_module:x"), "there is no module no_such_module"),
        (("--scenario", ":x"), "there is no such scenario"),
        (("--scenario", ".x:y"), "there is no such scenario"),
        (("--scenario", "echo", "--nodes", "1"), "1 is not between 2 and 100"),
        (("--scenario", "echo", "--seed", "-1"), "--seed"),
        (("--scenario", "echo", "--count", "0"), "--count"),
        (("--seeds", "5..5"), "not a range of seeds"),
        (("--seeds", "5"), "not a range of seeds"),
        (("--seeds", "a..b"), "not a range of seeds"),
        (("--seeds", f"0..{2**63 + 1}"), f"the largest seed is {2**63 - 1}"),
        (("--seeds", "0..100000000000000000000000000"), "the largest seed is"),
        (("--seeds", f"0..{'9' * 5000}"), "the largest seed is"),
        (("--seed", str(2**63)), "--seed"),
        (("--seed", "5", "--count", str(2**63 - 4)), "choose a smaller --count"),
        (("--seeds", "1..5", "--seed", "1"), "--seeds excludes --seed and --count"),
        (("--seeds", "1..5", "--count", "1"), "--seeds excludes --seed and --count"),
    ],
)
def test_a_wrong_command_is_explained(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run("sim", "run", *arguments)
    assert done.code == 2
    assert message in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def broken(:\n", "broken_sims.py:1: SyntaxError: "),
        ("\n1 / 0\n", "broken_sims.py:2: ZeroDivisionError: division by zero"),
    ],
)
def test_a_module_that_cannot_be_imported_is_a_wrong_command(
    run: Run, clean_place: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    (clean_place / "broken_sims.py").write_text(text)
    monkeypatch.setattr(sys, "path", list(sys.path))
    done = run("sim", "run", "--scenario", "broken_sims:x")
    assert (done.code, done.out) == (2, "")
    assert f"broken_sims cannot be imported: {clean_place}/{message}" in done.err
    assert "fault of skerry" not in done.err


def test_a_scenario_that_raises_is_a_failure_with_its_line(
    run: Run, clean_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clean_place / "raising_sims.py").write_text(OWN.replace("world.run_for(SECOND)", "1 / 0"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "raising_sims", raising=False)
    done = run("sim", "run", "--scenario", "raising_sims:odd", "--seed", "4")
    assert done.code == 1
    assert done.out.startswith("raising_sims:odd seed 4: failed, 2 nodes, ")
    assert done.err.splitlines()[-2] == (
        "error: raising_sims:odd with seed 4: scenario:"
        f" {clean_place}/raising_sims.py:9: ZeroDivisionError: division by zero"
    )
    assert "Traceback" not in done.err
    done = run("--debug", "sim", "run", "--scenario", "raising_sims:odd", "--seed", "4")
    assert "Traceback (most recent call last)" in done.err


@pytest.mark.parametrize(
    ("how", "seed"),
    [
        (("--seeds", f"{2**63 - 1}..{2**63}"), 2**63 - 1),
        (("--seed", str(2**63 - 1), "--count", "1"), 2**63 - 1),
        (("--seeds", "000000000000000000000000000007..8"), 7),
    ],
)
def test_the_largest_seed_is_run_and_kept(
    run: Run, odd: str, clean_place: Path, how: tuple[str, ...], seed: int
) -> None:
    path = clean_place / "seeds.toml"
    done = run("sim", "run", "--scenario", odd, *how, "--keep", path)
    assert done.code == 1
    assert done.out.startswith(f"own_sims:odd seed {seed}: failed, ")
    assert [kept.seed for kept in read_seeds(path)] == [seed]


def test_the_list_names_every_shipped_scenario(run: Run) -> None:
    done = run("sim", "list")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()[1:]] == list(SHIPPED)
    rows = [json.loads(line) for line in run("sim", "list", "--json").out.splitlines()]
    assert [row["scenario"] for row in rows] == list(SHIPPED)
    assert all(row["summary"] and row["nodes"] > 1 for row in rows)


def test_a_file_of_seeds_with_a_mistake_is_not_added_to(
    run: Run, odd: str, clean_place: Path
) -> None:
    path = clean_place / "seeds.toml"
    path.write_text("seed = [1]\n")
    done = run("sim", "run", "--scenario", odd, "--seed", "1", "--keep", path)
    assert done.code == 1
    assert done.err.splitlines()[-1].endswith("only [[seed]] tables belong here")
    assert path.read_text() == "seed = [1]\n"


def test_the_help_teaches_by_example(run: Run) -> None:
    done = run("sim", "run", "--help")
    assert done.code == 0
    assert "skerry sim run --scenario echo --seed 7 --trace" in done.out
    assert "--keep FILE" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("seeds", ["0..1000000", f"0..{2**63}"])
def test_many_seeds_that_end_on_sigterm_have_not_all_been_run(seeds: str) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "skerry", "sim", "run"),
            *("--scenario", "echo", "--seeds", seeds, "--json"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1
    assert err == "stopping; once more to interrupt\nstopped before all seeds were run\n"


def test_a_signal_during_the_last_seed_changes_nothing(
    run: Run, clean_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signalled = "import os, signal; os.kill(os.getpid(), signal.SIGTERM); world.run_for(SECOND)"
    (clean_place / "signal_sims.py").write_text(OWN.replace("world.run_for(SECOND)", signalled))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "signal_sims", raising=False)
    done = run("sim", "run", "--scenario", "signal_sims:odd", "--seed", "0")
    assert done.code == 0
    assert "stopped before" not in done.err
    done = run("sim", "run", "--scenario", "signal_sims:odd", "--seeds", "0..9")
    assert done.code == 1
    assert done.out.startswith("signal_sims:odd: 1 seeds, 0 failed, ")
