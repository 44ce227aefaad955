"""The examined state of a node: it is complete, and contradictions are reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from skerry.engine.services.requests import REQUEST_WINDOW_COUNT
from skerry.testing import MS, Node, World
from skerry.testing.machines.program import PLAIN
from tests.sim.request_history import TASKS
from tests.sim.request_host import REQUEST_LIMITS, RequestHost
from tests.sim.request_program import RequestProgram
from tests.sim.request_state import OpenCall, Seat, contradictions, look

Pair = tuple[Node[RequestProgram], ...]


def ask(program: Node[RequestProgram], number: int) -> None:
    task = TASKS["Task"](number=number, manner="never")
    program.do(lambda m, now_ns: m.ask(task, now_ns, to="port", timeout_s=1.0))


@pytest.fixture
def requests(world: World, host: Node[RequestHost], pair: Pair) -> Any:
    """Those of a node where one serves and two stands by, two owns, and two has asked too much."""
    one, two = pair
    one.do(lambda m, now_ns: m.serve("Task", "port", now_ns, is_standby=False))
    world.run_for(MS)
    two.do(lambda m, now_ns: m.serve("Task", "port", now_ns, is_standby=True))
    two.do(lambda m, now_ns: m.own(PLAIN, ["b1"], now_ns, is_standby=False))
    for number in range(REQUEST_WINDOW_COUNT + 1):
        ask(two, number)
    world.run_for(MS)
    assert list(contradictions(host.machine.core)) == []
    return host.machine.core._services.requests


def test_holders_claims_and_open_requests_are_seen(
    host: Node[RequestHost], pair: Pair, requests: Any
) -> None:
    first, second = (program.machine.space.connection.client_id for program in pair)
    state = look(host.machine.core)
    claims = pair[1].machine.claims
    assert state.seats == {
        ("Task", "port", None): Seat(
            kind="requests", subject="/Task/port", holder=(first, 1), standbys=((second, 1),)
        ),
        (PLAIN, None, claims[1].canonical_key): Seat(
            kind="objects", subject="/Boat/b1", holder=(second, 2), standbys=()
        ),
    }
    assert state.claims == {(first, 1), (second, 1), (second, 2)}
    assert [call.number for call in state.calls] == list(range(REQUEST_WINDOW_COUNT + 1))
    assert {call.asker for call in state.calls} == {second}
    assert [call.server for call in state.calls[-2:]] == [first, 0]
    call: OpenCall = state.calls[0]
    assert call.due_ns - call.asked_ns == 1000 * MS
    assert state.kept_for == {first, second}


def drop_claim(requests: Any) -> None:
    claims = requests.ownership._claims
    claims.pop(next(iter(claims)))


def keep_for_nobody(requests: Any) -> None:
    requests._forwarded[999] = {}


def leave_without_holder(requests: Any) -> None:
    next(iter(requests.ownership._targets.values())).holder = None


def forget_owner(requests: Any) -> None:
    requests._types.topic(PLAIN).owners = None


def own_more(requests: Any) -> None:
    requests._types.topic(PLAIN).owners.of_all = 5


def report_another(requests: Any) -> None:
    place = next(iter(requests.ownership._targets.values()))
    place.standbys.append(place.standbys[0])
    requests.ownership._publish(place, requests._node.clock.now_ns)
    place.standbys.pop()


def close_desk(requests: Any) -> None:
    requests._queues.clear()


def count_less(requests: Any) -> None:
    next(iter(requests._queues.values())).window.count -= 1


def give_more(requests: Any) -> None:
    (desk,) = requests._queues.values()
    (call,) = desk.waiting.values()
    desk.waiting.clear()
    call.window = desk.window
    desk.window.count += 1
    requests._forwarded[desk.window.client.client_id][call.number] = call


def keep_over(requests: Any) -> None:
    (desk,) = requests._queues.values()
    desk.window.is_open = False
    next(iter(requests._forwarded[desk.window.client.client_id].values())).is_over = True


def ask_more(requests: Any) -> None:
    (calls,) = requests._by_requester.values()
    call = next(iter(calls.values()))
    calls.update((100 + n, call) for n in range(REQUEST_LIMITS.request_count_max))


def claim_more(requests: Any) -> None:
    *_, claims = requests.ownership._claims.values()
    claim = next(iter(claims.values()))
    claims.update((100 + n, claim) for n in range(REQUEST_LIMITS.claim_count_max))


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (drop_claim, "holders and standbys are"),
        (keep_for_nobody, "state is stored for client 999, which has disconnected"),
        (leave_without_holder, "(0, 0)"),
        (forget_owner, "owners at the topics are {}"),
        (own_more, "owners at the topics are"),
        (report_another, "published holders are"),
        (close_desk, "desks are of {}"),
        (count_less, "1 requests wait, but their handler has a free window"),
        (
            count_less,
            f"received {REQUEST_WINDOW_COUNT} requests, {REQUEST_WINDOW_COUNT - 1} are counted",
        ),
        (give_more, f"received {REQUEST_WINDOW_COUNT + 1} requests at a time"),
        (keep_over, "has ended, but is stored for client"),
        (ask_more, "requests"),
        (claim_more, "claims"),
    ],
)
def test_inconsistencies_are_reported(
    host: Node[RequestHost], requests: Any, spoil: Callable[[Any], None], text: str
) -> None:
    spoil(requests)
    assert any(text in fault for fault in contradictions(host.machine.core))
