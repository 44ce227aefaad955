"""A client program that also sends and answers requests, and claims objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from skerry.client.core.claims import Claim, ClaimState
from skerry.client.core.received_requests import ReceivedRequest
from skerry.client.core.requests import Request
from skerry.errors import WouldBlock
from skerry.objects.base import Struct
from skerry.protocol.deadlines import Deadlines
from skerry.protocol.machine import Address, MachineEvent
from skerry.testing.machines.program import TYPES, Program
from skerry.testing.node import Setting
from tests.sim.request_history import TASKS

__all__ = ["ClaimStateChanged", "RequestEnded", "RequestProgram", "RequestServed"]

_OUTCOMES: Final = {
    "Disconnected": "lost",
    "NotRegistered": "not_registered",
    "Refused": "refused",
    "RequestError": "failed",
    "RequestTimedOut": "timed_out",
    "WouldBlock": "overflow",
}
_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEnded(MachineEvent):
    """A request of this program has ended."""

    number: int
    outcome: str
    answer: int | None = None
    """The number in the answer; None without an object."""
    server: str = ""
    """The program that the answer names."""
    is_ours: bool = False
    """Whether the program stopped waiting by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestServed(MachineEvent):
    """This program received a request and executes it."""

    number: int
    asker: int
    """The requesting client, as reported by the node."""
    type_name: str
    handler: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimStateChanged(MachineEvent):
    """The state of a claim of this program changed."""

    number: int
    what: str
    state: str


class RequestProgram(Program):
    """A program that answers requests in the manner that they state."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.claims: list[Claim] = []
        """All claims that it did not release, in order."""
        self._name = setting.name
        self._now_ns = setting.now_ns
        self._asked: dict[int, Request] = {}
        self._calls: dict[int, ReceivedRequest] = {}
        """Unanswered requests by number."""
        self._due: Deadlines[tuple[str, int]] = Deadlines()

    # -- actions

    def ask(
        self, task: Any, now_ns: int, *, to: str, timeout_s: float, patience_ns: int = 0
    ) -> None:
        """Send a request to a handler. Wait `patience_ns` longer than the timeout."""
        number = task.number
        try:
            request = self.space.requests_and_claims.request(
                task, now_ns, to=to, timeout_s=timeout_s
            )
        except WouldBlock:
            self._events.append(RequestEnded(number=number, outcome="blocked"))
            return
        self._asked[number] = request
        self._due.set(("ask", number), request.due_ns + patience_ns)
        request.wake = partial(self._end, number)
        if request.is_done:
            self._end(number)

    def serve(self, type_name: str, name: str, now_ns: int, *, is_standby: bool) -> None:
        """Claim to answer requests of a type under a name."""
        claim = self.space.requests_and_claims.claim_requests(
            TASKS[type_name],
            self._execute,
            now_ns,
            name=name,
            is_standby=is_standby,
            on_change=lambda: self._report([claim]),
        )
        self._add([claim])

    def own(
        self, type_name: str, keys: Sequence[str] | None, now_ns: int, *, is_standby: bool
    ) -> None:
        """Claim objects, or all objects of a type."""
        claims = self.space.requests_and_claims.claim_objects(
            TYPES[type_name],
            keys,
            now_ns,
            is_standby=is_standby,
            on_change=lambda: self._report(claims),
        )
        self._add(claims)

    def release(self, claim: Claim, now_ns: int) -> None:
        """Release a claim, or remove one that has ended."""
        self.claims.remove(claim)
        self.space.requests_and_claims.release_claims([claim], now_ns)

    def claims_already(self, type_name: str, handler: str | None, key: str | None = None) -> bool:
        """Whether it has such a claim that has not ended."""
        wanted = (type_name, handler, key)
        return any(
            (claim.type_.name, claim.handler, claim.key) == wanted
            for claim in self.claims
            if claim.state not in (ClaimState.LOST, ClaimState.REFUSED)
        )

    def answer_all(self, now_ns: int) -> None:
        """Answer all unanswered requests."""
        self._now_ns = now_ns
        for number in list(self._calls):
            self._answer(number)

    def close(self, now_ns: int) -> None:
        self.space.close(now_ns)

    @property
    def open_count(self) -> int:
        """Number of requests without an answer."""
        return len(self._asked)

    # -- the machine's contract

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        self._now_ns = now_ns
        super().receive(data, source, now_ns)

    def advance(self, now_ns: int) -> None:
        """Send due answers, and stop waiting for overdue ones."""
        self._now_ns = now_ns
        super().advance(now_ns)
        for (what, number), _ in self._due.take_due(now_ns):
            if what == "answer":
                self._answer(number)
            else:
                self.space.connection.requests.forget(self._asked.pop(number))
                self._events.append(RequestEnded(number=number, outcome="timed_out", is_ours=True))

    def deadline_ns(self) -> int | None:
        due = (super().deadline_ns(), self._due.next_ns())
        return min((ns for ns in due if ns is not None), default=None)

    # -- inside

    def _end(self, number: int) -> None:
        request = self._asked.pop(number)
        self._due.cancel(("ask", number))
        answer: Any = request.answer
        self._events.append(
            RequestEnded(
                number=number,
                outcome="answered" if request.error is None else _outcome(request.error),
                answer=None if answer is None else answer.number,
                server="" if answer is None else answer.server,
            )
        )

    def _execute(self, call: ReceivedRequest) -> None:
        task: Any = TASKS[call.type_name].decode(call.payload)
        number: int = task.number
        self._events.append(
            RequestServed(
                number=number, asker=call.client, type_name=call.type_name, handler=call.handler
            )
        )
        if task.manner == "fail":
            self.space.requests_and_claims.fail(call, "as it was asked to", self._now_ns)
        elif task.manner == "empty":
            self.space.requests_and_claims.answer(call, None, self._now_ns)
        else:
            self._calls[number] = call
            if task.manner == "now":
                self._answer(number)
            elif task.manner == "late":
                self._due.set(("answer", number), self._now_ns + task.delayMs * _MS)

    def _answer(self, number: int) -> None:
        self._due.cancel(("answer", number))
        call = self._calls.pop(number)
        result: Struct = TASKS["Result"](number=number, server=self._name)
        self.space.requests_and_claims.answer(call, result, self._now_ns)

    def _add(self, claims: Sequence[Claim]) -> None:
        # A new claim replaces one with the same identity that has ended.
        known = {claim.identity for claim in claims}
        self.claims = [claim for claim in self.claims if claim.identity not in known]
        self.claims += claims

    def _report(self, claims: Sequence[Claim]) -> None:
        self._events += [
            ClaimStateChanged(number=claim.number, what=str(claim), state=str(claim.state))
            for claim in claims
        ]


def _outcome(error: Exception) -> str:
    return _OUTCOMES[type(error).__name__]
