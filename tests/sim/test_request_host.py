"""A node with a witness, which reports what the node accepts, in order."""

from __future__ import annotations

from typing import Any

from skerry.testing import MS, Node, World
from skerry.testing.machines.program import MESSAGE, PLAIN, TYPES
from tests.sim.request_history import TASKS
from tests.sim.request_host import (
    OBSERVER,
    OWNED_TYPES,
    REQUEST_LIMITS,
    HolderChanged,
    RequestCompleted,
    RequestHost,
    UpdateAccepted,
)
from tests.sim.request_program import RequestProgram

Pair = tuple[Node[RequestProgram], ...]


def publish(program: Node[RequestProgram], name: str, key: str) -> None:
    obj = TYPES[name](id=key, number=1)
    program.do(lambda m, now_ns: m.publish(obj, now_ns, only=["id", "number"], subject=""))


def witnessed(host: Node[RequestHost]) -> list[Any]:
    return [
        event
        for event in host.events
        if isinstance(event, (UpdateAccepted, RequestCompleted, HolderChanged))
    ]


def test_claims_and_updates_are_reported_in_order_of_acceptance(
    world: World, host: Node[RequestHost], pair: Pair
) -> None:
    one, _ = pair
    client = one.machine.space.connection.client_id
    publish(one, PLAIN, "b1")
    one.do(lambda m, now_ns: m.own(PLAIN, ["b1"], now_ns, is_standby=False))
    publish(one, PLAIN, "b1")
    publish(one, MESSAGE, "b1")
    one.do(lambda m, now_ns: m.release(m.claims[0], now_ns))
    world.run_for(MS)
    accepted = UpdateAccepted(type_name=PLAIN, id="b1", sender=client)
    assert witnessed(host) == [
        accepted,
        HolderChanged(kind="objects", subject="/Boat/b1", client=client),
        accepted,
        HolderChanged(kind="objects", subject="/Boat/b1", client=0),
    ]


def test_ends_of_requests_are_reported(world: World, host: Node[RequestHost], pair: Pair) -> None:
    one, two = pair
    task = TASKS["Task"](number=9, manner="now")
    one.do(lambda m, now_ns: m.ask(task, now_ns, to="", timeout_s=1.0))
    world.run_for(MS)
    two.do(lambda m, now_ns: m.serve("Task", "", now_ns, is_standby=False))
    world.run_for(MS)
    task.number = 10
    one.do(lambda m, now_ns: m.ask(task, now_ns, to="", timeout_s=1.0))
    world.run_for(MS)
    client = two.machine.space.connection.client_id
    assert witnessed(host) == [
        RequestCompleted(number=9, outcome="not_registered", server=0),
        HolderChanged(kind="requests", subject="/Task", client=client),
        RequestCompleted(number=10, outcome="answered", server=client),
    ]


def test_the_observer_exists_in_each_life_and_is_not_on_the_network(
    world: World, host: Node[RequestHost], pair: Pair
) -> None:
    for _ in range(2):
        names = [row.name for row in host.machine.statistics().clients]
        assert sorted(names) == ["observer", "one", "two"]
        assert all(peer != OBSERVER for peer in host.streams)
        world.restart(host, down_ns=MS)
        world.run_for(MS)
        world.run_until(lambda: all(program.machine.is_steady for program in pair))


def test_limits_are_reached_soon() -> None:
    assert REQUEST_LIMITS.request_count_max < 100
    assert REQUEST_LIMITS.claim_count_max < 10
    assert all(TYPES[name].descriptor.flags.cached for name in OWNED_TYPES)
