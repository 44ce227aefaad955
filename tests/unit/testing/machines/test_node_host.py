"""A node with a simulated disk: what a crash leaves of it."""

from __future__ import annotations

from random import Random

import pytest

from skerry.engine.persistence import StoredObject, WriteBatch
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address, Durable, Paced, StreamMachine, WallClocked
from skerry.testing import MS, SECOND, Node, Setting, World
from skerry.testing.machines.node_checkers import objects_of
from skerry.testing.machines.node_host import WRITE_NS_MAX, Disk, NodeHost
from skerry.testing.machines.program import NODE, PERSISTENT, TYPES, Flushed, Program
from skerry.tracing import NO_TRACE


def stored(key: bytes, payload: bytes = b"\xa0") -> StoredObject:
    return StoredObject("Chart", key, payload, "", 1, 2, 3, 4, 5, 6)


def setting(seed: int = 1, disk: bytes | None = None) -> Setting:
    return Setting(
        name="node",
        address=Address("node", 7),
        now_ns=0,
        wall_offset_ns=0,
        rng=Random(seed),
        tracer=NO_TRACE,
        life=1,
        disk=disk,
    )


def node_and_program(world: World) -> tuple[Node[NodeHost], Node[Program]]:
    node = world.add("node", NodeHost, port=NODE.port, listens=True)
    program = world.add("program", Program)
    world.run_until(lambda: program.machine.is_steady)
    return node, program


def publish(program: Node[Program], key: str, number: int) -> None:
    chart = TYPES[PERSISTENT](id=key, number=number)
    program.do(lambda m, now_ns: m.publish(chart, now_ns, only=["id", "number"], subject=""))


def test_a_disk_has_the_applied_batches() -> None:
    disk = Disk(None)
    disk.apply(WriteBatch(number=1, puts=(stored(b"a"), stored(b"b")), meta={"position": 3}))
    disk.apply(WriteBatch(number=2, puts=(stored(b"a", b"\xa1"),), drops=(("Chart", b"b"),)))
    again = Disk(disk.dump())
    assert again.rows() == [stored(b"a", b"\xa1")]
    assert again.meta == {"position": 3}


def test_a_host_is_all_that_a_driver_asks_of_a_node() -> None:
    host = NodeHost(setting())
    for kind in (StreamMachine, Paced, Durable, WallClocked):
        assert isinstance(host, kind)


@pytest.mark.parametrize(("name", "wire"), [("old-1", OldWire), ("program-1", Wire)])
def test_programs_are_greeted_in_the_framing_of_their_name(name: str, wire: type[Wire]) -> None:
    host = NodeHost(setting())
    host.stream_opened(Address(name, 1, is_stream=True), 0)
    (greeting,) = host.take_transmits()
    ((header, _),) = wire().feed(greeting.data)
    assert header.type_name == "DotsMsgHello"


def test_confirmed_objects_survive_a_crash(world: World) -> None:
    node, program = node_and_program(world)
    publish(program, "k1", 1)
    program.do(lambda machine, now_ns: machine.flush(1, now_ns))
    world.run_until(lambda: any(isinstance(event, Flushed) for event in program.events))
    world.restart(node, down_ns=MS)
    world.run_for(10 * MS)
    assert node.life == 2
    assert objects_of(node.machine, PERSISTENT) == {"k1": {"number": 1}}


def test_a_flush_is_not_answered_before_the_disk_is_done(world: World) -> None:
    node, program = node_and_program(world)
    publish(program, "k1", 1)
    program.do(lambda machine, now_ns: machine.flush(1, now_ns))
    world.run_until(lambda: bool(program.events) and isinstance(program.events[-1], Flushed))
    journal = node.machine.journal
    assert journal.stored == journal.number > 0


def test_a_crash_during_a_write_leaves_all_or_nothing() -> None:
    found: set[int] = set()
    for seed in range(12):
        world = World(seed)
        node, program = node_and_program(world)
        for number in range(3):
            publish(program, f"k{number}", number + 1)
        world.run_for(MS)
        world.restart(node, down_ns=MS)
        world.run_for(2 * MS)
        found.add(len(objects_of(node.machine, PERSISTENT)))
    assert found >= {0, 3}


def test_a_batch_that_could_not_be_written_is_written_later() -> None:
    failure_count = 0
    for seed in range(30):
        world = World(seed)
        node, program = node_and_program(world)
        publish(program, "k1", 1)
        world.run_for(WRITE_NS_MAX + 2 * MS)
        failure_count += node.machine.journal.statistics().failure_count
        world.run_for(SECOND)
        assert list(node.machine.disk.objects) != []
    assert failure_count > 0
