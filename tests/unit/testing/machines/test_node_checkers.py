"""The checkers of a node and its clients, each with events that a test makes up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from skerry.client.core.states import Refusal, SpaceState, StateChanged
from skerry.engine.dispatch.ledger import RequestCounts
from skerry.engine.events import ClientDisconnected, ClientRefused
from skerry.protocol.machine import MachineEvent
from skerry.testing import MS, SECOND, Node, World
from skerry.testing.machines.node_checkers import (
    Bounded,
    CleanedUp,
    ConfirmedIsKept,
    ConflatedIsNotCut,
    ConsistentEvents,
    Explained,
    Genuine,
    NobodyIsBlamed,
    NothingLeftOut,
    OrderKept,
    SameObjects,
    objects_of,
)
from skerry.testing.machines.node_host import NodeHost
from skerry.testing.machines.program import (
    CLEANUP,
    MESSAGE,
    NODE,
    PERSISTENT,
    PLAIN,
    TYPES,
    Doubted,
    Failed,
    Flushed,
    History,
    Program,
    Seen,
)


def seen(operation: str = "create", **facts: Any) -> Seen:
    defaults: dict[str, Any] = {
        "subscription": 1,
        "type_name": PLAIN,
        "id": "b1",
        "is_from_cache": False,
        "update": {},
        "state": {},
        "is_replay_complete": True,
        "turn": 1,
    }
    return Seen(operation=operation, **{**defaults, **facts})


def notified(number: int, **facts: Any) -> Seen:
    return seen("update", update={"number": number}, state={"number": number}, **facts)


@pytest.fixture
def node(world: World) -> Node[NodeHost]:
    return world.add("node", NodeHost, port=NODE.port, listens=True)


@pytest.fixture
def program(world: World, node: Node[NodeHost]) -> Node[Program]:
    """With subscription 1 to all of a type, and 2 that may be conflated."""
    program = world.add("program", Program)
    for on_slow in ("disconnect", "conflate"):
        program.do(lambda m, now_ns, on_slow=on_slow: ask(m, now_ns, on_slow))  # type: ignore[misc]
    world.run_until(lambda: program.machine.is_steady)
    return program


def ask(machine: Program, now_ns: int, on_slow: Any) -> None:
    what = PLAIN if on_slow == "disconnect" else PERSISTENT
    machine.subscribe("type", what, now_ns, on_slow=on_slow)


def published(history: History, *, connection: int = 1, key: str = "b1", who: str = "one") -> int:
    publish = history.add((who, 1), PLAIN, key, is_remove=False, connection=connection)
    return publish.number


def publish(program: Node[Program], type_name: str, key: str, number: int) -> None:
    obj = TYPES[type_name](id=key, number=number)
    program.do(lambda m, now_ns: m.publish(obj, now_ns, only=["id", "number"], subject=""))


def test_an_unpublished_value_is_found(program: Node[Program]) -> None:
    history = History()
    history.announce(PLAIN, "b1", {"level": 1})
    checker = Genuine(history)
    assert checker.observed(program, seen(state={"level": 1})) is None
    fault = checker.observed(program, seen(state={"level": 2}))
    assert fault == "program received Boat b1 with level 2, which was not published"


def test_an_earlier_publish_after_a_later_one_is_found(program: Node[Program]) -> None:
    history = History()
    first, second = published(history), published(history, key="b2")
    checker = OrderKept(history)
    assert checker.observed(program, notified(second)) is None
    assert checker.observed(program, notified(second, subscription=2)) is None
    assert checker.observed(program, notified(first)) is not None
    fault = checker.observed(program, notified(first, subscription=2))
    assert fault is not None, "of one object the order is kept even when conflated"
    assert checker.observed(program, notified(first, subscription=2, id="b2")) is None


def test_replayed_and_removed_objects_have_no_order(program: Node[Program]) -> None:
    history = History()
    first, second = published(history), published(history)
    checker = OrderKept(history)
    assert checker.observed(program, notified(second)) is None
    assert checker.observed(program, notified(first, is_from_cache=True)) is None
    assert checker.observed(program, seen("remove")) is None


def test_an_update_that_is_missing_is_found(program: Node[Program]) -> None:
    history = History()
    numbers = [published(history) for _ in range(3)]
    checker = NothingLeftOut(history)
    assert checker.observed(program, notified(numbers[0])) is None
    fault = checker.observed(program, notified(numbers[2]))
    assert fault == f"program misses 1 updates before number {numbers[2]}"


def test_an_update_may_be_missing_of_types_that_may_be_refused(program: Node[Program]) -> None:
    history = History()
    numbers = [published(history) for _ in range(3)]
    checker = NothingLeftOut(history, [PERSISTENT])
    assert checker.observed(program, notified(numbers[0])) is None
    assert checker.observed(program, notified(numbers[2])) is None


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ({"is_replay_complete": False}, {}),
        ({}, {"turn": 2}),
        ({"subscription": 2}, {"subscription": 2}),
    ],
)
def test_an_update_may_be_missing_where_something_happened(
    program: Node[Program], first: dict[str, Any], last: dict[str, Any]
) -> None:
    history = History()
    numbers = [published(history) for _ in range(3)]
    checker = NothingLeftOut(history)
    assert checker.observed(program, notified(numbers[0], **first)) is None
    assert checker.observed(program, notified(numbers[2], **last)) is None


def test_an_update_may_be_missing_where_the_publisher_lost_its_connection(
    program: Node[Program],
) -> None:
    history = History()
    numbers = [published(history, connection=n) for n in (1, 1, 2)]
    checker = NothingLeftOut(history)
    assert checker.observed(program, notified(numbers[0])) is None
    assert checker.observed(program, notified(numbers[2])) is None


def test_consistent_events_are_accepted(program: Node[Program]) -> None:
    checker = ConsistentEvents()
    story = [
        seen(update={"level": 1, "number": 1}, state={"level": 1, "number": 1}),
        seen("update", update={"level": None, "number": 2}, state={"number": 2}),
        seen("update", update={"number": 3}, state={"number": 3}, is_from_cache=True),
        seen("remove", state={"number": 3}),
        seen(update={"number": 4}, state={"number": 4}),
        seen(type_name=MESSAGE),
        seen(type_name=MESSAGE),
    ]
    assert [checker.observed(program, event) for event in story] == [None] * len(story)
    assert checker.objects["program", 1, 1] == {(PLAIN, "b1"): {"number": 4}}


@pytest.mark.parametrize(
    "event",
    [
        seen("update", update={"number": 1}, state={"number": 1}, id="b2"),
        seen("remove", id="b2"),
        seen(update={"number": 1}, state={"number": 1}),
        seen("update", update={"level": 7}, state={"level": 7}),
        seen("update", update={"number": None}, state={"number": 1}),
        seen("remove", state={"number": 9}),
    ],
)
def test_a_story_that_makes_no_sense_is_found(program: Node[Program], event: Seen) -> None:
    checker = ConsistentEvents()
    assert checker.observed(program, seen(update={"number": 1}, state={"number": 1})) is None
    assert checker.observed(program, event) is not None


def test_a_subscriber_that_has_other_objects_is_found(
    world: World, node: Node[NodeHost], program: Node[Program]
) -> None:
    consistent = ConsistentEvents()
    checker = SameObjects("node", consistent)
    assert checker.liveness(world) is None
    publish(program, PLAIN, "b1", 1)
    world.run_for(MS)
    missing = checker.liveness(world)
    assert missing is not None
    assert "Boat b1 is None, at the node it is {'number': 1}" in missing
    consistent.objects["program", 1, 1] = {(PLAIN, "b1"): {"number": 1}}
    assert checker.liveness(world) is None
    store = program.machine.subscriptions[1].node_subscription.route.store  # type: ignore[union-attr]
    store.objects.clear()  # type: ignore[union-attr]
    assert (
        checker.liveness(world)
        == "program, type Boat: its container differs from the cache of the node"
    )
    world.crash(node)
    assert checker.liveness(world) == "node is down"


def test_a_program_that_is_not_back_is_waited_for(
    world: World, node: Node[NodeHost], program: Node[Program]
) -> None:
    checker = SameObjects("node", ConsistentEvents())
    world.restart(node, down_ns=MS)
    world.run_for(2 * MS)
    assert (
        checker.liveness(world)
        == "program has not reconnected, or its cache replay is not complete"
    )


def test_a_confirmed_object_that_is_missing_or_old_is_found(
    world: World, node: Node[NodeHost], program: Node[Program]
) -> None:
    history = History()
    checker = ConfirmedIsKept("node", history)
    for _ in range(2):
        checker.published(
            history.add(("program", 1), PERSISTENT, "k1", is_remove=False, connection=1)
        )
    checker.observed(program, Flushed(number=2))
    assert checker.safety(world) == "k1 does not exist, but number 2 was confirmed"
    publish(program, PERSISTENT, "k1", 1)
    world.run_for(MS)
    assert checker.safety(world) == "k1 is at number 1, but number 2 was confirmed"
    publish(program, PERSISTENT, "k1", 2)
    world.run_for(MS)
    assert objects_of(node.machine, PERSISTENT) == {"k1": {"number": 2}}
    assert checker.safety(world) is None
    checker.published(history.add(("program", 1), PERSISTENT, "k1", is_remove=True, connection=1))
    checker.observed(program, Flushed(number=3))
    assert checker.safety(world) == "k1 exists, but its removal by number 3 was confirmed"
    world.crash(node)
    assert checker.safety(world) is None, "no node can be examined"


def test_doubted_and_removed_objects_may_be_missing(
    world: World, node: Node[NodeHost], program: Node[Program]
) -> None:
    history = History()
    checker = ConfirmedIsKept("node", history)
    checker.published(history.add(("program", 1), PERSISTENT, "k1", is_remove=False, connection=1))
    checker.observed(program, Doubted(number=1))
    checker.observed(program, Flushed(number=1))
    assert checker.safety(world) is None
    checker.published(history.add(("program", 1), PERSISTENT, "k1", is_remove=False, connection=1))
    checker.observed(program, Flushed(number=2))
    assert checker.safety(world) is not None
    checker.published(history.add(("program", 1), PERSISTENT, "k1", is_remove=True, connection=1))
    assert checker.safety(world) is None


def test_an_object_of_a_disconnected_client_is_found(
    world: World, node: Node[NodeHost], program: Node[Program]
) -> None:
    checker = CleanedUp("node")
    publish(program, CLEANUP, "b1", 1)
    world.run_for(MS)
    assert node.machine.core.cache.count(CLEANUP) == 1
    assert checker.safety(world) is None
    ((_, entry),) = node.machine.core.cache.objects(CLEANUP)
    entry.modified_from = 999
    assert checker.safety(world) is not None
    world.crash(node)
    assert checker.safety(world) is None


def test_a_ledger_with_a_rest_is_found(
    world: World, node: Node[NodeHost], program: Node[Program]
) -> None:
    class Vague(NodeHost):
        def statistics(self) -> Any:
            notified = super().statistics()
            object.__setattr__(notified.types[0].ledger, "due", notified.types[0].ledger.due + 1)
            return notified

    assert Explained("node").safety(world) is None
    node.factory = Vague
    world.restart(node, down_ns=MS)
    assert Explained("node").safety(world) is None
    world.run_for(SECOND)
    fault = Explained("node").safety(world)
    assert fault is not None
    assert "1 updates are not explained" in fault


def test_unexplained_requests_are_found(
    world: World, node: Node[NodeHost], program: Node[Program]
) -> None:
    class Vague(NodeHost):
        def statistics(self) -> Any:
            return replace(super().statistics(), requests=RequestCounts(asked=2, open=1))

    node.factory = Vague
    world.restart(node, down_ns=MS)
    world.run_for(SECOND)
    fault = Explained("node").safety(world)
    assert fault is not None
    assert fault.startswith("1 requests are not explained: RequestCounts(asked=2")


def test_bytes_past_the_limit_are_found_at_the_node_and_at_the_stream(
    world: World, node: Node[NodeHost], program: Node[Program]
) -> None:
    checker = Bounded("node", 1000)
    assert checker.safety(world) is None
    (end,) = node.streams.values()
    node.machine.pause(end.peer)
    obj = TYPES[PLAIN](id="b1", note="." * 2000)
    program.do(lambda m, now_ns: m.publish(obj, now_ns, only=["id", "note"], subject=""))
    world.run_for(MS)
    fault = checker.safety(world)
    assert fault is not None
    assert "bytes wait for program at the node" in fault
    end.outgoing_bytes = 10_000_000
    assert Bounded("node", 10_000).safety(world) is not None
    world.crash(node)
    assert checker.safety(world) is None


@pytest.mark.parametrize(
    "event",
    [
        ClientDisconnected(client_id=2, name="program", reason="fault", detail="no"),
        ClientRefused(client_id=2, name="program", what="publish", detail="no"),
        Failed(detail="ValueError"),
        Refusal(what="publish", reason="no"),
        StateChanged(state=SpaceState.CLOSED, reason="over"),
        StateChanged(state=SpaceState.DISCONNECTED, reason="the node broke the protocol in x"),
    ],
)
def test_blame_is_found(program: Node[Program], event: MachineEvent) -> None:
    assert NobodyIsBlamed().observed(program, event) is not None


@pytest.mark.parametrize(
    "event",
    [
        ClientDisconnected(client_id=2, name="program", reason="lost"),
        ClientDisconnected(
            client_id=2, name="program", reason="fault", detail="(1) the node is silent"
        ),
        StateChanged(state=SpaceState.DISCONNECTED, reason="the connection broke"),
    ],
)
def test_faults_are_not_violations(program: Node[Program], event: MachineEvent) -> None:
    assert NobodyIsBlamed().observed(program, event) is None


def test_excused_reasons_are_not_violations(program: Node[Program]) -> None:
    checker = NobodyIsBlamed("it is owned", "wants to")
    excused = [
        ClientDisconnected(
            client_id=2, name="program", reason="refused", detail="b1: it is owned by 3"
        ),
        ClientRefused(client_id=2, name="program", what="publish", detail="it is owned"),
        Refusal(what="publish", reason="b1: it is owned"),
        StateChanged(state=SpaceState.CLOSED, reason="it wants to"),
    ]
    assert [checker.observed(program, event) for event in excused] == [None] * len(excused)
    assert checker.observed(program, Refusal(what="publish", reason="no")) is not None


def test_only_clients_without_conflation_may_be_disconnected(
    world: World, node: Node[NodeHost], program: Node[Program]
) -> None:
    lenient = world.add("lenient", Program)
    lenient.do(lambda m, now_ns: m.subscribe("type", PLAIN, now_ns, on_slow="conflate"))
    world.run_until(lambda: lenient.machine.is_steady)
    checker = ConflatedIsNotCut()
    cut = [
        ClientDisconnected(client_id=2, name=name, reason="slow") for name in ("program", "lenient")
    ]
    assert checker.observed(node, cut[0]) is None
    assert checker.observed(node, cut[1]) == "node disconnected lenient: "
