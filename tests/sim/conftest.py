"""A node with an observer, and connected programs that send requests and own objects."""

from __future__ import annotations

import pytest

from skerry.testing import Node, World
from skerry.testing.machines.program import NODE
from tests.sim.request_host import RequestHost
from tests.sim.request_program import RequestProgram


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
