"""The simulator in pytest: a `world` fixture, and the seed in the report of a failed test.

Every test has its own seed, derived from its name, so that runs are reproducible. `--sim-seed N`
sets the seed of all tests.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator

import pytest

from skerry.errors import SimulationError
from skerry.ids import hash64
from skerry.testing.world import TAIL_LINE_COUNT, World


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("skerry", "the simulator of skerry").addoption(
        "--sim-seed",
        type=int,
        default=None,
        metavar="N",
        help="seed of every simulated world; by default each test has its own",
    )


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World:
    """An empty world, with a seed from the name of the test or from --sim-seed."""
    name: str = request.node.nodeid
    seed: int | None = request.config.getoption("--sim-seed")
    if seed is None:
        # Short enough to be read and typed.
        seed = hash64(name) % 1_000_000
    if seed < 0:
        raise pytest.UsageError(f"--sim-seed is {seed}, but must be at least 0")
    command = f"pytest {shlex.quote(name)} --sim-seed {seed}"
    return World(seed, scenario=name, command=command)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the command that repeats a failure, and the last events, to the report."""
    report = yield
    failed_world = getattr(item, "funcargs", {}).get("world")
    if report.failed and isinstance(failed_world, World):
        lines = [f"seed {failed_world.seed}", f"repeat it with `{failed_world.command}`"]
        # A simulation error has its events as notes.
        if call.excinfo is None or not isinstance(call.excinfo.value, SimulationError):
            lines += failed_world.trace.tail(TAIL_LINE_COUNT)
        report.sections.append(("simulation", "\n".join(lines)))
    return report
