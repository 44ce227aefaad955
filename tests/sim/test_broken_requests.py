"""Nodes and programs that are wrong about requests and claims: each is caught by the right checker.

The faults are small mistakes that a developer may make: a request that is given to the next
handler once more, a claim that is not handed on, a time that is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import skerry.engine.services.requests
from skerry.engine.services.requests import RequestTable
from skerry.errors import SimulationError
from skerry.protocol.machine import Address, CloseReason
from skerry.testing import Factory, Setting, World
from tests.sim.request_host import RequestHost
from tests.sim.request_program import RequestEnded, RequestProgram
from tests.sim.requests import play_requests

SEED_COUNT = 40
"""Most are caught by the first."""

pytestmark = pytest.mark.slow


class Broken(RequestHost):
    """A node whose requests can be got at."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.requests: RequestTable = self.core._services.requests
        self.ownership: Any = self.requests.ownership
        self.spoil(self.requests)

    def spoil(self, requests: Any) -> None:
        """Make it worse."""


class EndsTwice(Broken):
    """Ends what timed out once more."""

    def spoil(self, requests: Any) -> None:
        trace = requests._trace

        def repeat(call: Any, outcome: str, *rest: Any) -> None:
            trace(call, outcome, *rest)
            if outcome == "timed_out":
                trace(call, outcome, *rest)

        requests._trace = repeat


class MixesUp(Broken):
    """Gives the answer to the last request but one, of another program maybe."""

    def spoil(self, requests: Any) -> None:
        respond = requests._respond
        answers: list[Any] = []

        def mix(client: Any, number: int, outcome: str, why: str, now_ns: int, answer: Any) -> None:
            if answer is not None:
                answers.append(answer)
                answer = answers[-2:][0]
            respond(client, number, outcome, why, now_ns, answer)

        requests._respond = mix


class GivesAgain(Broken):
    """Gives what a handler had when it went to the one that follows."""

    def spoil(self, requests: Any) -> None:
        changed = self.ownership._changed

        def give_again(place: Any, now_ns: int) -> None:
            desk = requests._queues.get((place.topic.name, place.handler))
            if desk is not None and place.holder is not None:
                given = requests._forwarded.get(desk.window.client.client_id, {})
                for call in list(given.values()):
                    if call.window is desk.window and not call.is_over:
                        del given[call.number]
                        call.window = None
                        desk.waiting[call.number] = call
            changed(place, now_ns)

        self.ownership._changed = give_again


class GivesTheLastFirst(Broken):
    """Gives a handler that has room what came last."""

    def spoil(self, requests: Any) -> None:
        give = requests._forward

        def turn(desk: Any, now_ns: int) -> None:
            if desk.waiting:
                desk.waiting.move_to_end(next(reversed(desk.waiting)), last=False)
            give(desk, now_ns)

        requests._forward = turn


class NeverTimesOut(Broken):
    """Ignores timeouts while a handler may still answer."""

    def spoil(self, requests: Any) -> None:
        requests.deadline_ns = lambda: None


class Impatient(Broken):
    """Waits half of the requested time."""

    def spoil(self, requests: Any) -> None:
        set_due = requests._due.set

        class Hurried:
            set = staticmethod(lambda call, ns: set_due(call, (call.asked_ns + ns) // 2))

            def __getattr__(self, name: str, due: Any = requests._due) -> Any:
                return getattr(due, name)

        requests._due = Hurried()


class WaitsForTheDead(Broken):
    """Waits for a handler that is gone as long as for one that is there."""

    def spoil(self, requests: Any) -> None:
        forget = requests.forget

        def wait(client: Any, now_ns: int) -> None:
            forget(client, now_ns)
            for calls in requests._by_requester.values():
                for call in calls.values():
                    requests._due.set(call, call.due_ns)

        requests.forget = wait


class KeepsForTheDead(Broken):
    """Keeps what a handler was given when it is gone."""

    def spoil(self, requests: Any) -> None:
        forget = requests.forget

        def keep(client: Any, now_ns: int) -> None:
            given = dict(requests._forwarded.get(client.client_id, {}))
            forget(client, now_ns)
            if given:
                requests._forwarded[client.client_id] = given

        requests.forget = keep


class GivesUp(Broken):
    """Takes a handler that has no room for one that is not there."""

    def spoil(self, requests: Any) -> None:
        give = requests._forward

        def give_up(desk: Any, now_ns: int) -> None:
            give(desk, now_ns)
            for call in list(desk.waiting.values()):
                requests._end(call, "not_registered", now_ns, "no room")

        requests._forward = give_up


class Boundless(Broken):
    """Lets a program ask as much as it likes."""

    def spoil(self, requests: Any) -> None:
        refuse = requests._refuse

        def let_pass(client: Any, message: Any, outcome: str, why: str, now_ns: int) -> None:
            if outcome != "overflow":
                refuse(client, message, outcome, why, now_ns)
                return
            topic = requests._types.topic(message.typeName)
            handler = message.handler or ""
            requests._begin(client, message, topic, handler, message.object, now_ns)

        requests._refuse = let_pass


class RefusesTheOwner(Broken):
    """Lets no client change objects of an owned type."""

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        super().receive(data, source, now_ns)
        for client in self.core._table.by_id.values():
            for topic in self.core._dispatcher.topics.values():
                if topic.owners is not None and topic.owners.of_all == client.client_id:
                    reason = f"/{topic.name}: it is owned by client {client.client_id}"
                    self.core.host.refuse(client, "publish", reason, now_ns)


class Miscounts(Broken):
    """Does not count what was asked in vain."""

    def spoil(self, requests: Any) -> None:
        refuse = requests._refuse

        def forget(*facts: Any) -> None:
            refuse(*facts)
            requests._asked_count -= 1

        requests._refuse = forget


class NeverHandsOn(Broken):
    """Leaves a claim without a holder while a standby waits for it."""

    def spoil(self, requests: Any) -> None:
        ownership = self.ownership
        release = ownership._release

        def leave(claim: Any, now_ns: int) -> None:
            standbys = claim.target.standbys
            if claim.target.holder is claim and standbys:
                ownership._forget_claim(claim)
                claim.target.holder = None
            else:
                release(claim, now_ns)

        ownership._release = leave


class TakesSilently(Broken):
    """Does not tell who has lost something."""

    def spoil(self, requests: Any) -> None:
        notify = self.ownership._notify

        def hush(client: Any, number: int, state: str, *rest: Any) -> None:
            if state != "lost":
                notify(client, number, state, *rest)

        self.ownership._notify = hush


class HasFriends(Broken):
    """Lets one program change what others own."""

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        topics = self.core._dispatcher.topics
        before = {name: topic.owners for name, topic in topics.items()}
        if source.host == "program-1":
            for topic in topics.values():
                topic.owners = None
        super().receive(data, source, now_ns)
        for name, owners in before.items():
            if source.host == "program-1" and topics[name].owners is None:
                topics[name].owners = owners


class NeverForgets(Broken):
    """Thinks that who is gone will be back on the same stream."""

    def stream_closed(self, peer: Address, reason: CloseReason, now_ns: int) -> None:
        if peer.host != "program-1":
            super().stream_closed(peer, reason, now_ns)


class AsksAgain(RequestProgram):
    """Asks once more what it does not know the outcome of."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        requests: Any = self.space.connection.requests

        def lost(why: str) -> None:
            for request in requests._waiting.values():
                request.is_sent = False

        requests.lost = lost


class HearsTwice(RequestProgram):
    """Hears of the end of each request twice."""

    def _end(self, number: int) -> None:
        super()._end(number)
        self._events.append(self._events[-1])


class WaitsForEver(RequestProgram):
    """Has no clock of its own."""

    def advance(self, now_ns: int) -> None:
        for what, number in list(self._due._due):
            if what == "ask":
                self._due.cancel((what, number))
        super().advance(now_ns)


class ClaimsOnce(RequestProgram):
    """Thinks that its claims live longer than the connection."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        claims: Any = self.space.connection.claims
        connected = claims.connected

        def stay(connection: Any, now_s: float) -> None:
            known, claims._claims = claims._claims, {}
            connected(connection, now_s)
            claims._claims = known

        claims.connected = stay


class Boasts(RequestProgram):
    """Reports an answer where the request was rejected as one too many."""

    def _end(self, number: int) -> None:
        super()._end(number)
        ended = self._events[-1]
        if isinstance(ended, RequestEnded) and ended.outcome == "overflow":
            self._events[-1] = RequestEnded(number=number, outcome="answered", answer=number)


def caught_by(play: Callable[[World, int], None], checker: str) -> set[str]:
    """The checkers that failed, up to the first seed with the one that should."""
    caught: set[str] = set()
    for seed in range(SEED_COUNT):
        try:
            play(World(seed), 6)
        except SimulationError as error:
            caught.add(error.checker)
        if checker in caught:
            break
    return caught


@pytest.mark.parametrize(
    ("host", "checker"),
    [
        (EndsTwice, "EndedOnce"),
        (MixesUp, "EndedOnce"),
        (GivesAgain, "CarriedOutOnce"),
        (GivesTheLastFirst, "AskedInOrder"),
        (NeverTimesOut, "InTime"),
        (Impatient, "InTime"),
        (WaitsForTheDead, "InTime"),
        (KeepsForTheDead, "OneHolder"),
        (GivesUp, "NobodyWasThere"),
        (Boundless, "OneHolder"),
        (RefusesTheOwner, "OwnedIsOwn"),
        (Miscounts, "Explained"),
        (NeverHandsOn, "OneHolder"),
        (TakesSilently, "ClaimsAgree"),
        (HasFriends, "OwnedIsOwn"),
        (NeverForgets, "NothingIsLeft"),
    ],
)
def test_a_broken_node_is_caught(host: Factory[RequestHost], checker: str) -> None:
    assert checker in caught_by(partial(play_requests, host=host), checker)


@pytest.mark.parametrize(
    ("program", "checker"),
    [
        (AsksAgain, "CarriedOutOnce"),
        (HearsTwice, "EndedOnce"),
        (WaitsForEver, "EndedOnce"),
        (ClaimsOnce, "ClaimsAgree"),
        (Boasts, "CarriedOutOnce"),
    ],
)
def test_a_broken_program_is_caught(program: Factory[RequestProgram], checker: str) -> None:
    assert checker in caught_by(partial(play_requests, program=program), checker)


def test_a_node_that_gives_a_handler_too_much_at_a_time_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(skerry.engine.services.requests, "REQUEST_WINDOW_COUNT", 15)
    assert "OneHolder" in caught_by(play_requests, "OneHolder")
