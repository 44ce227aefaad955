"""A client program: it receives what it subscribes to, and reports what it receives."""

from __future__ import annotations

from typing import Any

from skerry.client.core.states import SpaceState
from skerry.protocol.machine import Paced, StreamMachine, WallClocked
from skerry.testing import MS, SECOND, Factory, Node, World
from skerry.testing.machines.node_host import NodeHost
from skerry.testing.machines.program import (
    FIELDS,
    NODE,
    PLAIN,
    TYPES,
    Doubted,
    Failed,
    Flushed,
    Program,
    Seen,
)


def build(world: World, *names: str) -> tuple[Node[NodeHost], list[Node[Program]]]:
    node = world.add("node", NodeHost, port=NODE.port, listens=True)
    programs = [world.add(name, Program) for name in names]
    world.run_until(lambda: all(program.machine.is_steady for program in programs))
    return node, programs


def publish(program: Node[Program], key: str, only: list[str], **fields: Any) -> None:
    boat = TYPES[PLAIN](id=key, **fields)
    program.do(lambda m, now_ns: m.publish(boat, now_ns, only=["id", *only], subject=""))


def seen(program: Node[Program]) -> list[Seen]:
    return [event for event in program.events if isinstance(event, Seen)]


def ask(program: Node[Program], kind: Any, what: str, **options: Any) -> None:
    program.do(lambda machine, now_ns: machine.subscribe(kind, what, now_ns, **options))


def test_a_program_is_a_machine_that_can_be_paced(world: World) -> None:
    _, (program,) = build(world, "one")
    for kind in (StreamMachine, Paced, WallClocked):
        assert isinstance(program.machine, kind)


def test_events_have_the_update_and_the_resulting_object(world: World) -> None:
    _, (one, two) = build(world, "one", "two")
    ask(two, "type", PLAIN)
    world.run_for(MS)
    publish(one, "b1", ["number", "level"], number=1, level=5)
    publish(one, "b1", ["number", "level"], number=2)
    one.do(lambda m, now_ns: m.remove(TYPES[PLAIN](id="b1"), now_ns, subject=""))
    world.run_for(MS)
    created, updated, removed = seen(two)
    assert created.operation == "create"
    assert created.state == created.update == {"number": 1, "level": 5}
    assert updated.update == {"number": 2, "level": None}
    assert updated.state == {"number": 2}
    assert removed.operation == "remove"
    assert removed.state == {"number": 2}


def test_a_condition_and_a_pattern_select_events(world: World) -> None:
    _, (one, two) = build(world, "one", "two")
    ask(two, "where", PLAIN, level_min=4, fields=("number",))
    ask(two, "pattern", f"/{PLAIN}/b2")
    world.run_for(MS)
    publish(one, "b1", list(FIELDS), number=1, level=5)
    publish(one, "b2", list(FIELDS), number=2, level=3)
    world.run_for(MS)
    assert [(event.subscription, event.id, event.state) for event in seen(two)] == [
        (1, "b1", {"number": 1}),
        (2, "b2", {"number": 2, "level": 3}),
    ]


def test_a_version_1_program_receives_the_same(world: World) -> None:
    _, (one, two) = build(world, "one", "old-two")
    ask(two, "where", PLAIN, level_min=4)
    world.run_for(MS)
    publish(one, "b1", ["number", "level"], number=1, level=5)
    world.run_for(MS)
    assert [event.state for event in seen(two)] == [{"number": 1, "level": 5}]


def test_after_a_condition_on_a_type_that_is_here_an_old_program_is_steady(world: World) -> None:
    _, (program,) = build(world, "old-one")
    ask(program, "type", PLAIN)
    world.run_for(MS)
    ask(program, "where", PLAIN, level_min=4)
    world.run_for(MS)
    assert program.machine.is_steady


def test_a_program_with_a_pattern_reconnects(world: World) -> None:
    node, (program,) = build(world, "one")
    ask(program, "pattern", "/...")
    world.run_for(MS)
    world.restart(node, down_ns=MS)
    world.run_for(SECOND)
    assert program.machine.is_steady
    assert program.machine.statistics().connected_count == 2


def test_no_events_arrive_after_unsubscribing(world: World) -> None:
    _, (one, two) = build(world, "one", "two")
    ask(two, "type", PLAIN)
    world.run_for(MS)
    two.do(lambda machine, now_ns: machine.unsubscribe(1, now_ns))
    publish(one, "b1", ["number"], number=1)
    world.run_for(MS)
    assert seen(two) == []
    assert two.machine.has_left


def test_a_cleared_type_has_no_objects(world: World) -> None:
    node, (program,) = build(world, "one")
    publish(program, "b1", ["number"], number=1)
    program.do(lambda machine, now_ns: machine.clear(PLAIN, now_ns))
    world.run_for(MS)
    assert node.machine.core.cache.count(PLAIN) == 0


def test_a_flush_is_over_with_the_answer_or_in_doubt_with_the_connection(world: World) -> None:
    node, (program,) = build(world, "one")
    publish(program, "b1", ["number"], number=1)
    program.do(lambda machine, now_ns: machine.flush(1, now_ns))
    world.run_for(MS)
    assert Flushed(number=1) in program.events
    publish(program, "b1", ["number"], number=2)
    program.do(lambda machine, now_ns: machine.flush(2, now_ns))
    world.crash(node)
    world.run_for(MS)
    assert Doubted(number=2) in program.events
    assert Flushed(number=2) not in program.events


def test_the_next_flush_reports_lost_publishes(world: World) -> None:
    node, (program,) = build(world, "one")
    publish(program, "b1", ["number"], number=1)
    world.crash(node)
    world.run_for(MS)
    program.do(lambda machine, now_ns: machine.flush(1, now_ns))
    assert program.events[-1] == Doubted(number=1)


def test_a_failed_callback_is_reported(world: World) -> None:
    class Clumsy(Program):
        def _on_event(self, number: int, event: Any) -> None:
            raise ValueError("dropped it")

    world.add("node", NodeHost, port=NODE.port, listens=True)
    factory: Factory[Program] = Clumsy
    program = world.add("one", factory)
    ask(program, "type", PLAIN)
    world.run_until(lambda: program.machine.is_steady)
    publish(program, "b1", ["number"], number=1)
    world.run_for(MS)
    assert program.events[-1] == Failed(detail="ValueError: dropped it")


def test_changes_of_connection_or_subscriptions_begin_a_new_turn(world: World) -> None:
    node, (program,) = build(world, "one")
    turn = program.machine.turn
    ask(program, "type", PLAIN)
    assert program.machine.turn == turn + 1
    world.restart(node, down_ns=MS)
    world.run_for(SECOND)
    assert program.machine.space.connection.state is SpaceState.CONNECTED
    assert program.machine.turn == turn + 3
