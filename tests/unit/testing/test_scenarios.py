"""Scenarios: finding them by name, running them, and what an outcome says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from skerry.errors import ConfigError
from skerry.testing import World, find_scenario, run_scenario, scenario
from skerry.testing.scenarios import SHIPPED, Scenario
from tests.sim.probe import Probe

OWN = """
from skerry.testing import World, scenario, SECOND

@scenario("fails with odd seeds", node_count=3, node_count_max=5)
def odd(world: World, node_count: int) -> None:
    world.run_for(node_count * SECOND)
    if world.seed % 2:
        raise world.failure("parity", "the seed is odd")

nothing = 1
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_scenarios.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_scenarios", raising=False)
    return "own_scenarios"


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_every_shipped_scenario_is_found(name: str) -> None:
    found = find_scenario(name)
    assert isinstance(found, Scenario)
    assert found.summary
    assert found.node_count_min <= found.node_count <= found.node_count_max


def test_ones_own_scenario_is_found_by_module_and_name(own_module: str) -> None:
    outcome = run_scenario(f"{own_module}:odd", 2)
    assert outcome.error is None
    assert outcome.node_count == 3
    assert outcome.simulated_ns == 3 * 10**9


def test_a_failure_is_part_of_the_outcome(own_module: str) -> None:
    outcome = run_scenario(f"{own_module}:odd", 1, node_count=4)
    assert outcome.error is not None
    assert outcome.error.checker == "parity"
    assert outcome.error.command == (
        "skerry sim run --scenario own_scenarios:odd --seed 1 --nodes 4 --trace"
    )


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("nonsense", "no such scenario"),
        (":x", "no such scenario"),
        (".x:y", "no such scenario"),
        ("own_scenarios.:odd", "no such scenario"),
        ("no_such_module:x", "no module no_such_module"),
        ("own_scenarios.inner:x", "no module own_scenarios.inner"),
        ("own_scenarios:absent", "no scenario absent"),
        ("own_scenarios:nothing", "no scenario nothing"),
    ],
)
def test_a_wrong_name_is_explained(own_module: str, name: str, detail: str) -> None:
    with pytest.raises(ConfigError, match=detail) as caught:
        find_scenario(name)
    assert caught.value.hint is not None
    assert "echo" in caught.value.hint


@pytest.mark.parametrize("node_count", [0, 6])
def test_a_number_of_nodes_out_of_bounds_is_refused(own_module: str, node_count: int) -> None:
    with pytest.raises(ConfigError, match="not between 1 and 5"):
        run_scenario(f"{own_module}:odd", 2, node_count=node_count)


def test_a_sink_gets_the_whole_trace() -> None:
    lines: list[str] = []
    outcome = run_scenario("echo", 1, sink=lines.append)
    assert outcome.event_count > 0
    assert len(lines) > outcome.input_count / 2


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("def broken(:", "broken_scenarios.py:1: SyntaxError: "),
        ("\nraise ValueError('odd')", "broken_scenarios.py:2: ValueError: odd"),
        ("import json\njson.loads('{')", "broken_scenarios.py:2: json.decoder.JSONDecodeError: "),
        ("import no_such_module", "broken_scenarios.py:1: ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit(3)", "broken_scenarios.py:2: SystemExit: 3"),
    ],
)
def test_a_module_that_cannot_be_imported_is_reported_with_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, place: str
) -> None:
    (tmp_path / "broken_scenarios.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        find_scenario("broken_scenarios:x")
    expected = f"broken_scenarios cannot be imported: {tmp_path}/{place}"
    assert caught.value.detail.startswith(expected)
    assert caught.value.__cause__ is not None


def test_an_error_of_the_scenario_itself_is_a_failure_with_its_line() -> None:
    @scenario("has a bug itself", node_count=1)
    def buggy(world: World, _node_count: int) -> None:
        world.add("a", Probe)
        world.add("a", Probe)

    module = sys.modules[__name__]
    module.buggy = buggy  # type: ignore[attr-defined]
    error = run_scenario(f"{__name__}:buggy", 5).error
    assert error is not None
    line = buggy.play.__code__.co_firstlineno + 3
    assert error.checker == "scenario"
    assert error.detail == f"{__file__}:{line}: AssertionError: there is a node a already"
    assert isinstance(error.__cause__, AssertionError)
    assert "--seed 5" in error.command


def test_an_interruption_is_not_held_back() -> None:
    @scenario("is interrupted", node_count=1)
    def stopped(_world: World, _node_count: int) -> None:
        raise KeyboardInterrupt

    module = sys.modules[__name__]
    module.stopped = stopped  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        run_scenario(f"{__name__}:stopped", 0)
