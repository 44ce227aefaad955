"""The checkers of requests and claims, each with events that a test makes up."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.client.core.claims import ClaimState
from skerry.engine.events import ClientDisconnected, ClientRefused
from skerry.ids import NODE_CLIENT
from skerry.testing import MS, SECOND, Node, World
from skerry.testing.machines.program import PLAIN, Program
from tests.sim.request_checkers import (
    AskedInOrder,
    CarriedOutOnce,
    ClaimsAgree,
    EndedOnce,
    InTime,
    NobodyWasThere,
    NothingIsLeft,
    OneHolder,
    OwnedIsOwn,
    partners,
)
from tests.sim.request_history import TASKS, Asked, Tasks
from tests.sim.request_host import (
    HolderChanged,
    RequestCompleted,
    RequestHost,
    UpdateAccepted,
)
from tests.sim.request_program import RequestEnded, RequestProgram, RequestServed

Pair = tuple[Node[RequestProgram], ...]


def asked(tasks: Tasks, world: World, **facts: Any) -> int:
    number = tasks.next_number
    defaults: dict[str, Any] = {
        "asker": ("one", 1),
        "type_name": "Task",
        "handler": "port",
        "manner": "now",
        "timeout_ns": SECOND,
        "patience_ns": 0,
        "is_sure": False,
    }
    tasks.announce(Asked(number=number, asked_ns=world.now_ns, **{**defaults, **facts}))
    return number


def served(number: int, asker: int = 5, **facts: Any) -> RequestServed:
    return RequestServed(
        number=number, asker=asker, **{"type_name": "Task", "handler": "port", **facts}
    )


def answered(number: int, **facts: Any) -> RequestEnded:
    facts = {"outcome": "answered", "answer": number, "server": "two", **facts}
    return RequestEnded(number=number, **facts)


def ask_really(world: World, tasks: Tasks, one: Node[RequestProgram], manner: str) -> int:
    number = asked(tasks, world, manner=manner)
    task = TASKS["Task"](number=number, manner=manner)
    one.do(lambda m, now_ns: m.ask(task, now_ns, to="port", timeout_s=1.0))
    return number


def test_partners_are_the_programs_that_know_how_to_ask(
    world: World, host: Node[RequestHost], pair: Pair
) -> None:
    world.add("old-three", Program)
    assert partners(world, "node") == list(pair)


def test_a_request_that_ends_once_with_its_own_answer_is_fine(world: World, pair: Pair) -> None:
    tasks = Tasks()
    checker = EndedOnce(tasks)
    number = asked(tasks, world, is_sure=True)
    empty = asked(tasks, world, manner="empty")
    assert checker.liveness(world) == "2 requests have not ended"
    assert (
        checker.observed(pair[0], RequestCompleted(number=number, outcome="answered", server=3))
        is None
    )
    assert checker.observed(pair[0], answered(number)) is None
    assert checker.observed(pair[0], answered(empty, answer=None)) is None
    assert checker.liveness(world) is None


@pytest.mark.parametrize(
    ("who", "event"),
    [
        (0, answered(1, answer=2)),
        (0, answered(1, answer=None)),
        (0, RequestEnded(number=1, outcome="failed")),
        (0, answered(9)),
        (1, answered(1)),
    ],
)
def test_an_end_that_is_not_that_of_the_request_is_found(
    world: World, pair: Pair, who: int, event: RequestEnded
) -> None:
    tasks = Tasks()
    checker = EndedOnce(tasks)
    asked(tasks, world, is_sure=True)
    assert checker.observed(pair[who], event) is not None


@pytest.mark.parametrize(
    "event",
    [answered(1), RequestCompleted(number=1, outcome="answered", server=3)],
    ids=["asker", "node"],
)
def test_a_second_end_is_found(world: World, pair: Pair, event: Any) -> None:
    tasks = Tasks()
    checker = EndedOnce(tasks)
    asked(tasks, world)
    assert checker.observed(pair[0], event) is None
    assert checker.observed(pair[0], event) is not None


def test_a_late_request_is_found_while_its_program_waits(world: World, pair: Pair) -> None:
    one, _ = pair
    tasks = Tasks()
    checker = EndedOnce(tasks)
    asked(tasks, world, patience_ns=SECOND)
    world.run_for(2 * SECOND)
    assert checker.safety(world) is None
    world.run_for(20 * MS)
    assert checker.safety(world) == "request 1 of one has not ended in time"
    world.pause(one, SECOND)
    assert checker.safety(world) is None, "it cannot look at its clock"
    world.restart(one, down_ns=MS)
    assert checker.safety(world) is None
    assert checker.liveness(world) is None, "no client waits for it any more"


def test_requests_executed_twice_or_not_sent_are_found(world: World, pair: Pair) -> None:
    one, two = pair
    tasks = Tasks()
    checker = CarriedOutOnce(tasks)
    number = asked(tasks, world)
    assert checker.observed(two, served(number)) is None
    assert checker.observed(one, answered(number)) is None
    assert checker.observed(one, served(number)) == "one executes 1, which two executed before"
    assert checker.observed(one, served(7)) is not None
    other = asked(tasks, world)
    assert checker.observed(one, served(other, handler="")) is not None


def test_an_answer_of_the_wrong_program_is_found(world: World, pair: Pair) -> None:
    one, two = pair
    tasks = Tasks()
    checker = CarriedOutOnce(tasks)
    number = asked(tasks, world)
    assert checker.observed(one, answered(number)) is not None
    assert checker.observed(two, served(number)) is None
    assert checker.observed(one, answered(number, server="one")) is not None


@pytest.mark.parametrize("outcome", ["not_registered", "overflow", "blocked", "refused"])
def test_an_undelivered_request_is_not_executed(world: World, pair: Pair, outcome: str) -> None:
    one, two = pair
    tasks = Tasks()
    checker = CarriedOutOnce(tasks)
    before, after = asked(tasks, world), asked(tasks, world)
    assert checker.observed(two, served(before)) is None
    assert checker.observed(one, RequestEnded(number=before, outcome=outcome)) is not None
    assert checker.observed(one, RequestEnded(number=after, outcome=outcome)) is None
    assert checker.observed(two, served(after)) is not None


def test_requests_of_one_connection_out_of_order_are_found(world: World, pair: Pair) -> None:
    tasks = Tasks()
    checker = AskedInOrder(tasks)
    first, second = asked(tasks, world), asked(tasks, world)
    assert checker.observed(pair[1], served(second)) is None
    assert checker.observed(pair[1], served(first, asker=6)) is None
    assert checker.observed(pair[0], served(first)) is None
    assert checker.observed(pair[1], served(first)) == "two executes 1 of one after 2"


def test_a_request_that_is_open_for_too_long_is_found(
    world: World, host: Node[RequestHost], pair: Pair
) -> None:
    one, two = pair
    tasks = Tasks()
    checker = InTime("node", tasks)
    two.do(lambda m, now_ns: m.serve("Task", "port", now_ns, is_standby=False))
    world.run_for(MS)
    ask_really(world, tasks, one, "never")
    requests: Any = host.machine.core._services.requests
    requests.deadline_ns = lambda: None
    world.run_for(SECOND)
    assert checker.safety(world) is None
    world.run_for(20 * MS)
    fault = checker.safety(world)
    assert fault is not None
    assert "ms too long" in fault
    world.pause(host, SECOND)
    assert checker.safety(world) is None, "it cannot look at its clock"


def test_a_request_ends_half_a_second_after_its_handler_disconnected(
    world: World, host: Node[RequestHost], pair: Pair
) -> None:
    one, two = pair
    tasks = Tasks()
    checker = InTime("node", tasks)
    two.do(lambda m, now_ns: m.serve("Task", "port", now_ns, is_standby=False))
    world.run_for(MS)
    ask_really(world, tasks, one, "never")
    world.run_for(MS)
    gone = ClientDisconnected(
        client_id=two.machine.space.connection.client_id, name="two", reason="lost"
    )
    assert checker.observed(host, gone) is None
    world.run_for(500 * MS)
    assert checker.safety(world) is None
    world.run_for(20 * MS)
    assert checker.safety(world) is not None


def test_a_request_that_times_out_too_early_is_found(
    world: World, host: Node[RequestHost], pair: Pair
) -> None:
    one, _ = pair
    tasks = Tasks()
    checker = InTime("node", tasks)
    number = asked(tasks, world)
    early = RequestEnded(number=number, outcome="timed_out")
    world.run_for(900 * MS)
    assert checker.observed(one, early) is not None
    assert checker.observed(one, RequestEnded(number=number, outcome="failed")) is None
    assert (
        checker.observed(host, ClientDisconnected(client_id=9, name="two", reason="lost")) is None
    )
    assert checker.observed(one, early) is None, "it may have been given to who went"
    late = asked(tasks, world)
    world.run_for(SECOND)
    assert checker.observed(one, RequestEnded(number=late, outcome="timed_out")) is None


def test_inconsistent_state_of_the_node_is_found(
    world: World, host: Node[RequestHost], pair: Pair
) -> None:
    checker = OneHolder("node")
    assert checker.safety(world) is None
    host.machine.core._services.requests._forwarded[999] = {}
    assert checker.safety(world) is not None
    world.crash(host)
    assert checker.safety(world) is None


def test_an_update_of_an_object_of_another_owner_is_found(
    world: World, host: Node[RequestHost], pair: Pair
) -> None:
    checker = OwnedIsOwn()

    def takes(sender: int, key: str = "b1") -> str | None:
        return checker.observed(host, UpdateAccepted(type_name=PLAIN, id=key, sender=sender))

    def held(subject: str, client: int) -> None:
        taken = HolderChanged(kind="objects", subject=subject, client=client)
        assert checker.observed(host, taken) is None

    assert takes(5) is None
    held("/Boat", 6)
    assert takes(5) == "node accepted Boat b1 of client 5, but client 6 owns it"
    assert takes(6) is None
    assert takes(NODE_CLIENT) is None
    held("/Boat/b1", 5)
    assert takes(5) is None
    assert takes(6) is not None
    assert takes(6, "b2") is None
    held("/Boat/b1", 0)
    assert takes(6) is None
    world.restart(host, down_ns=MS)
    world.run_for(2 * MS)
    assert takes(5) is None, "claims go with the node"


def test_an_owner_that_is_refused_its_own_is_found(host: Node[RequestHost]) -> None:
    def refused(client: int) -> ClientRefused:
        detail = "/Boat/b1: it is owned by client 5"
        return ClientRefused(client_id=client, name="one", what="publish", detail=detail)

    assert OwnedIsOwn().observed(host, refused(6)) is None
    assert OwnedIsOwn().observed(host, refused(5)) is not None


def test_a_request_that_ends_for_want_of_a_handler_that_is_there_is_found(
    world: World, host: Node[RequestHost]
) -> None:
    tasks = Tasks()
    checker = NobodyWasThere(tasks)
    absent = RequestCompleted(number=asked(tasks, world), outcome="not_registered", server=0)
    assert checker.observed(host, absent) is None
    checker.observed(host, HolderChanged(kind="requests", subject="/Task/port", client=5))
    assert checker.observed(host, absent) is not None
    assert checker.observed(host, RequestCompleted(number=1, outcome="timed_out", server=0)) is None
    assert (
        checker.observed(host, RequestCompleted(number=1, outcome="not_registered", server=4))
        is None
    )
    checker.observed(host, HolderChanged(kind="requests", subject="/Task/port", client=0))
    assert checker.observed(host, absent) is None


def test_claims_with_another_state_at_the_node_are_found(
    world: World, host: Node[RequestHost], pair: Pair
) -> None:
    one, two = pair
    checker = ClaimsAgree("node")
    assert checker.liveness(world) is None
    for program in pair:
        program.do(lambda m, now_ns: m.serve("Task", "port", now_ns, is_standby=True))
        expected = f"{program.name}, requests Task as port: its state is not known"
        assert checker.liveness(world) == expected
        world.run_for(MS)
        assert checker.liveness(world) is None
    (held,), (standby,) = one.machine.claims, two.machine.claims
    assert (held.state, standby.state) == (ClaimState.HELD, ClaimState.STANDBY)
    held.state, standby.state = standby.state, held.state
    assert "at the node it is" in str(checker.liveness(world))
    held.state = ClaimState.LOST
    assert "ended, but not at the node" in str(checker.liveness(world))
    held.state, standby.state = ClaimState.HELD, ClaimState.STANDBY
    assert checker.liveness(world) is None
    one.machine.claims.clear()
    assert "no program has the claims" in str(checker.liveness(world))
    world.crash(two)
    assert "down" in str(checker.liveness(world))
    world.crash(host)
    assert checker.liveness(world) == "node is down"


def test_open_requests_and_clients_are_awaited(
    world: World, host: Node[RequestHost], pair: Pair
) -> None:
    one, two = pair
    checker = NothingIsLeft("node")
    assert checker.liveness(world) is None
    two.do(lambda m, now_ns: m.serve("Task", "port", now_ns, is_standby=False))
    world.run_for(MS)
    ask_really(world, Tasks(), one, "never")
    world.run_for(MS)
    assert checker.liveness(world) == "1 requests are open"
    world.crash(one)
    world.run_for(MS)
    assert checker.liveness(world) == "2 clients, but there are 2 programs"
    world.crash(host)
    assert checker.liveness(world) == "node is down"
