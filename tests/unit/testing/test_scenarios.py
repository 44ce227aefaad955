"""Scenarios: finding them by name, running them, and what an outcome says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from skerry.errors import ConfigError
from skerry.testing import World, find_scenario, run_scenario, scenario
from skerry.testing.scenarios import SHIPPED, Scenario, known_scenarios
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


ROOT = Path(__file__).parents[3]
OWN_NAMES = (
    "carrier",
    "direct",
    "distributor",
    "heartbeat",
    "link",
    "moves",
    "requests",
    "slow",
    "stream-echo",
)


@pytest.mark.parametrize("name", [*SHIPPED, *OWN_NAMES])
def test_every_shipped_or_registered_scenario_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    found = find_scenario(name)
    assert isinstance(found, Scenario)
    assert found.summary
    assert found.node_count_min <= found.node_count <= found.node_count_max


def test_ones_own_scenario_is_found_by_module_and_name(own_module: str) -> None:
    outcome = run_scenario(f"{own_module}:odd", 2)
    assert outcome.error is None
    assert outcome.node_count == 3
    assert outcome.simulated_ns == 3 * 10**9


def test_the_project_registers_its_own_scenarios() -> None:
    assert list(known_scenarios(ROOT)) == sorted([*SHIPPED, *OWN_NAMES])


def test_a_scenario_is_registered_in_the_working_folder(
    own_module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '[tool.skerry.scenarios]\nodd-one = "own_scenarios:odd"\n[tool.other]\nx = 1\n'
    (tmp_path / "pyproject.toml").write_text(text)
    assert known_scenarios(tmp_path) == {**SHIPPED, "odd-one": f"{own_module}:odd"}
    monkeypatch.chdir(tmp_path)
    outcome = run_scenario("odd-one", 1)
    assert outcome.scenario == "odd-one"
    assert outcome.error is not None
    assert outcome.error.command == "skerry sim run --scenario odd-one --seed 1 --trace"
    with pytest.raises(ConfigError, match="no such scenario") as caught:
        find_scenario("even-one")
    assert caught.value.hint is not None
    assert "odd-one" in caught.value.hint


@pytest.mark.parametrize("text", [None, "", "[tool.other]\nx = 1\n", "[tool.skerry]\n"])
def test_without_a_table_the_scenarios_are_those_of_skerry(
    tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    assert known_scenarios(tmp_path) == SHIPPED


@pytest.mark.parametrize(
    ("text", "key", "detail"),
    [
        ("tool = 1", "tool", "this is not a table"),
        ("[tool]\nskerry = 1", "tool.skerry", "this is not a table"),
        ("[tool.skerry]\nscenarios = []", "tool.skerry.scenarios", "this is not a table"),
        ("[tool.skerry.scenario]\nx = 'a:b'", "tool.skerry.scenario", "there is no such key"),
        ("[tool.skerry.scenarios]\nx = 1", "tool.skerry.scenarios.x", "1 is not a text module:"),
        ("[tool.skerry.scenarios]\nx = 'a'", "tool.skerry.scenarios.x", "'a' is not a text mod"),
        ("[tool.skerry.scenarios]\nx = '.a:b'", "tool.skerry.scenarios.x", "'.a:b' is not a tex"),
        ("[tool.skerry.scenarios]\nx = 'a:'", "tool.skerry.scenarios.x", "'a:' is not a text mo"),
        ("[tool.skerry.scenarios]\nx.y = 'a:b'", "tool.skerry.scenarios.x", "{'y': 'a:b'} is no"),
        ("[tool.skerry.scenarios]\n'x:y' = 'a:b'", "tool.skerry.scenarios.x:y", "a name consist"),
        ("[tool.skerry.scenarios]\n'' = 'a:b'", "tool.skerry.scenarios.", "a name consists of"),
        ("[tool.skerry.scenarios]\necho = 'a:b'", "tool.skerry.scenarios.echo", "skerry itself "),
        ("[tool", "tool.skerry.scenarios", "not TOML: "),
        ("x = '\udcff'", "tool.skerry.scenarios", "not TOML: "),
    ],
)
def test_a_bad_table_is_explained(tmp_path: Path, text: str, key: str, detail: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError) as caught:
        known_scenarios(tmp_path)
    assert caught.value.detail.startswith(detail)
    assert (caught.value.key, caught.value.origin) == (key, str(path))
    assert caught.value.hint == 'a line of [tool.skerry.scenarios] is name = "module:attribute"'


def test_a_file_that_cannot_be_read_is_explained(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        known_scenarios(tmp_path)


def test_a_bad_table_does_not_affect_scenarios_that_do_not_need_it(
    own_module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool")
    monkeypatch.chdir(tmp_path)
    assert find_scenario("echo").summary
    assert find_scenario(f"{own_module}:odd").node_count == 3


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
