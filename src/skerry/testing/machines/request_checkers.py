"""Checkers of requests and claims."""

from __future__ import annotations

from typing import Any, Final

from skerry.client.core.claims import Claim, ClaimState
from skerry.engine.events import ClientDisconnected, ClientRefused
from skerry.engine.services.ownership import handler_subject
from skerry.ids import NODE_CLIENT
from skerry.protocol.machine import MachineEvent
from skerry.testing.checkers import Checker
from skerry.testing.machines.node_host import OLD_PREFIX
from skerry.testing.machines.request_history import Asked, Tasks
from skerry.testing.machines.request_host import HolderChanged, RequestCompleted, UpdateAccepted
from skerry.testing.machines.request_program import RequestEnded, RequestProgram, RequestServed
from skerry.testing.machines.request_state import State, contradictions, look
from skerry.testing.node import Node
from skerry.testing.world import MS, World

__all__ = [
    "AskedInOrder",
    "CarriedOutOnce",
    "ClaimsAgree",
    "EndedOnce",
    "InTime",
    "NobodyWasThere",
    "NothingIsLeft",
    "OneHolder",
    "OwnedIsOwn",
    "partners",
]

_NOT_GIVEN: Final = frozenset({"blocked", "not_registered", "overflow", "refused"})
"""Outcomes of requests that no handler received."""
_HANDLER_GONE_NS: Final = 500 * MS
"""Time after which a request ends when its handler has disconnected."""
_SLACK_NS: Final = 10 * MS
"""Error of the longest timeout with clock drift, plus the latency of the network."""


def partners(world: World, node_name: str) -> list[Node[RequestProgram]]:
    """The programs that send and answer requests: those of version 2."""
    return [
        node
        for name, node in world.nodes.items()
        if name != node_name and not name.startswith(OLD_PREFIX)
    ]


class EndedOnce(Checker):
    """Each request ends once, in time, and with its own answer."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._ended: set[int] = set()
        self._over: set[int] = set()

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, RequestCompleted):
            return self._is_over(event)
        if not isinstance(event, RequestEnded):
            return None
        number = event.number
        asked = self._tasks.asked.get(number)
        if asked is None or asked.asker != (node.name, node.life):
            return f"{node.name} received the end of request {number}, which it did not send"
        if number in self._ended:
            return f"request {number} of {node.name} ended again, {event.outcome}"
        self._ended.add(number)
        del self._tasks.open[number]
        if asked.is_sure and event.outcome != "answered":
            return f"request {number} of {node.name} ended {event.outcome} without faults"
        if event.answer is not None and event.answer != number:
            return f"request {number} of {node.name} has the answer to {event.answer}"
        if event.outcome == "answered" and (event.answer is None) != (asked.manner == "empty"):
            return f"the answer of request {number} of {node.name} has an unexpected object or none"
        return None

    def safety(self, world: World) -> str | None:
        for number, asked in list(self._tasks.open.items()):
            node = world.nodes[asked.asker[0]]
            if (node.name, node.life) != asked.asker or not node.is_up:
                # The program that could be notified has ended.
                del self._tasks.open[number]
            elif _is_awake(node) and _late_ns(world, asked) > asked.patience_ns + _SLACK_NS:
                return f"request {number} of {node.name} has not ended in time"
        return None

    def liveness(self, world: World) -> str | None:
        self.safety(world)
        count = len(self._tasks.open)
        return f"{count} requests have not ended" if count else None

    def _is_over(self, event: RequestCompleted) -> str | None:
        if event.number in self._over:
            return f"request {event.number} ended again at the node, {event.outcome}"
        self._over.add(event.number)
        return None


class CarriedOutOnce(Checker):
    """Answered requests were executed once, undelivered ones never, and none twice."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._served: dict[int, str] = {}
        self._not_given: set[int] = set()

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, RequestServed):
            return self._carried_out(node, event)
        if isinstance(event, (RequestEnded, RequestCompleted)):
            return self._ended(event)
        return None

    def _carried_out(self, node: Node[Any], event: RequestServed) -> str | None:
        number = event.number
        asked = self._tasks.asked.get(number)
        if asked is None or (asked.type_name, asked.handler) != (event.type_name, event.handler):
            return f"{node.name} executes {number}, which was not sent to {event.handler!r}"
        if number in self._served:
            return f"{node.name} executes {number}, which {self._served[number]} executed before"
        self._served[number] = node.name
        if number in self._not_given:
            return f"{node.name} executes {number}, which was reported as not delivered"
        return None

    def _ended(self, event: RequestEnded | RequestCompleted) -> str | None:
        server = self._served.get(event.number)
        if event.outcome in _NOT_GIVEN:
            self._not_given.add(event.number)
            if server is not None:
                return f"request {event.number} ended {event.outcome}, but {server} received it"
        if event.outcome != "answered":
            return None
        if server is None:
            return f"request {event.number} was answered, but not executed"
        if isinstance(event, RequestEnded) and event.answer is not None and event.server != server:
            return (
                f"request {event.number} was answered by {event.server}, but {server} received it"
            )
        return None


class AskedInOrder(Checker):
    """A handler executes the requests of one connection in the order of sending."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._last: dict[tuple[object, ...], int] = {}

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if not isinstance(event, RequestServed):
            return None
        asker = self._tasks.asked[event.number].asker
        at = (node.name, node.life, asker, event.asker, event.type_name, event.handler)
        last = self._last.get(at, 0)
        self._last[at] = event.number
        if event.number > last:
            return None
        return f"{node.name} executes {event.number} of {asker[0]} after {last}"


class InTime(Checker):
    """A node ends requests at their timeout, or soon after their handler disconnected."""

    def __init__(self, node_name: str, tasks: Tasks) -> None:
        self._node_name = node_name
        self._tasks = tasks
        self._disconnected_ns: dict[tuple[int, int], int] = {}
        """Times of disconnections, by the life of the node and the client."""
        self._last_disconnected_ns = 0
        """World time of the last disconnection."""

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, ClientDisconnected):
            self._disconnected_ns[node.life, event.client_id] = node.now_ns
            self._last_disconnected_ns = node.world.now_ns
        if not isinstance(event, RequestEnded) or event.outcome != "timed_out":
            return None
        asked = self._tasks.asked[event.number]
        late_ns = _late_ns(node.world, asked)
        if late_ns > -_SLACK_NS or self._last_disconnected_ns >= asked.asked_ns:
            return None
        return f"request {event.number} timed out {-late_ns / MS:g} ms too early"

    def safety(self, world: World) -> str | None:
        node = world.nodes[self._node_name]
        if not _is_awake(node):
            return None
        for call in look(node.machine.core).calls:
            due_ns = call.asked_ns + self._tasks.asked[call.number].timeout_ns
            gone_ns = self._disconnected_ns.get((node.life, call.server))
            if gone_ns is not None:
                due_ns = min(due_ns, gone_ns + _HANDLER_GONE_NS)
            if node.now_ns > due_ns + _SLACK_NS:
                return f"request {call.number} is open {(node.now_ns - due_ns) / MS:g} ms too long"
        return None


class OneHolder(Checker):
    """Each claim has one holder, and the state of claims and requests is consistent."""

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name

    def safety(self, world: World) -> str | None:
        node = world.nodes[self._node_name]
        return next(contradictions(node.machine.core), None) if node.is_up else None


class _Holders:
    """Holders of claims, as the observer of a node received them."""

    def __init__(self) -> None:
        self._clients: dict[tuple[int, str, str], int] = {}

    def note(self, node: Node[Any], event: HolderChanged) -> None:
        self._clients[node.life, event.kind, event.subject] = event.client

    def holder(self, node: Node[Any], kind: str, subject: str) -> int:
        """The client, or 0. Claims end with the life of the node."""
        return self._clients.get((node.life, kind, subject), 0)


class OwnedIsOwn(Checker):
    """Only updates of the owner of an object are accepted, and these always."""

    def __init__(self) -> None:
        self._holders = _Holders()

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, HolderChanged):
            self._holders.note(node, event)
        if isinstance(event, ClientRefused):
            is_own = event.detail.endswith(f" owned by client {event.client_id}")
            return f"{node.name} refused its owner {event.detail}" if is_own else None
        if not isinstance(event, UpdateAccepted) or event.sender == NODE_CLIENT:
            return None
        of_type = f"/{event.type_name}"
        owner = self._holders.holder(node, "objects", f"{of_type}/{event.id}")
        owner = owner or self._holders.holder(node, "objects", of_type)
        if owner in (0, event.sender):
            return None
        what = f"{event.type_name} {event.id}"
        return f"{node.name} accepted {what} of client {event.sender}, but client {owner} owns it"


class NobodyWasThere(Checker):
    """A request ends as not registered only while it has no handler."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._holders = _Holders()

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, HolderChanged):
            self._holders.note(node, event)
        if not isinstance(event, RequestCompleted) or event.outcome != "not_registered":
            return None
        if event.server:
            # It was sent to a handler that had just closed and returned it.
            return None
        asked = self._tasks.asked[event.number]
        subject = handler_subject(asked.type_name, asked.handler)
        client = self._holders.holder(node, "requests", subject)
        if not client:
            return None
        return f"request {event.number} ended without a handler, but client {client} is its handler"


class ClaimsAgree(Checker):
    """Liveness: the claims of each program have the same state at the node."""

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name

    def liveness(self, world: World) -> str | None:
        node = world.nodes[self._node_name]
        if not node.is_up:
            return f"{node.name} is down"
        state = look(node.machine.core)
        wanted = set()
        for other in partners(world, self._node_name):
            if not other.is_up:
                return f"{other.name} is down"
            client = other.machine.space.connection.client_id
            for claim in other.machine.claims:
                fault = _disagreement(state, client, claim)
                if fault is not None:
                    return f"{other.name}, {claim}: {fault}"
                if claim.state in (ClaimState.HELD, ClaimState.STANDBY):
                    wanted.add((client, claim.number))
        unknown = state.claims - wanted
        return f"no program has the claims {sorted(unknown)}" if unknown else None


class NothingIsLeft(Checker):
    """Liveness: no request is open, and no disconnected client is left."""

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name

    def liveness(self, world: World) -> str | None:
        node = world.nodes[self._node_name]
        if not node.is_up:
            return f"{node.name} is down"
        statistics = node.machine.statistics()
        # The observer and every program.
        if statistics.client_count != len(world.nodes):
            return (
                f"{statistics.client_count} clients, but there are {len(world.nodes) - 1} programs"
            )
        if statistics.requests.open:
            return f"{statistics.requests.open} requests are open"
        return None


def _disagreement(state: State, client: int, claim: Claim) -> str | None:
    owner = (client, claim.number)
    seat = state.seats.get(claim.identity)
    if claim.state is ClaimState.ASKED:
        return "its state is not known"
    if claim.state is ClaimState.HELD:
        return None if seat is not None and seat.holder == owner else f"at the node it is {seat}"
    if claim.state is ClaimState.STANDBY:
        return None if seat is not None and owner in seat.standbys else f"at the node it is {seat}"
    return "it has ended, but not at the node" if owner in state.claims else None


def _is_awake(node: Node[Any]) -> bool:
    """Whether it runs and has no passed deadline."""
    is_behind = node.timer_ns is not None and node.timer_ns <= node.world.now_ns
    return node.is_running and not is_behind


def _late_ns(world: World, asked: Asked) -> int:
    """Time since the timeout of a request."""
    return world.now_ns - asked.asked_ns - asked.timeout_ns
