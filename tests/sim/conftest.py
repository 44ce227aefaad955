"""Shared by the tests of simulated systems.

The working folder in which scenarios have their names, a node with an observer, and connected
programs that send requests and own objects.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.testing import Node, World
from skerry.testing.machines.program import NODE
from tests.sim.request_host import RequestHost
from tests.sim.request_program import RequestProgram


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenarios are found by the names that the project registers."""
    monkeypatch.chdir(Path(__file__).parents[2])


@pytest.fixture
def host(world: World) -> Node[RequestHost]:
    """The node."""
    return world.add(NODE.host, RequestHost, port=NODE.port, listens=True)


@pytest.fixture
def pair(world: World, host: Node[RequestHost]) -> tuple[Node[RequestProgram], ...]:
    """Two programs, connected to the node."""
    programs = tuple(world.add(name, RequestProgram) for name in ("one", "two"))
    world.run_until(lambda: all(program.machine.is_steady for program in programs))
    return programs
