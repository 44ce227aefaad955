"""A program that asks and answers: in the manner that is asked for, and as long as it waits."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.client.core.claims import ClaimState
from skerry.limits import REQUEST_COUNT_MAX
from skerry.testing import MS, SECOND, Node, World
from skerry.testing.machines.program import PLAIN
from tests.sim.request_history import TASKS
from tests.sim.request_host import RequestHost
from tests.sim.request_program import (
    ClaimStateChanged,
    RequestEnded,
    RequestProgram,
    RequestServed,
)

Pair = tuple[Node[RequestProgram], ...]


def ask(program: Node[RequestProgram], number: int, manner: str = "now", **options: Any) -> None:
    task = TASKS["Task"](number=number, manner=manner, delayMs=50)
    options = {"to": "port", "timeout_s": 1.0, **options}
    program.do(lambda machine, now_ns: machine.ask(task, now_ns, **options))


def serve(program: Node[RequestProgram], *, is_standby: bool = False) -> None:
    program.do(lambda m, now_ns: m.serve("Task", "port", now_ns, is_standby=is_standby))


def own(program: Node[RequestProgram], keys: list[str] | None, *, is_standby: bool = False) -> None:
    program.do(lambda m, now_ns: m.own(PLAIN, keys, now_ns, is_standby=is_standby))


def notified(program: Node[RequestProgram], kind: type[Any]) -> list[Any]:
    return [event for event in program.events if isinstance(event, kind)]


def test_a_request_is_executed_and_its_answer_reported(world: World, pair: Pair) -> None:
    one, two = pair
    serve(two)
    world.run_for(MS)
    ask(one, 7)
    world.run_for(MS)
    client = one.machine.space.connection.client_id
    assert notified(two, RequestServed) == [
        RequestServed(number=7, asker=client, type_name="Task", handler="port")
    ]
    assert notified(one, RequestEnded) == [
        RequestEnded(number=7, outcome="answered", answer=7, server="two")
    ]
    assert one.machine.open_count == 0


def test_a_request_is_answered_in_the_manner_that_it_asks_for(world: World, pair: Pair) -> None:
    one, two = pair
    serve(two)
    world.run_for(MS)
    for number, manner in enumerate(["empty", "fail", "late", "never"]):
        ask(one, number, manner)
    world.run_for(10 * MS)
    assert notified(one, RequestEnded) == [
        RequestEnded(number=0, outcome="answered"),
        RequestEnded(number=1, outcome="failed"),
    ]
    world.run_for(50 * MS)
    assert notified(one, RequestEnded)[2:] == [
        RequestEnded(number=2, outcome="answered", answer=2, server="two")
    ]
    assert one.machine.open_count == 1
    two.do(lambda machine, now_ns: machine.answer_all(now_ns))
    world.run_for(MS)
    assert notified(one, RequestEnded)[3:] == [
        RequestEnded(number=3, outcome="answered", answer=3, server="two")
    ]


def test_failures_of_requests_are_reported(
    world: World, host: Node[RequestHost], pair: Pair
) -> None:
    one, two = pair
    ask(one, 1)
    world.run_for(MS)
    serve(two)
    world.run_for(MS)
    ask(one, 2, "never", timeout_s=0.1, patience_ns=SECOND)
    ask(one, 3, "never", timeout_s=0.1)
    world.run_for(SECOND)
    ask(one, 4, "never")
    world.run_for(MS)
    world.crash(host)
    world.run_for(MS)
    ended = {event.number: (event.outcome, event.is_ours) for event in notified(one, RequestEnded)}
    assert ended == {
        1: ("not_registered", False),
        2: ("timed_out", False),
        3: ("timed_out", True),
        4: ("lost", False),
    }


@pytest.mark.slow
def test_too_many_requests_are_blocked_and_refused(world: World, pair: Pair) -> None:
    one, _ = pair
    serve(one)
    for number in range(REQUEST_COUNT_MAX + 1):
        ask(one, number, "never")
    assert notified(one, RequestEnded) == [
        RequestEnded(number=REQUEST_COUNT_MAX, outcome="blocked")
    ]
    world.run_for(100 * MS)
    outcomes = [event.outcome for event in notified(one, RequestEnded)]
    assert "overflow" in outcomes


def test_states_of_claims_are_reported(world: World, host: Node[RequestHost], pair: Pair) -> None:
    one, two = pair
    serve(one)
    world.run_for(MS)
    serve(two, is_standby=True)
    own(two, ["b1", "b2"])
    world.run_for(MS)
    assert [event.state for event in notified(one, ClaimStateChanged)] == ["held"]
    standby, first, second = two.machine.claims
    assert (standby.state, first.state, second.state) == ("standby", "held", "held")
    assert two.machine.claims_already("Task", "port")
    assert two.machine.claims_already(PLAIN, None, "b1")
    assert not two.machine.claims_already(PLAIN, None)
    (claim,) = one.machine.claims
    one.do(lambda machine, now_ns: machine.release(claim, now_ns))
    world.run_for(MS)
    assert one.machine.claims == []
    assert standby.state is ClaimState.HELD
    world.crash(host)
    world.run_for(MS)
    assert {claim.state for claim in two.machine.claims} == {ClaimState.ASKED}
    assert notified(two, ClaimStateChanged)[-1].state == "asked"


def test_a_claim_that_is_lost_can_be_made_again(world: World, pair: Pair) -> None:
    one, two = pair
    own(one, None)
    world.run_for(MS)
    own(two, None)
    world.run_for(MS)
    assert [claim.state for claim in one.machine.claims] == [ClaimState.LOST]
    assert not one.machine.claims_already(PLAIN, None)
    own(one, None)
    world.run_for(MS)
    assert [claim.state for claim in one.machine.claims] == [ClaimState.HELD]


def test_closing_sends_a_goodbye(world: World, host: Node[RequestHost], pair: Pair) -> None:
    one, _ = pair
    serve(one)
    world.run_for(MS)
    one.do(lambda machine, now_ns: machine.close(now_ns))
    world.run_for(MS)
    assert host.machine.statistics().ends == {"goodbye": 1}
    assert host.machine.statistics().held_count == 0
