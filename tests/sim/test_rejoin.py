"""A program that leaves something and asks for it again, while old updates are still on their way.

What was sent for the membership that ended must not be taken for news of the one that begins: an
object that went in between would stay for ever.
"""

from __future__ import annotations

from typing import Literal

import pytest

from skerry.testing import MS, SECOND, World
from skerry.testing.machines.node_checkers import ConsistentEvents, SameObjects
from skerry.testing.machines.node_host import NodeHost
from skerry.testing.machines.node_scenarios import play_node
from skerry.testing.machines.program import NODE, PLAIN, TYPES, Program


@pytest.mark.parametrize(("kind", "what"), [("type", PLAIN), ("pattern", f"/{PLAIN}/*")])
def test_a_slow_program_that_joins_again_has_the_objects_of_the_node(
    world: World, kind: Literal["type", "pattern"], what: str
) -> None:
    world.add("node", NodeHost, port=NODE.port, listens=True)
    writer, reader = world.add("writer", Program), world.add("reader", Program)
    consistent = ConsistentEvents()
    world.watch(consistent)
    world.watch(SameObjects("node", consistent))
    reader.do(lambda machine, now_ns: machine.subscribe("type", PLAIN, now_ns))
    world.run_until(lambda: writer.machine.is_steady and reader.machine.is_steady)
    (end,) = reader.streams.values()
    world.network.streams.read_slowly(end, pause_ns=SECOND)
    boat = TYPES[PLAIN](id="b1", number=1)
    writer.do(lambda m, now_ns: m.publish(boat, now_ns, only=["id", "number"], subject=""))
    world.run_for(10 * MS)
    reader.do(lambda machine, now_ns: machine.unsubscribe(1, now_ns))
    world.run_for(10 * MS)
    writer.do(lambda machine, now_ns: machine.remove(boat, now_ns, subject=""))
    world.run_for(10 * MS)
    reader.do(lambda machine, now_ns: machine.subscribe(kind, what, now_ns))
    world.run(faults_ns=2 * SECOND, calm_ns=SECOND)


@pytest.mark.slow
def test_programs_that_join_again_under_faults_have_the_objects_of_the_node() -> None:
    for seed in range(10):
        play_node(World(seed), 5)
