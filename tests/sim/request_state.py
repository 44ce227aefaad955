"""The state of claims and requests inside a node, and its consistency.

Only the simulator reads these private attributes. Some facts are stored more than once: a holder is
a claim, an entry of the topic, a published object, and the desk of a handler. These must never
differ, and all that is stored for a client must be removed when it disconnects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from skerry.engine.node import NodeCore
from skerry.engine.services.requests import REQUEST_WINDOW_COUNT, RequestTable
from skerry.objects.internal import internal_class
from tests.sim.request_history import TASKS

__all__ = ["Identity", "OpenCall", "Owner", "Seat", "State", "contradictions", "look"]

Owner: TypeAlias = tuple[int, int]
"""A client, and the number of its claim."""
Identity: TypeAlias = tuple[str, str | None, bytes | None]
"""The identity of a claim: a type, the name of a handler, the key of an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """The holder and the standbys of a claim."""

    kind: str
    subject: str
    holder: Owner
    standbys: tuple[Owner, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """A request that has not ended."""

    number: int
    """Number of the task."""
    asker: int
    asked_ns: int
    due_ns: int
    server: int
    """The client that received it; 0 while it waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Claims and requests of a node at one instant."""

    seats: dict[Identity, Seat]
    claims: frozenset[Owner]
    calls: tuple[OpenCall, ...]
    kept_for: frozenset[int]
    """Clients for which anything is stored."""


def look(core: NodeCore) -> State:
    """The current state of a node."""
    requests = _requests(core)
    ownership: Any = requests.ownership
    claims = [claim for mine in ownership._claims.values() for claim in mine.values()]
    given, asked = requests._forwarded, requests._by_requester
    return State(
        seats={
            identity: Seat(
                kind="objects" if place.handler is None else "requests",
                subject=place.subject,
                holder=_owner(place.holder),
                standbys=tuple(_owner(claim) for claim in place.standbys),
            )
            for identity, place in ownership._targets.items()
        },
        claims=frozenset(_owner(claim) for claim in claims),
        calls=tuple(_open_call(call) for calls in asked.values() for call in calls.values()),
        kept_for=frozenset(
            [*given, *asked, *ownership._claims, *requests._bytes, *requests._last_forwarded]
        ),
    )


def contradictions(core: NodeCore) -> Iterator[str]:
    """Descriptions of all inconsistencies."""
    state = look(core)
    present = {row.client_id for row in core.statistics().clients}
    for client_id in sorted(state.kept_for - present):
        yield f"state is stored for client {client_id}, which has disconnected"
    seated = [owner for seat in state.seats.values() for owner in (seat.holder, *seat.standbys)]
    if Counter(seated) != Counter(state.claims):
        yield f"claims are {sorted(state.claims)}, but holders and standbys are {sorted(seated)}"
    yield from _published(core, state)
    yield from _owners(core, state)
    yield from _request_queues(core, state)
    yield from _windows(core)
    yield from _bounds(core)


def _published(core: NodeCore, state: State) -> Iterator[str]:
    """Compare the published holders."""
    cls: Any = internal_class("SkerryHolder")
    objects = [cls.decode(entry.payload) for _, entry in core.cache.objects("SkerryHolder")]
    published = {(obj.kind.label, obj.subject): (obj.client, obj.standbys) for obj in objects}
    known = {
        (seat.kind, seat.subject): (seat.holder[0], len(seat.standbys))
        for seat in state.seats.values()
    }
    if published != known:
        yield f"published holders are {published}, but the claims are {known}"


def _owners(core: NodeCore, state: State) -> Iterator[str]:
    """What is asked at each update."""
    hub: Any = core._dispatcher
    noted = {
        (topic.name, None, key): client
        for topic in hub.topics.values()
        if topic.owners is not None
        for key, client in ({None: int(topic.owners.of_all)} | topic.owners.by_key).items()
        if client or key is not None
    }
    known = {
        identity: seat.holder[0] for identity, seat in state.seats.items() if identity[1] is None
    }
    if noted != known:
        yield f"owners at the topics are {noted}, but the claims are {known}"


def _request_queues(core: NodeCore, state: State) -> Iterator[str]:
    """Where requests wait."""
    desks = _requests(core)._queues
    at = {
        (name, handler, None): desk.window.client.client_id
        for (name, handler), desk in desks.items()
    }
    known = {
        identity: seat.holder[0]
        for identity, seat in state.seats.items()
        if identity[1] is not None
    }
    if at != known:
        yield f"desks are of {at}, but the claims are {known}"
    for desk in desks.values():
        if desk.waiting and desk.window.count < REQUEST_WINDOW_COUNT:
            yield f"{len(desk.waiting)} requests wait, but their handler has a free window"


def _windows(core: NodeCore) -> Iterator[str]:
    """What handlers were given."""
    for client_id, calls in _requests(core)._forwarded.items():
        counts = Counter(id(call.window) for call in calls.values())
        for call in calls.values():
            window = call.window
            assert window is not None
            count = counts[id(window)]
            if count > REQUEST_WINDOW_COUNT:
                yield f"client {client_id} received {count} requests at a time"
            # A closed window is not counted.
            if window.is_open and count != window.count:
                yield f"client {client_id} received {count} requests, {window.count} are counted"
            if call.is_over and not window.is_open:
                yield f"request {call.number} has ended, but is stored for client {client_id}"


def _bounds(core: NodeCore) -> Iterator[str]:
    """Check the bounds of requests and claims per client."""
    requests = _requests(core)
    ownership: Any = requests.ownership
    for calls in requests._by_requester.values():
        asker = next(iter(calls.values())).requester
        if len(calls) > asker.limits.request_count_max:
            yield f"client {asker.client_id} has {len(calls)} requests"
    for claims in ownership._claims.values():
        client = next(iter(claims.values())).client
        if len(claims) > client.limits.claim_count_max:
            yield f"client {client.client_id} has {len(claims)} claims"


def _requests(core: NodeCore) -> RequestTable:
    services: Any = core._services
    requests: RequestTable = services.requests
    return requests


def _owner(claim: Any) -> Owner:
    # A claim without a holder is not valid: (0, 0) shows as an additional claim.
    return (0, 0) if claim is None else (claim.client.client_id, claim.number)


def _open_call(call: Any) -> OpenCall:
    task: Any = TASKS[call.topic.name].decode(call.data)
    return OpenCall(
        number=task.number,
        asker=call.requester.client_id,
        asked_ns=call.asked_ns,
        due_ns=call.due_ns,
        server=0 if call.window is None else call.window.client.client_id,
    )
